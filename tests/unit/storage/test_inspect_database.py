"""A database inspected: everything is told, nothing is touched."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tests.ledgers import NOON, SHARED, Files, Ledger, a_row, files_in
from turnout.errors import ConfigError, StorageDriverMissingError, StorageLockedError
from turnout.storage import schema
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.schema import StorageBackend, sqlite_shape
from turnout.storage.schema.admin import inspect_database
from turnout.storage.schema.facts import ComponentVersion, DatabaseState, SchemaState
from turnout.storage.schema.verdict import Verdict
from turnout.storage.sqlite import SQLiteMetricsStore

WITH_A_FILE = [StorageBackend.DUCKDB, StorageBackend.SQLITE]
BOTH = pytest.mark.parametrize("backend", WITH_A_FILE)
DROPPED = "DROP VIEW provider_failovers; DROP TABLE provider_attempts"
#: A change to a current database, what it is then, and what of that is told.
CHANGES = {
    "current": ("SELECT 1", SchemaState.CURRENT, "is of version 2"),
    "newer": ("UPDATE turnout_schema_versions SET version = 3", SchemaState.NEWER, "is of version 3"),
    "no version": ("DELETE FROM turnout_schema_versions", SchemaState.DAMAGED, "states no version"),
    "no view": ("DROP VIEW provider_failovers", SchemaState.DAMAGED, "has no provider_failovers"),
    "no versions": (
        "DROP TABLE turnout_schema_versions",
        SchemaState.DAMAGED,
        "has no table turnout_schema_versions",
    ),
    "only other components": (
        f"{DROPPED}; UPDATE turnout_schema_versions SET component = 'health'",
        SchemaState.FOREIGN,
        "states no version",
    ),
    "something else": (
        f"{DROPPED}; DROP TABLE turnout_schema_versions; CREATE TABLE notes (text VARCHAR(9))",
        SchemaState.FOREIGN,
        "has no table turnout_schema_versions",
    ),
    "no tables": (
        f"{DROPPED}; DROP TABLE turnout_schema_versions",
        SchemaState.EMPTY,
        "has no tables",
    ),
}


@SHARED
@pytest.mark.parametrize(("change", "state", "told"), CHANGES.values(), ids=CHANGES.keys())
def test_what_a_file_holds_is_told_and_the_file_left_alone(
    file_ledger: Ledger, tmp_path: Path, change: str, state: SchemaState, told: str
) -> None:
    file_ledger.make(rows=[a_row()], change=change)
    before = files_in(tmp_path)
    found = inspect_database(file_ledger.backend, file_ledger.place)
    assert (found.state, found.compatible) == (state, state is SchemaState.CURRENT)
    assert told in found.detail
    assert found.target == file_ledger.place
    assert found.detail.startswith(found.target)
    assert files_in(tmp_path) == before


def test_every_component_is_told(ledger: Ledger) -> None:
    other = "INSERT INTO turnout_schema_versions SELECT 'health', 9, applied_at FROM turnout_schema_versions"
    ledger.make(change=other)
    found = inspect(ledger)
    assert found.versions == (ComponentVersion("health", 9), ComponentVersion("metrics", schema.VERSION))
    assert found.state is SchemaState.CURRENT
    with pytest.raises(FrozenInstanceError):
        found.state = SchemaState.NEWER  # type: ignore[misc]


def test_version_1_is_outdated_and_the_command_that_helps_is_told(ledger: Ledger) -> None:
    ledger.make(1)
    found = inspect(ledger)
    assert (found.state, found.versions) == (SchemaState.OUTDATED, (ComponentVersion("metrics", 1),))
    assert f"turnout storage migrate --backend {ledger.backend.value}" in found.next_action


def inspect(ledger: Ledger) -> DatabaseState:
    return inspect_database(ledger.backend, ledger.place)


@BOTH
def test_nothing_is_created_where_nothing_is(backend: StorageBackend, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ledger"
    found = inspect_database(backend, path)
    assert (found.state, found.versions, found.is_default) == (SchemaState.ABSENT, (), False)
    assert f"turnout storage create --backend {backend.value} --path {path}" in found.next_action
    assert files_in(tmp_path) == {}


def test_the_default_path_is_that_of_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = inspect_database("duckdb")
    assert (found.target, found.is_default) == (str(tmp_path / ".turnout" / "metrics.duckdb"), True)
    assert "turnout storage create --backend duckdb --default" in found.next_action
    assert inspect_database("duckdb", found.target).is_default
    with pytest.raises(ConfigError, match="no default"):
        inspect_database("sqlite")
    with pytest.raises(ConfigError, match="must be one of duckdb, sqlite, postgres, not 'oracle'"):
        inspect_database("oracle", "x")
    assert files_in(tmp_path) == {}


@BOTH
@pytest.mark.parametrize("kind", ["empty file", "folder", "dangling link", "pipe", "text", "short text"])
def test_what_is_no_database_is_told_and_not_opened(
    backend: StorageBackend, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "ledger"
    match kind:
        case "empty file":
            path.touch()
        case "folder":
            path.mkdir()
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_bytes(b"not a database" * (1000 if kind == "text" else 1))
    before = {} if kind == "pipe" else files_in(tmp_path)
    found = inspect_database(backend, path)
    assert found.state is (SchemaState.EMPTY if kind == "empty file" else SchemaState.FOREIGN)
    assert "another path" in found.next_action
    assert kind == "pipe" or files_in(tmp_path) == before


def test_the_file_of_another_driver_is_no_database_of_this_one(tmp_path: Path) -> None:
    for backend, other in (WITH_A_FILE, reversed(WITH_A_FILE)):
        ledger = Ledger(backend, str(tmp_path / backend.value))
        ledger.make()
        assert inspect_database(other, ledger.place).state is SchemaState.FOREIGN


def test_a_file_whose_end_is_missing_is_damaged(file_ledger: Ledger, tmp_path: Path) -> None:
    file_ledger.make(rows=[a_row(number) for number in range(50)])
    path = Path(file_ledger.place)
    path.write_bytes(path.read_bytes()[:6000])
    before = files_in(tmp_path)
    found = inspect(file_ledger)
    assert (found.state, found.versions) == (SchemaState.DAMAGED, ())
    assert "cannot be read" in found.detail
    assert files_in(tmp_path) == before


def test_a_log_that_a_killed_writer_left_is_read_and_left(file_ledger: Ledger, tmp_path: Path) -> None:
    file_ledger.make()
    driver = file_ledger.backend.value.replace("sqlite", "sqlite3")
    kill_amid_work(
        driver, file_ledger.place, "INSERT INTO turnout_schema_versions VALUES ('health', 4, '2026-01-01')"
    )
    before = files_in(tmp_path)
    assert len(before) > 1
    assert ComponentVersion("health", 4) in inspect(file_ledger).versions
    # The index is no part of the database: whoever reads notes there that he does.
    assert without_index(files_in(tmp_path)) == without_index(before)


def kill_amid_work(driver: str, path: str, statement: str) -> None:
    work = f"import os, {driver} as d; c = d.connect({path!r}); c.execute({statement!r}); c.commit()"
    work += "; os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", work], timeout=50).returncode == -9


def without_index(files: Files) -> Files:
    return {name: content for name, content in files.items() if not name.endswith("-shm")}


def test_a_log_of_sqlite_without_its_index_is_read_and_left(tmp_path: Path) -> None:
    ledger = Ledger(StorageBackend.SQLITE, str(tmp_path / "ledger"))
    ledger.make()
    kill_amid_work("sqlite3", ledger.place, "INSERT INTO turnout_schema_versions VALUES ('health', 4, '')")
    (tmp_path / "ledger-shm").unlink()
    before = files_in(tmp_path)
    assert ComponentVersion("health", 4) in inspect(ledger).versions
    assert files_in(tmp_path) == before


def test_a_write_without_a_log_that_was_left_unfinished_is_told(tmp_path: Path) -> None:
    ledger = Ledger(StorageBackend.SQLITE, str(tmp_path / "ledger"))
    ledger.make()
    ledger.script("PRAGMA journal_mode = DELETE")
    # More than SQLite keeps in memory until the end.
    work = (
        f"import os, sqlite3; c = sqlite3.connect({ledger.place!r}, isolation_level=None); c.executescript("
        "'PRAGMA cache_size = 1; BEGIN; CREATE TABLE t (x); ALTER TABLE provider_attempts ADD y');"
        "[c.execute('INSERT INTO t VALUES (randomblob(9000))') for _ in range(50)]; os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", work], timeout=50).returncode == -9
    before = files_in(tmp_path)
    assert "ledger-journal" in before
    found = inspect(ledger)
    assert (found.state, found.next_action) == (
        SchemaState.DAMAGED,
        "Open it once with sqlite3, and look again",
    )
    assert files_in(tmp_path) == before


def test_sqlite_is_inspected_beside_its_writer(tmp_path: Path) -> None:
    with closing(SQLiteMetricsStore(tmp_path / "ledger")) as store:
        store.record_attempts([a_row()])
        before = without_index(files_in(tmp_path))
        found = inspect_database("sqlite", tmp_path / "ledger")
        assert (found.state, without_index(files_in(tmp_path))) == (SchemaState.CURRENT, before)
        store.record_attempts([a_row(2)])
        assert len(store.query_recent(since=NOON)) == 2


@pytest.mark.parametrize("times", [1, 99])
def test_sqlite_is_looked_at_again_where_it_was_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    ledger = Ledger(StorageBackend.SQLITE, str(tmp_path / "ledger"))
    ledger.make()
    looks = 0

    def written_meanwhile(connection: sqlite3.Connection) -> Verdict:
        nonlocal looks
        seen = sqlite_shape.look(connection)
        looks += 1
        if looks <= times:
            ledger.script(f"INSERT INTO turnout_schema_versions VALUES ('part {looks}', 1, '')")
        return seen

    monkeypatch.setattr("turnout.storage.schema.admin_sqlite.look", written_meanwhile)
    if times > 1:
        with pytest.raises(StorageLockedError, match="is being written; try again"):
            inspect(ledger)
        return
    assert ComponentVersion("part 1", 1) in inspect(ledger).versions
    assert looks == 2


def test_a_link_is_followed_to_the_log_of_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "ledger")
    with closing(SQLiteMetricsStore(tmp_path / "ledger")) as store:
        store.record_attempts([a_row()])
        with closing(sqlite3.connect(tmp_path / "ledger")) as beside:
            beside.execute("INSERT INTO turnout_schema_versions VALUES ('health', 4, '')")
            beside.commit()
        assert ComponentVersion("health", 4) in inspect_database("sqlite", tmp_path / "link").versions
    assert sorted(files_in(tmp_path)) == ["ledger", "link"]


def test_a_duckdb_file_that_another_has_is_told_as_held(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(DuckDBMetricsStore(path)) as store:
        store.record_attempts([a_row()])
        with pytest.raises(StorageLockedError, match="open in this process"):
            inspect_database("duckdb", path)
        look = f"from turnout.storage.schema.admin import inspect_database; inspect_database('duckdb', {str(path)!r})"
        told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=50).stderr
        assert "StorageLockedError: the database" in told
        assert "held by another process" in told
        store.record_attempts([a_row(2)])
    assert inspect_database("duckdb", path).state is SchemaState.CURRENT


def test_a_missing_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(StorageBackend.DUCKDB, str(tmp_path / "ledger"))
    ledger.make()
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(StorageDriverMissingError, match=r"turnout\[duckdb\]"):
        inspect(ledger)
