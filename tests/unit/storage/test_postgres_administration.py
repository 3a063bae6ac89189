"""What administration does in PostgreSQL alone: roles, locks, search paths, and no backup."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.ledgers import NOON, Ledger, a_row
from tests.postgres import PostgresServer
from turnout.errors import (
    ConfigError,
    DatabaseExistsError,
    SchemaMismatchError,
    StorageDriverMissingError,
    StorageError,
    StorageLockedError,
)
from turnout.storage import schema
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.schema import StorageBackend, admin_postgres, migration
from turnout.storage.schema.admin import create_database, inspect_database, migrate_database
from turnout.storage.schema.facts import SchemaState

OUTDATED = SchemaState.OUTDATED


@pytest.fixture
def ledger(postgres_url: str) -> Ledger:
    return Ledger(StorageBackend.POSTGRES, postgres_url)


def test_a_database_without_the_tables_holds_none_and_is_not_touched(ledger: Ledger) -> None:
    ledger.script("CREATE TABLE mine (x integer)")
    found = inspect_database("postgres", ledger.place)
    assert (found.state, found.versions, found.is_default) == (SchemaState.ABSENT, (), False)
    assert "turnout storage create --backend postgres" in found.next_action
    with pytest.raises(SchemaMismatchError, match="storage create --backend postgres"):
        migrate_database("postgres", ledger.place)
    assert ledger.ask("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == [
        ("mine",)
    ]


def test_the_url_is_taken_from_its_variable_and_its_password_shown_nowhere(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = ledger.place.replace("postgres@", "postgres:s3cret-word@")
    monkeypatch.setenv("TURNOUT_POSTGRES_URL", url)
    created = create_database("postgres")
    found = inspect_database("postgres")
    migrated = migrate_database("postgres")
    assert created.is_default
    assert found.is_default
    assert (migrated.is_default, migrated.changed) == (True, False)
    assert ":***@" in found.target
    assert "s3cret-word" not in f"{created} {found} {migrated}"
    monkeypatch.setenv("TURNOUT_POSTGRES_URL", url.replace("port=5432", "port=5433"))
    with pytest.raises(StorageError, match=r"cannot be connected to") as caught:
        inspect_database("postgres")
    assert "s3cret-word" not in str(caught.value)
    monkeypatch.delenv("TURNOUT_POSTGRES_URL")
    with pytest.raises(ConfigError, match="TURNOUT_POSTGRES_URL"):
        inspect_database("postgres")


def test_an_unencrypted_way_must_be_confirmed(ledger: Ledger) -> None:
    url = f"{ledger.place}&sslmode=disable"
    with pytest.raises(ConfigError, match="allow_unencrypted"):
        inspect_database("postgres", url)
    assert inspect_database("postgres", url, config={"allow_unencrypted": True}).state is SchemaState.ABSENT
    with pytest.raises(ConfigError, match="config= is for postgres"):
        inspect_database("sqlite", "x", config={"allow_unencrypted": True})


@pytest.mark.parametrize("there", ["turnout_schema_versions (x integer)", "provider_attempts ()"])
def test_nothing_is_made_where_either_table_is(ledger: Ledger, there: str) -> None:
    ledger.script(f"CREATE TABLE {there}")
    shape = ledger.ask("SELECT relname, relnatts FROM pg_class WHERE relnamespace = 'public'::regnamespace")
    with pytest.raises(DatabaseExistsError, match=r"cannot be made in .*; nothing was changed\. "):
        create_database("postgres", ledger.place)
    assert (
        ledger.ask("SELECT relname, relnatts FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        == shape
    )


def test_what_is_current_already_is_neither_made_nor_migrated(ledger: Ledger) -> None:
    ledger.make(rows=[a_row()])
    before = ledger.content()
    with pytest.raises(DatabaseExistsError, match="is of version 2"):
        create_database("postgres", ledger.place)
    assert not migrate_database("postgres", ledger.place).changed
    assert ledger.content() == before


def test_the_tables_are_made_in_the_first_schema_of_the_search_path(ledger: Ledger) -> None:
    ledger.script("CREATE SCHEMA ours")
    url = f"{ledger.place}&options=-csearch_path%3Dours"
    create_database("postgres", url)
    assert inspect_database("postgres", url).state is SchemaState.CURRENT
    assert inspect_database("postgres", ledger.place).state is SchemaState.ABSENT
    assert ledger.ask("SELECT count(*) FROM ours.provider_failovers") == [(0,)]


def test_a_step_that_fails_is_undone(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.make(1, [a_row()])
    before = ledger.content()
    (step,) = migration.route(StorageBackend.POSTGRES, 1)
    broken = step._replace(script=f"{step.script} SELECT nonsense;")
    monkeypatch.setattr(migration, "route", lambda *given: [broken])
    with pytest.raises(StorageError, match=r"is of version 1 still: .*nonsense"):
        migrate_database("postgres", ledger.place)
    monkeypatch.setattr(migration, "route", lambda *given: [step._replace(script="SELECT 1;")])
    with pytest.raises(StorageError, match=r"is of version 1 still: .*did not come out as it should"):
        migrate_database("postgres", ledger.place)
    assert ledger.content() == before


def test_no_backup_is_made(ledger: Ledger) -> None:
    ledger.make(1)
    with pytest.raises(ConfigError, match="pg_dump"):
        migrate_database("postgres", ledger.place, backup_path="x")
    assert ledger.content().versions == {"metrics": 1}


@contextmanager
def held(ledger: Ledger, *statements: str) -> Iterator[None]:
    with psycopg.connect(ledger.place) as holder:
        for statement in statements:
            holder.execute(statement.encode())
        yield
        holder.rollback()


def test_whoever_uses_the_tables_keeps_them_from_being_migrated(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_postgres, "_LOCK_SECONDS", 0.02)
    ledger.make(1, [a_row()])
    for statement in ("SELECT * FROM turnout_schema_versions", "DELETE FROM provider_attempts"):
        with (
            held(ledger, statement),
            pytest.raises(StorageLockedError, match="stop every program that uses it"),
        ):
            migrate_database("postgres", ledger.place)
    assert migrate_database("postgres", ledger.place).changed


def test_one_at_a_time_administers_a_database(ledger: Ledger) -> None:
    lock = f"SELECT pg_advisory_xact_lock({admin_postgres._ADVISORY_LOCK})"
    with held(ledger, lock):
        with pytest.raises(StorageLockedError, match="being made or migrated"):
            create_database("postgres", ledger.place)
        assert inspect_database("postgres", ledger.place).state is SchemaState.ABSENT
    ledger.make(1)
    with held(ledger, lock), pytest.raises(StorageLockedError, match="being made or migrated"):
        migrate_database("postgres", ledger.place)
    assert ledger.content().versions == {"metrics": 1}


def test_a_store_that_opens_amid_a_migration_is_refused(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.make(1, [a_row()])
    require, refused = migration.require_step, []

    def opened_meanwhile(*given: Any) -> None:
        config = {"statement_timeout_seconds": 0.1}
        with (
            closing(PostgresMetricsStore(ledger.place, config)) as store,
            pytest.raises(StorageLockedError) as caught,
        ):
            store.query_recent(since=NOON)
        refused.append(str(caught.value))
        require(*given)

    monkeypatch.setattr("turnout.storage.schema.admin_postgres.require_step", opened_meanwhile)
    assert migrate_database("postgres", ledger.place).changed
    assert len(refused) == 1
    assert "it is being migrated" in refused[0]
    with closing(PostgresMetricsStore(ledger.place)) as store:
        assert store.query_recent(since=NOON) == [a_row()]


def test_who_was_quicker_is_let_be(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.make(1, [a_row()])
    route = migration.route

    def overtaken(*given: Any) -> Any:
        steps = route(*given)
        ledger.script(schema.script(ledger.backend, 2))
        return steps

    monkeypatch.setattr(migration, "route", overtaken)
    migrate_database("postgres", ledger.place)
    assert ledger.content().versions == {"metrics": 2}


def test_a_role_that_owns_nothing_is_told_to_name_one_that_does(
    postgres: PostgresServer, ledger: Ledger
) -> None:
    role = f"r{uuid4().hex}"
    url = ledger.place.replace("postgres@", f"{role}@")
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    try:
        with pytest.raises(
            StorageError, match=r"refused: permission denied .*name a role that owns the schema"
        ):
            create_database("postgres", url)
        ledger.make(1)
        ledger.script(f"GRANT SELECT ON turnout_schema_versions TO {role}")
        assert inspect_database("postgres", url).state is OUTDATED
        with pytest.raises(StorageError, match=r"is of version 1 still: .*name a role that owns the schema"):
            migrate_database("postgres", url)
        assert ledger.content().versions == {"metrics": 1}
        ledger.script(f"DROP OWNED BY {role}")
    finally:
        postgres.execute(f"DROP ROLE {role}")


def test_the_view_shows_a_role_what_it_may_see_of_the_table_and_no_more(
    postgres: PostgresServer, ledger: Ledger
) -> None:
    role = f"r{uuid4().hex}"
    ledger.make()
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    try:
        ledger.script(f"GRANT SELECT ON provider_failovers TO {role}")
        theirs = Ledger(StorageBackend.POSTGRES, ledger.place.replace("postgres@", f"{role}@"))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            theirs.ask("SELECT * FROM provider_failovers")
        ledger.script(f"GRANT SELECT ON provider_attempts TO {role}")
        assert theirs.ask("SELECT * FROM provider_failovers") == []
        ledger.script(f"DROP OWNED BY {role}")
    finally:
        postgres.execute(f"DROP ROLE {role}")


def test_a_missing_driver_is_named(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "turnout.storage.postgres_connection", raising=False)
    monkeypatch.delitem(sys.modules, "turnout.storage.postgres_errors", raising=False)
    monkeypatch.setattr("turnout.storage.postgres_connection", None, raising=False)
    monkeypatch.delattr("turnout.storage.postgres_connection")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StorageDriverMissingError, match=r"turnout\[postgres\]"):
        inspect_database("postgres", ledger.place)
