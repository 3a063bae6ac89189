"""Whoever uses a ledger in PostgreSQL keeps it from being migrated, and is named; who comes later finds out."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from tests.ledgers import NOON, Ledger, a_row
from turnout.errors import SchemaMismatchError, StorageLockedError
from turnout.storage import schema
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.schema import StorageBackend, admin_postgres, migration
from turnout.storage.schema.admin import migrate_database

#: Back to version 1, so that what a store of version 2 uses can be migrated.
BACK = (
    "DROP VIEW provider_failovers; DROP INDEX provider_attempts_history; "
    "UPDATE turnout_schema_versions SET version = 1"
)
AHEAD = "UPDATE turnout_schema_versions SET version = 3"


@pytest.fixture
def ledger(postgres_url: str) -> Ledger:
    return Ledger(StorageBackend.POSTGRES, postgres_url)


@pytest.fixture(autouse=True)
def waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_postgres, "_LOCK_SECONDS", 0.02)


def pid_of(store: PostgresMetricsStore) -> str:
    return str(store._pool.run(lambda connection: connection.info.backend_pid))


@pytest.mark.parametrize("pool_mode", ["direct", "session_pooler"])
def test_a_router_that_is_at_rest_keeps_its_ledger_from_being_migrated_and_is_named(
    ledger: Ledger, pool_mode: str
) -> None:
    ledger.make(rows=[a_row()])
    with closing(PostgresMetricsStore(ledger.place, {"pool_mode": pool_mode})) as store:
        store.record_attempts([a_row(2)])
        pid = pid_of(store)
        ledger.script(BACK)
        with pytest.raises(StorageLockedError, match="stop every program that uses it") as refused:
            migrate_database("postgres", ledger.place)
        assert f"is in use by process {pid} (turnout, role postgres)" in str(refused.value)
        assert f"SELECT pg_terminate_backend({pid})" in str(refused.value)
        assert ledger.content().versions == {"metrics": 1}
        # At once: nobody had to wait behind the migration.
        store.record_attempts([a_row(3)])
    assert migrate_database("postgres", ledger.place).changed
    assert len(ledger.content().rows) == 3


@contextmanager
def reading(ledger: Ledger) -> Iterator[int]:
    with psycopg.connect(ledger.place, application_name="a report") as reader:
        reader.execute("SELECT count(*) FROM provider_attempts")
        yield reader.info.backend_pid


def test_a_plain_read_under_way_keeps_it_from_being_migrated_and_is_named(ledger: Ledger) -> None:
    ledger.make(1, [a_row()])
    with reading(ledger) as pid, pytest.raises(StorageLockedError) as refused:
        migrate_database("postgres", ledger.place)
    assert f"is in use by process {pid} (a report, role postgres)" in str(refused.value)
    assert migrate_database("postgres", ledger.place).changed


def test_nobody_reads_or_writes_amid_a_step(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.make(1, [a_row()])
    require, refused = migration.require_step, []

    def tried_meanwhile(*given: Any) -> None:
        for statement in ("SELECT * FROM provider_attempts", "DELETE FROM provider_attempts"):
            with psycopg.connect(ledger.place) as other:
                other.execute("SET lock_timeout = 20")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute(statement.encode())
            refused.append(statement)
        require(*given)

    monkeypatch.setattr("turnout.storage.schema.admin_postgres.require_step", tried_meanwhile)
    assert migrate_database("postgres", ledger.place).changed
    assert len(refused) == 2


def test_a_connection_that_comes_later_finds_out_what_became_of_the_ledger(ledger: Ledger) -> None:
    ledger.make(rows=[a_row()])
    with closing(PostgresMetricsStore(ledger.place)) as store:
        store.record_attempts([a_row(2)])
        assert store._pool._pool is not None
        # As a pool does for one whose time was over.
        pool, first = store._pool._pool, store._pool._pool.getconn()
        ledger.script(AHEAD)
        with pytest.raises(SchemaMismatchError, match="Upgrade turnout"):
            store.record_attempts([a_row(3)])
        pool.putconn(first)
        with pytest.raises(SchemaMismatchError, match="Upgrade turnout"):
            store.record_attempts([a_row(3)])
    assert len(ledger.content().rows) == 2


def test_behind_a_pooler_of_transactions_the_next_one_finds_out(ledger: Ledger) -> None:
    ledger.make(rows=[a_row()])
    with closing(PostgresMetricsStore(ledger.place, {"pool_mode": "transaction_pooler"})) as store:
        store.record_attempts([a_row(2)])
        ledger.script(BACK)
        for use in (lambda: store.record_attempts([a_row(3)]), lambda: store.query_recent(since=NOON)):
            with pytest.raises(SchemaMismatchError, match=r"is of version 1; .*storage migrate"):
                use()
        assert migrate_database("postgres", ledger.place).changed
        store.record_attempts([a_row(4)])
    assert len(ledger.content().rows) == 3


def test_a_ledger_of_another_schema_is_in_nobodys_way(ledger: Ledger) -> None:
    ledger.make(rows=[a_row()])
    ledger.script("CREATE SCHEMA ours")
    ours = Ledger(StorageBackend.POSTGRES, f"{ledger.place}&options=-csearch_path%3Dours")
    ours.script(schema.whole(StorageBackend.POSTGRES, 1))
    with closing(PostgresMetricsStore(ledger.place)) as store:
        store.record_attempts([a_row(2)])
        assert migrate_database("postgres", ours.place).changed
