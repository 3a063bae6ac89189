"""The numbered SQL: it never changes, it makes the same on every backend, and a store takes the last version alone."""

import hashlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import NOON, SHARED, Ledger, a_row
from turnout.errors import SchemaMismatchError
from turnout.storage import schema
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.rows import Row
from turnout.storage.schema import StorageBackend
from turnout.storage.sqlite import SQLiteMetricsStore

STORES: dict[StorageBackend, Callable[[str], Any]] = {
    StorageBackend.DUCKDB: DuckDBMetricsStore,
    StorageBackend.SQLITE: SQLiteMetricsStore,
}
#: Databases out there were made by them. A change needs a file with the next number.
SHIPPED = {
    "duckdb_0001.sql": "b0e3908c1f01d63aff21c44c43d049517f99e1900b6052bc34c0223ac526cc81",
    "duckdb_0002.sql": "84909adbf766a979973f50fefe9a7906688e4582d812d2839cab464f0809d252",
    "postgres_0001.sql": "a9113a1f9f19a4063a81c0bef620e829f434524ad2c96be893332729c4a51e56",
    "postgres_0002.sql": "214f2fb62900ffb34b106284a39e4e5cadc051a1b0d6bf2164c82618ff11cf7d",
    "sqlite_0001.sql": "713846c13cc64dc69393b735d0a4b7b5b17951b4b1e0394d583c673afae62803",
    "sqlite_0002.sql": "89ed79ebc9c418450ce13556be54fa368df856bd988a25d98bf02ecc474aa911",
}


def test_no_shipped_version_ever_changes() -> None:
    folder = Path(schema.__file__).parent
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.sql"))
    }
    assert found == SHIPPED


@pytest.mark.parametrize("backend", list(StorageBackend))
def test_every_version_is_there_and_states_itself(backend: StorageBackend) -> None:
    for version in range(1, schema.VERSION + 1):
        lines = schema.script(backend, version).splitlines()
        stated = f"VALUES ('metrics', {version}," if version == 1 else f"SET version = {version},"
        assert sum(stated in line for line in lines) == 1
    with pytest.raises(FileNotFoundError):
        schema.script(backend, schema.VERSION + 1)


def test_each_version_has_all_that_the_one_before_had(ledger: Ledger) -> None:
    ledger.make(1, [a_row(1), a_row(2, model="m", success=None)])
    before = ledger.content()
    ledger.script(schema.script(ledger.backend, 2))
    after = ledger.content()
    assert (after.rows, after.versions) == (before.rows, {"metrics": 2})
    assert {*before.shape} < {*after.shape}
    assert all({*before.shape[name]} <= {*after.shape[name]} for name in before.shape)


def test_failovers_are_the_attempts_that_took_the_place_of_one_that_failed(ledger: Ledger) -> None:
    def failed(number: int, **other: Any) -> Row:
        return a_row(number, **{"success": False, "outcome": "failed", "fault": "timeout", **other})

    b: dict[str, Any] = {"provider_id": "b", "provider_name": "B"}
    c: dict[str, Any] = {"provider_id": "c", "provider_name": "C"}
    ledger.make(
        rows=[
            a_row(1),
            # Tried twice at A, then at B, whose stream broke, then at C.
            failed(10, invocation=10),
            failed(11, invocation=10, attempt=2, reason="retry", fault="connection"),
            failed(12, invocation=10, attempt=3, reason="failover", fault="stream_interrupted", **b),
            a_row(13, invocation=10, attempt=4, reason="stream_restart", **c),
            # The same number in another invocation, which had no attempt before.
            a_row(20, invocation=20, attempt=4, reason="failover", **b),
            # A hedge beside an attempt that failed, and one beside an attempt that was cut off as no longer needed.
            failed(30, invocation=30, metrics_scope="other"),
            failed(31, invocation=30, attempt=2, reason="hedge", metrics_scope="other", **b),
            a_row(40, invocation=40, success=None, outcome="ignored"),
            a_row(41, invocation=40, attempt=2, reason="hedge", **b),
            # A degraded answer is one.
            a_row(50, invocation=50, outcome="degraded"),
            a_row(51, invocation=50, attempt=2, reason="failover", **b),
        ]
    )
    wanted = "metrics_scope, from_provider_id, from_provider_name, fault, to_provider_id, to_provider_name, success"
    found = ledger.ask(f"SELECT {wanted} FROM provider_failovers ORDER BY started_at")
    assert found == [
        ("scope", "a", "A", "connection", "b", "B", False),
        ("scope", "b", "B", "stream_interrupted", "c", "C", True),
        ("other", "a", "A", "timeout", "b", "B", False),
    ]
    (third,) = ledger.ask("SELECT * FROM provider_attempts WHERE attempt_number = 3")
    (its_place,) = ledger.ask(
        "SELECT invocation_id, started_at FROM provider_failovers WHERE to_provider_id = 'b' LIMIT 1"
    )
    assert its_place == (third[1], third[4])


@SHARED
def test_a_store_refuses_the_version_before_and_names_the_command(file_ledger: Ledger) -> None:
    file_ledger.make(1, [a_row()])
    before = Path(file_ledger.place).read_bytes()
    command = f"turnout storage migrate --backend {file_ledger.backend.value} --path {file_ledger.place}"
    with closing(STORES[file_ledger.backend](file_ledger.place)) as store:
        with pytest.raises(SchemaMismatchError, match=r"is of version 1; .*left untouched") as caught:
            store.query_recent(since=NOON)
        assert str(caught.value).endswith(f"Stop every program that uses it and run: {command}")
    assert Path(file_ledger.place).read_bytes() == before


