"""A store on a real PostgreSQL, where something is wrong."""

import socket
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg
import pytest

from tests.postgres import PostgresServer
from turnout.calls import CallType
from turnout.decisions.aggregates import ScoreAggregateQuery
from turnout.errors import SchemaMismatchError, StorageError
from turnout.storage import postgres as stores
from turnout.storage import schema
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.postgres_copy import copy_data
from turnout.storage.schema.postgres_shape import shape
from turnout.testing.store_conformance.histories import NOON, PARTITION, a_row

QUERY: Final = ScoreAggregateQuery((PARTITION,), CallType.STREAMING, NOON, NOON)


@pytest.fixture
def store(postgres_ledger: str) -> Iterator[PostgresMetricsStore]:
    with closing(PostgresMetricsStore(postgres_ledger)) as store:
        yield store


@pytest.fixture
def administrator(postgres_ledger: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_ledger, autocommit=True) as connection:
        yield connection


# The schema's USAGE is everyone's by default.
GRANTS: Final = (
    "USAGE ON SCHEMA public",
    "INSERT, SELECT ON provider_attempts",
    "SELECT ON turnout_schema_versions",
)


def test_a_role_with_the_grants_that_are_documented_can_do_everything(
    postgres: PostgresServer, postgres_ledger: str
) -> None:
    with postgres.role(postgres_ledger, *GRANTS) as url, closing(PostgresMetricsStore(url)) as store:
        first, second = a_row(), a_row()
        store.record_attempts([first])
        store.record_attempts([first, second])
        assert len(store.query_recent(since=NOON)) == 2
        assert store.query_score_aggregates(QUERY)[0].attempt_weight == 2.0


@pytest.mark.parametrize("missing", GRANTS[1:])
def test_a_role_without_a_grant_is_told_which_it_needs(
    postgres: PostgresServer, postgres_ledger: str, missing: str
) -> None:
    granted = [grant for grant in GRANTS if grant != missing]
    with (
        postgres.role(postgres_ledger, *granted) as url,
        closing(PostgresMetricsStore(url)) as store,
        pytest.raises(StorageError, match=r"permission denied.*GRANT this role USAGE.*INSERT and SELECT"),
    ):
        store.record_attempts([a_row()])


def test_rows_go_in_under_row_level_security_too(
    postgres: PostgresServer, postgres_ledger: str, administrator: psycopg.Connection
) -> None:
    administrator.execute("ALTER TABLE provider_attempts ENABLE ROW LEVEL SECURITY")
    administrator.execute("CREATE POLICY everyone ON provider_attempts USING (true) WITH CHECK (true)")
    try:
        with postgres.role(postgres_ledger, *GRANTS) as url, closing(PostgresMetricsStore(url)) as store:
            row = a_row()
            for _ in range(2):
                store.record_attempts([row])
            assert store.query_recent(since=NOON) == [row]
            assert not store._copies
    finally:
        administrator.execute("DROP POLICY everyone ON provider_attempts")
        administrator.execute("ALTER TABLE provider_attempts DISABLE ROW LEVEL SECURITY")


def test_rows_that_a_policy_refuses_ask_for_a_policy_and_not_for_a_grant(
    postgres: PostgresServer, postgres_ledger: str, administrator: psycopg.Connection
) -> None:
    administrator.execute("ALTER TABLE provider_attempts ENABLE ROW LEVEL SECURITY")
    try:
        with postgres.role(postgres_ledger, *GRANTS) as url, closing(PostgresMetricsStore(url)) as store:
            with pytest.raises(StorageError, match=r"row-level security.*CREATE POLICY") as refused:
                store.record_attempts([a_row()])
            assert "GRANT" not in str(refused.value)
    finally:
        administrator.execute("ALTER TABLE provider_attempts DISABLE ROW LEVEL SECURITY")


def test_a_session_that_takes_no_writes_is_given_up_for_one_that_may(
    postgres: PostgresServer, postgres_ledger: str
) -> None:
    with (
        postgres.role(postgres_ledger, *GRANTS) as url,
        closing(PostgresMetricsStore(url)) as store,
    ):
        role = url.partition("//")[2].partition(":")[0]
        postgres.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        assert store.query_recent(since=NOON) == []
        postgres.execute(f"ALTER ROLE {role} RESET default_transaction_read_only")
        with pytest.raises(StorageError, match="it takes no writes: name the primary"):
            store.record_attempts([a_row()])
        store.record_attempts([a_row()])
        assert len(store.query_recent(since=NOON)) == 1


