"""A store on a real PostgreSQL, where something is wrong."""

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest

from tests.postgres import PostgresServer
from turnout.calls import CallType
from turnout.decisions.aggregates import Partition, ScoreAggregateQuery
from turnout.errors import SchemaMismatchError, StorageError, StorageLockedError
from turnout.storage import schema
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row
from turnout.storage.schema.postgres_shape import shape

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUERY: Final = ScoreAggregateQuery((Partition("a", None, None),), CallType.REGULAR, NOON, NOON)


def a_row(**known: Any) -> Row:
    identity = str(uuid4())
    full = (identity, identity, 1, "primary", NOON, "scope", "a", "A", None, None, "regular", True, "ok")
    row = Row(*full, None, None, 1.0, 1.0, 0.0, None, None, None, None, "unknown", None, None)
    return row._replace(**known)


@pytest.fixture
def store(postgres_ledger: str) -> Iterator[PostgresMetricsStore]:
    with closing(PostgresMetricsStore(postgres_ledger)) as store:
        yield store


@pytest.fixture
def administrator(postgres_ledger: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_ledger, autocommit=True) as connection:
        yield connection


@contextmanager
def a_role(server: PostgresServer, url: str, *grants: str) -> Iterator[str]:
    """The URL for a new role that has these grants and no other."""
    name, database = f"r{uuid4().hex}", url.partition("@/")[2].partition("?")[0]
    server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hidden-word'")
    try:
        for grant in grants:
            server.execute(f"GRANT {grant} TO {name}", database=database)
        yield server.url(database, user=name, password="hidden-word")
    finally:
        server.start()
        others = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '{name}'"
        server.execute(f"{others}; DROP OWNED BY {name}; DROP ROLE {name}", database=database)


# The schema's USAGE is everyone's by default.
GRANTS: Final = (
    "USAGE ON SCHEMA public",
    "INSERT, SELECT ON provider_attempts",
    "SELECT ON turnout_schema_versions",
)


def test_a_role_with_the_grants_that_are_documented_can_do_everything(
    postgres: PostgresServer, postgres_ledger: str
) -> None:
    with a_role(postgres, postgres_ledger, *GRANTS) as url, closing(PostgresMetricsStore(url)) as store:
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
        a_role(postgres, postgres_ledger, *granted) as url,
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
        with a_role(postgres, postgres_ledger, *GRANTS) as url, closing(PostgresMetricsStore(url)) as store:
            row = a_row()
            for _ in range(2):
                store.record_attempts([row])
            assert store.query_recent(since=NOON) == [row]
    finally:
        administrator.execute("DROP POLICY everyone ON provider_attempts")
        administrator.execute("ALTER TABLE provider_attempts DISABLE ROW LEVEL SECURITY")


def test_versions_that_row_level_security_hides_are_told_from_none(
    postgres: PostgresServer, postgres_ledger: str, administrator: psycopg.Connection
) -> None:
    administrator.execute("ALTER TABLE turnout_schema_versions ENABLE ROW LEVEL SECURITY")
    try:
        with (
            a_role(postgres, postgres_ledger, *GRANTS) as url,
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


def backends(administrator: psycopg.Connection) -> set[int]:
    found = administrator.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'turnout'"
    )
    return {pid for (pid,) in found.fetchall()}


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.record_attempts([a_row()]),
        lambda store: store.query_recent(since=NOON),
        lambda store: store.query_score_aggregates(QUERY),
    ],
    ids=["write", "read", "scores"],
)
def test_a_connection_that_was_lost_while_unused_is_replaced_unseen(
    store: PostgresMetricsStore, administrator: psycopg.Connection, use: Callable[[PostgresMetricsStore], Any]
) -> None:
    use(store)
    for pid in backends(administrator):
        administrator.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    use(store)
    assert backends(administrator)


def test_a_server_that_is_gone_and_comes_back(postgres: PostgresServer, store: PostgresMetricsStore) -> None:
    first, second = a_row(), a_row(started_at=NOON.replace(hour=13))
    store.record_attempts([first])
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(
                StorageError, match=r"postgresql://postgres@/.*cannot be connected to.*whether it runs"
            ):
                store.record_attempts([second])
    finally:
        postgres.start()
    store.record_attempts([second])
    assert store.query_recent(since=NOON) == [first, second]


@pytest.mark.parametrize("pool_mode", ["direct", "session_pooler", "transaction_pooler"])
def test_a_statement_that_takes_too_long_is_given_up(postgres_url: str, pool_mode: str) -> None:
    config = {"statement_timeout_seconds": 0.05, "pool_mode": pool_mode}
    with (
        closing(PostgresMetricsStore(postgres_url, config)) as store,
        psycopg.connect(postgres_url, autocommit=True) as owner,
    ):
        owner.execute(schema.whole(schema.StorageBackend.POSTGRES).encode())
        owner.execute(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql "
            "AS 'BEGIN IF NEW.provider_id = ''slow'' THEN PERFORM pg_sleep(50); END IF; RETURN NEW; END'"
        )
        owner.execute(
            "CREATE TRIGGER slow BEFORE INSERT ON provider_attempts FOR EACH ROW EXECUTE FUNCTION dawdle()"
        )
        for _ in range(2):
            with pytest.raises(StorageError, match="raise statement_timeout_seconds"):
                store.record_attempts([a_row(), a_row(provider_id="slow")])
        store.record_attempts([a_row()])
        assert len(store.query_recent(since=NOON)) == 1