def test_the_default_database_is_named_so_in_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".turnout").mkdir()
    Ledger(StorageBackend.DUCKDB, str(tmp_path / ".turnout" / "metrics.duckdb")).make(1)
    with closing(DuckDBMetricsStore()) as store, pytest.raises(SchemaMismatchError) as caught:
        store.query_recent(since=NOON)
    assert str(caught.value).endswith("turnout storage migrate --backend duckdb --default")


def test_a_path_that_a_shell_would_take_apart_is_quoted_in_the_command(tmp_path: Path) -> None:
    path = str(tmp_path / "my ledger")
    Ledger(StorageBackend.SQLITE, path).make(1)
    with closing(SQLiteMetricsStore(path)) as store, pytest.raises(SchemaMismatchError) as caught:
        store.query_recent(since=NOON)
    assert str(caught.value).endswith(f"--path '{path}'")


CHANGES = {
    "another view": (
        "DROP VIEW provider_failovers; CREATE VIEW provider_failovers AS SELECT 1 AS invocation_id",
        "another provider_failovers than version 2",
    ),
    "a view of other rows": ("@, 'hedge'", "another provider_failovers than version 2: another query"),
    "a unique index": (
        "CREATE UNIQUE INDEX once ON provider_attempts (invocation_id)",
        r"also UNIQUE INDEX .*invocation_id",
    ),
    "no versions": (
        "DROP TABLE turnout_schema_versions; CREATE TABLE turnout_schema_versions (component TEXT)",
        "states no versions",
    ),
}
SQLITE_CHANGES = {
    "no index for history": ("DROP INDEX provider_attempts_history", r"no INDEX \(started_at\)"),
    "no index for scores": ("DROP INDEX provider_attempts_scores", r"no INDEX \(provider_id, model"),
    "an index the other way": (
        "DROP INDEX provider_attempts_history; CREATE INDEX h ON provider_attempts (started_at DESC)",
        r"no INDEX \(started_at\)",
    ),
    "an index of some": (
        "DROP INDEX provider_attempts_history; CREATE INDEX h ON provider_attempts (started_at) WHERE success",
        r"no INDEX \(started_at\)",
    ),
    "a check less": ("@CHECK (success IN (0, 1))", r"no CHECK \(success IN \(0, 1\)\)"),
    "another type": ("@REAL", "no latency_ms REAL"),
    "no key": ("@PRIMARY KEY", r"no PRIMARY KEY \(component\)"),
}


DUCKDB_CHANGES = {
    "no key": ("attempt_id UUID PRIMARY KEY", "attempt_id UUID NOT NULL", r"no PRIMARY KEY \(attempt_id\)"),
    "a check": (
        "error_code VARCHAR",
        "error_code VARCHAR CHECK (error_code > 'a')",
        r"also CHECK \(.*error_code",
    ),
    "a default": (
        "fault VARCHAR",
        "fault VARCHAR DEFAULT 'none'",
        "no fault VARCHAR, also fault VARCHAR DEFAULT",
    ),
}


@pytest.mark.parametrize(("change", "told"), CHANGES.values(), ids=CHANGES.keys())
def test_what_is_not_of_the_version_is_refused_untouched(file_ledger: Ledger, change: str, told: str) -> None:
    if change.startswith("@"):
        file_ledger.script(schema.whole(file_ledger.backend).replace(change[1:], "", 1))
    else:
        file_ledger.make(rows=[a_row()], change=change)
    _is_refused(file_ledger, told)


@pytest.mark.parametrize(("change", "told"), SQLITE_CHANGES.values(), ids=SQLITE_CHANGES.keys())
def test_what_sqlite_tells_of_indexes_checks_types_and_keys_is_looked_at(
    tmp_path: Path, change: str, told: str
) -> None:
    ledger = Ledger(StorageBackend.SQLITE, str(tmp_path / "ledger"))
    if change.startswith("@"):
        ledger.script(schema.whole(StorageBackend.SQLITE).replace(change[1:], "", 1))
    else:
        ledger.make(change=change)
    _is_refused(ledger, told)


@pytest.mark.parametrize(("part", "instead", "told"), DUCKDB_CHANGES.values(), ids=DUCKDB_CHANGES.keys())
def test_what_duckdb_tells_of_keys_checks_and_defaults_is_looked_at(
    tmp_path: Path, part: str, instead: str, told: str
) -> None:
    ledger = Ledger(StorageBackend.DUCKDB, str(tmp_path / "ledger"))
    script = schema.whole(StorageBackend.DUCKDB)
    assert part in script
    ledger.script(script.replace(part, instead))
    _is_refused(ledger, told)


def _is_refused(ledger: Ledger, told: str) -> None:
    path = Path(ledger.place)
    before = path.read_bytes(), path.stat().st_mtime_ns
    with (
        closing(STORES[ledger.backend](ledger.place)) as store,
        pytest.raises(SchemaMismatchError, match=rf"{told}.*left untouched|left untouched.*{told}"),
    ):
        store.query_recent(since=NOON)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@SHARED
def test_an_index_and_a_table_of_the_owners_own_are_let_be(file_ledger: Ledger) -> None:
    mine = "CREATE INDEX mine ON provider_attempts (metrics_scope); CREATE TABLE notes (text VARCHAR)"
    file_ledger.make(rows=[a_row()], change=mine)
    with closing(STORES[file_ledger.backend](file_ledger.place)) as store:
        assert store.query_recent(since=NOON) == [a_row()]


@SHARED
def test_other_components_versions_are_none_of_a_stores_business(file_ledger: Ledger) -> None:
    other = "INSERT INTO turnout_schema_versions SELECT 'health', 9, applied_at FROM turnout_schema_versions"
    file_ledger.make(change=other)
    with closing(STORES[file_ledger.backend](file_ledger.place)) as store:
        assert store.query_recent(since=NOON) == []
