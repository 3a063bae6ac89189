"""A database created: where nothing was, whole, private, and never over anything."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import NOON, Ledger, a_row, files_in
from turnout.errors import DatabaseExistsError, StorageError
from turnout.storage import schema
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.schema import StorageBackend
from turnout.storage.schema.admin import create_database
from turnout.storage.sqlite import SQLiteMetricsStore

FILES = [StorageBackend.DUCKDB, StorageBackend.SQLITE]
BOTH = pytest.mark.parametrize("backend", FILES)
STORES: dict[StorageBackend, Any] = {
    StorageBackend.DUCKDB: DuckDBMetricsStore,
    StorageBackend.SQLITE: SQLiteMetricsStore,
}


def test_what_is_created_is_what_the_numbered_files_make(ledger: Ledger, tmp_path: Path) -> None:
    created = create_database(ledger.backend, ledger.place)
    assert (created.backend, created.version, created.is_default) == (ledger.backend, schema.VERSION, False)
    made = ledger.content()
    assert (made.rows, made.versions) == ([], {"metrics": schema.VERSION})
    if ledger.backend is not StorageBackend.POSTGRES:
        other = Ledger(ledger.backend, str(tmp_path / "other"))
        other.make()
        assert other.content() == made


@BOTH
def test_files_and_folders_are_private_and_nothing_else_is_left(
    backend: StorageBackend, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        create_database(backend, tmp_path / "deep" / "ledger")
    finally:
        os.umask(before)
    found = {name: mode for name, (_, _, mode) in files_in(tmp_path).items()}
    assert found == {"deep": "drwx------", "deep/ledger": "-rw-------"}


@BOTH
def test_a_store_takes_it(backend: StorageBackend, tmp_path: Path) -> None:
    create_database(backend, tmp_path / "ledger")
    with closing(STORES[backend](tmp_path / "ledger")) as store:
        store.record_attempts([a_row()])
        assert store.query_recent(since=NOON) == [a_row()]


def test_the_default_is_created_where_a_router_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    created = create_database("duckdb")
    assert (created.target, created.is_default) == (DuckDBMetricsStore().path, True)
    assert Path(created.target).is_file()


@BOTH
@pytest.mark.parametrize("kind", ["current", "old", "empty file", "text", "folder", "dangling link"])
def test_nothing_is_ever_overwritten(backend: StorageBackend, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    match kind:
        case "current" | "old":
            Ledger(backend, str(path)).make(2 if kind == "current" else 1, [a_row()])
        case "empty file":
            path.touch()
        case "text":
            path.write_text("mine")
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(tmp_path / "nowhere")
    before = files_in(tmp_path)
    with pytest.raises(DatabaseExistsError, match=r"something is there.*another path.*storage inspect"):
        create_database(backend, path)
    assert files_in(tmp_path) == before


@BOTH
def test_of_two_at_once_one_is_refused(backend: StorageBackend, tmp_path: Path) -> None:
    ended: list[object] = []
    ready = threading.Barrier(4)

    def create() -> None:
        ready.wait(20)
        try:
            ended.append(create_database(backend, tmp_path / "ledger").version)
        except DatabaseExistsError as error:
            ended.append(type(error))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(map(str, ended)) == sorted(map(str, [schema.VERSION, *[DatabaseExistsError] * 3]))
    assert sorted(files_in(tmp_path)) == ["ledger"]


@BOTH
def test_a_folder_that_cannot_be_made_is_told(backend: StorageBackend, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be reached: Not a directory"):
        create_database(backend, tmp_path / "file" / "ledger")


def test_the_log_of_a_database_that_is_no_more_never_gets_into_a_new_one(
    file_ledger: Ledger, tmp_path: Path
) -> None:
    file_ledger.make()
    driver = file_ledger.backend.value.replace("sqlite", "sqlite3")
    work = f"import os, {driver} as d; c = d.connect({file_ledger.place!r}); "
    work += "c.execute('CREATE TABLE old (x INTEGER)'); c.commit(); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", work], timeout=50).returncode == -9
    shutil.move(file_ledger.place, tmp_path / "moved")
    before = files_in(tmp_path)
    with pytest.raises(StorageError, match="is the log of a database that is no longer at"):
        create_database(file_ledger.backend, file_ledger.place)
    with (
        closing(STORES[file_ledger.backend](file_ledger.place)) as store,
        pytest.raises(StorageError, match="is the log of a database that is no longer at"),
    ):
        store.query_recent(since=NOON)
    assert files_in(tmp_path) == before


def test_sqlite_is_created_with_a_write_ahead_log(tmp_path: Path) -> None:
    create_database("sqlite", tmp_path / "ledger")
    with closing(sqlite3.connect(tmp_path / "ledger")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@BOTH
def test_a_failed_creation_leaves_nothing(
    backend: StorageBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "turnout.storage.schema.whole", lambda backend: "CREATE TABLE a (x INTEGER); nonsense"
    )
    with pytest.raises(StorageError, match="nonsense"):
        create_database(backend, tmp_path / "deep" / "ledger")
    assert sorted(files_in(tmp_path)) == ["deep"]