@pytest.mark.parametrize("pool_mode", ["direct", "transaction_pooler"])
def test_a_table_that_somebody_holds_is_not_waited_for(
    postgres_ledger: str, administrator: psycopg.Connection, pool_mode: str
) -> None:
    config = {"statement_timeout_seconds": 0.05, "pool_mode": pool_mode}
    with closing(PostgresMetricsStore(postgres_ledger, config)) as store:
        store.record_attempts([a_row()])
        with administrator.transaction():
            administrator.execute("LOCK TABLE provider_attempts")
            for use in (lambda: store.record_attempts([a_row()]), lambda: store.query_recent(since=NOON)):
                with pytest.raises(StorageLockedError, match="try again later"):
                    use()
        store.record_attempts([a_row()])
        assert len(store.query_recent(since=NOON)) == 2


def test_who_waits_too_long_for_a_connection_is_told_what_to_raise(
    postgres_ledger: str, administrator: psycopg.Connection
) -> None:
    config = {"max_pool_size": 1, "checkout_timeout_seconds": 0.05, "statement_timeout_seconds": 30}
    with (
        ThreadPoolExecutor(1, "writer") as writer,
        closing(PostgresMetricsStore(postgres_ledger, config)) as store,
    ):
        store.record_attempts([a_row()])
        with administrator.transaction():
            administrator.execute("LOCK TABLE provider_attempts")
            busy = writer.submit(store.record_attempts, [a_row()])
            while not waits_for_a_lock(administrator):
                pass
            with pytest.raises(StorageError, match="raise checkout_timeout_seconds or max_pool_size"):
                store.query_recent(since=NOON)
        busy.result(30)
        assert len(store.query_recent(since=NOON)) == 2


def waits_for_a_lock(administrator: psycopg.Connection) -> bool:
    # Within a transaction, the view would go on telling what it told first.
    administrator.execute("SELECT pg_stat_clear_snapshot()")
    waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'turnout' AND wait_event_type = 'Lock'"
    return administrator.execute(waiting).fetchone() is not None


def test_a_server_that_says_nothing_is_given_up(
    postgres_ledger: str, administrator: psycopg.Connection
) -> None:
    config = {"connect_timeout_seconds": 0.1, "statement_timeout_seconds": 0.1}
    with closing(PostgresMetricsStore(postgres_ledger, config)) as store:
        row = a_row()
        store.record_attempts([row])
        stopped = backends(administrator)
        with ExitStack() as goes_on:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
                goes_on.callback(os.kill, pid, signal.SIGCONT)
            with pytest.raises(StorageError, match="says nothing"):
                store.query_recent(since=NOON)
            assert store.query_recent(since=NOON) == [row]


def test_what_is_lost_on_the_way_of_a_replay_is_not_lost(store: PostgresMetricsStore) -> None:
    old = [a_row() for _ in range(3)]
    store.record_attempts(old)
    twice = a_row(provider_id="first")
    store.record_attempts([*old, twice, twice._replace(provider_id="second"), a_row()])
    kept = {row.attempt_id: row for row in store.query_recent(since=NOON)}
    assert len(kept) == 5
    assert kept[twice.attempt_id] == twice


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


def test_a_store_that_is_closed_leaves_no_thread_and_no_connection(
    store: PostgresMetricsStore, administrator: psycopg.Connection
) -> None:
    store.record_attempts([a_row()])
    mine = [thread for thread in threading.enumerate() if thread.name.startswith("turnout-postgres-")]
    assert mine
    assert all(thread.daemon for thread in mine)
    store.close()
    assert not any(thread.is_alive() for thread in mine)
    assert not backends(administrator)


def test_a_store_that_is_closed_amid_use_ends_what_runs_and_refuses_the_rest(
    store: PostgresMetricsStore,
) -> None:
    stop = threading.Event()

    def use() -> int:
        done = 0
        while not stop.is_set():
            store.record_attempts([a_row()])
            done += 1
        return done

    with ThreadPoolExecutor(4, "writer") as writers:
        running = [writers.submit(use) for _ in range(4)]
        while len(store.query_recent(since=NOON)) < 40:
            pass
        store.close()
        for one in running:
            with pytest.raises(StorageError, match="is closed"):
                one.result(30)


def test_a_store_that_is_released_amid_use_goes_on(store: PostgresMetricsStore) -> None:
    with ThreadPoolExecutor(4, "writer") as writers:
        running = [writers.submit(store.record_attempts, [a_row()]) for _ in range(60)]
        for _ in range(5):
            store.release()
        for one in running:
            one.result(30)
    assert len(store.query_recent(since=NOON)) == 60