def test_a_server_that_goes_amid_a_batch_says_nothing_beside_the_error(
    store: PostgresMetricsStore,
    administrator: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = [a_row() for _ in range(500)]
    whole = b"".join(copy_data(rows))

    def goes_amid(*_: Any) -> Iterator[bytes]:
        yield whole[:20]
        administrator.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        while True:
            yield whole[20:]

    monkeypatch.setattr(stores, "copy_data", goes_amid)
    with pytest.raises(StorageError):
        store.record_attempts(rows)
    assert [record.getMessage() for record in caplog.records] == []


def test_versions_that_row_level_security_hides_are_told_from_none(
    postgres: PostgresServer, postgres_ledger: str, administrator: psycopg.Connection
) -> None:
    administrator.execute("ALTER TABLE turnout_schema_versions ENABLE ROW LEVEL SECURITY")
    try:
        with (
            postgres.role(postgres_ledger, *GRANTS) as url,
            closing(PostgresMetricsStore(url)) as store,
            pytest.raises(SchemaMismatchError, match="row level security"),
        ):
            store.record_attempts([a_row()])
    finally:
        administrator.execute("ALTER TABLE turnout_schema_versions DISABLE ROW LEVEL SECURITY")


def test_a_database_of_something_else_is_refused_and_left_untouched(
    postgres: PostgresServer, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for made in ("SELECT", "CREATE TABLE provider_attempts (attempt_id uuid PRIMARY KEY)"):
            connection.execute(made.encode())
            before = shape(connection)
            with closing(PostgresMetricsStore(postgres_url)) as store:
                for _ in range(2):
                    with pytest.raises(SchemaMismatchError, match=r"postgresql://postgres@/.*left untouched"):
                        store.record_attempts([a_row()])
                with pytest.raises(SchemaMismatchError):
                    store.query_recent(since=NOON)
            assert shape(connection) == before


def test_a_database_that_is_mended_is_taken_at_the_next_use(postgres_url: str) -> None:
    with closing(PostgresMetricsStore(postgres_url)) as empty, psycopg.connect(postgres_url) as connection:
        with pytest.raises(SchemaMismatchError):
            empty.record_attempts([a_row()])
        connection.execute(schema.whole(schema.StorageBackend.POSTGRES).encode())
        connection.commit()
        empty.record_attempts([a_row()])


@pytest.mark.parametrize("pool_mode", ["direct", "transaction_pooler"])
def test_a_replay_keeps_what_is_new_and_the_first_of_two(
    postgres_ledger: str, pool_mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(PostgresMetricsStore(postgres_ledger, {"pool_mode": pool_mode})) as store:
        old = [a_row() for _ in range(3)]
        store.record_attempts(old)
        twice = a_row(provider_id="first")
        store.record_attempts([*old, twice, twice._replace(provider_id="second"), a_row()])
        kept = {row.attempt_id: row for row in store.query_recent(since=NOON)}
    assert len(kept) == 5
    assert kept[twice.attempt_id] == twice
    # The pool tells of connections that come back amid something.
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


@pytest.mark.parametrize(
    "value",
    [
        {"attempt_number": 2**31},
        {"http_status": 2**31},
        {"input_tokens": 2**63},
        {"error_code": "nul \0"},
        {"error_code": 7},
        {"success": "yes"},
        {"latency_ms": "1"},
        {"started_at": None},
        {"attempt_id": None},
    ],
)
def test_a_value_that_does_not_fit_keeps_its_batch_out(
    store: PostgresMetricsStore, value: dict[str, Any]
) -> None:
    # In its own chunk of what is sent, after others have been.
    batch = [*(a_row() for _ in range(600)), a_row(**value)]
    with pytest.raises(StorageError):
        store.record_attempts(batch)
    assert store.query_recent(since=NOON) == []
    store.record_attempts(batch[:-1])
    assert len(store.query_recent(since=NOON)) == 600


def test_a_filter_that_is_no_text_of_a_database_is_an_error(store: PostgresMetricsStore) -> None:
    for text in ("nul \0", "lone surrogate \ud800"):
        with pytest.raises(StorageError, match="does not fit"):
            store.query_recent(since=NOON, model=text)


@contextmanager
def a_server_without_tls() -> Iterator[str]:
    """The URL of one that says no to encryption, and would take the password as it is."""
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as listening,
        ThreadPoolExecutor(1, "server") as answers,
    ):

        def answer() -> bytes:
            connection, _ = listening.accept()
            with connection:
                connection.recv(8)
                connection.sendall(b"N")
                return connection.recv(1000)

        sent = answers.submit(answer)
        yield f"postgresql://app:hidden-word@127.0.0.1:{listening.getsockname()[1]}/d"
        assert b"app" not in sent.result(30)


def test_a_server_without_tls_is_refused_before_it_is_told_anything() -> None:
    with (
        a_server_without_tls() as url,
        closing(PostgresMetricsStore(url)) as store,
        pytest.raises(StorageError, match=r"SSL.*have the server speak TLS.*allow_unencrypted=True"),
    ):
        store.query_recent(since=NOON)


def test_no_error_shows_the_password(postgres: PostgresServer, postgres_ledger: str) -> None:
    url = postgres_ledger.replace("postgres@", "postgres:hidden-word@")
    wrong = {
        "no such host": "postgresql://app:hidden-word@nowhere.invalid/d",
        "nobody listens": "postgresql://app:hidden-word@127.0.0.1:1/d",
        "no such option": f"{url}&hidden-word=1",
        "no such database": url.replace("/t", "/no_t"),
        "a password that the driver shows": f"{url}&gssencmode=hidden-word",
    }
    for what, each in wrong.items():
        with closing(PostgresMetricsStore(each)) as store:
            with pytest.raises(StorageError) as failed:
                store.query_recent(since=NOON)
            shown = "".join(traceback.format_exception(failed.value))
            assert "hidden-word" not in shown.replace(repr(each), ""), what
            assert "***@" in shown
