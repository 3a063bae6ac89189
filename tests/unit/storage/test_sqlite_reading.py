"""A SQLite ledger read by who is only a guest: no file of theirs is left, or made for a moment, beside it."""

import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import NOON, Ledger, a_row, files_in
from tests.supervised import system_user
from turnout.errors import SchemaMismatchError, StorageError, StorageLockedError
from turnout.storage.schema import StorageBackend, sqlite_file, sqlite_reading
from turnout.storage.schema.admin import inspect_database
from turnout.storage.sqlite import SQLiteMetricsStore


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    # Other users come into no folder of pytest's.
    folder = Path(tempfile.mkdtemp(prefix="turnout-test-", dir="/tmp"))
    try:
        made = Ledger(StorageBackend.SQLITE, str(folder / "ledger"))
        made.make(rows=[a_row()])
        # What the package reads of its own files is read now: a guest may not come to where it is installed.
        rows(made), look(made)
        yield made
    finally:
        shutil.rmtree(folder)


@contextmanager
def a_guest(ledger: Ledger) -> Iterator[None]:
    """Someone who may write to the ledger's folder, but to no file in it."""
    path, user = Path(ledger.place), system_user()
    path.chmod(0o444)
    path.parent.chmod(0o777)
    if user is not None:
        os.seteuid(pwd.getpwnam(user).pw_uid)
    try:
        yield
    finally:
        if user is not None:
            os.seteuid(0)
        path.chmod(0o600)


def rows(ledger: Ledger) -> list[Any]:
    with closing(SQLiteMetricsStore(ledger.place, read_only=True)) as store:
        return [*store.iterate_recent(since=NOON)]


def look(ledger: Ledger) -> Any:
    return inspect_database("sqlite", ledger.place)


@pytest.mark.parametrize("use", [rows, look])
def test_who_only_reads_makes_no_log_that_its_owner_could_not_write(
    ledger: Ledger, use: Callable[[Ledger], Any]
) -> None:
    seen = []
    look_on = sqlite_file.connect

    def connect(*given: Any) -> sqlite3.Connection:
        connection = look_on(*given)
        connection.execute("SELECT count(*) FROM provider_attempts").fetchall()
        seen.append(sorted(file.name for file in Path(ledger.place).parent.iterdir()))
        return connection

    with a_guest(ledger), pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnout.storage.schema.sqlite_reading.connect", connect)
        use(ledger)
    assert [*{*map(tuple, seen)}] == [("ledger",)]
    assert sorted(files_in(Path(ledger.place).parent)) == ["ledger"]
    with closing(SQLiteMetricsStore(ledger.place)) as owners:
        owners.record_attempts([a_row(2)])


def test_a_guest_reads_beside_a_writer_what_is_in_its_log(ledger: Ledger) -> None:
    with closing(SQLiteMetricsStore(ledger.place)) as writer:
        writer.record_attempts([a_row(2)])
        files = [Path(f"{ledger.place}{ending}") for ending in ("", "-wal", "-shm")]
        owners = [file.stat().st_uid for file in files]
        for file in files:
            file.chmod(0o644)
        with a_guest(ledger):
            assert rows(ledger) == [a_row(), a_row(2)]
        assert [file.stat().st_uid for file in files] == owners
        writer.record_attempts([a_row(3)])
    assert sorted(files_in(Path(ledger.place).parent)) == ["ledger"]


@pytest.fixture
def without_index(ledger: Ledger) -> Ledger:
    """Its last row is in a log that was copied without its index."""
    work = (
        f"import os, sqlite3; c = sqlite3.connect({ledger.place!r}); "
        "c.execute(\"INSERT INTO turnout_schema_versions VALUES ('health', 4, '')\"); c.commit(); "
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", work], timeout=50).returncode == -9
    Path(f"{ledger.place}-shm").unlink()
    return ledger


@pytest.mark.parametrize("use", [rows, look])
def test_the_index_that_a_log_has_lost_is_made_in_the_systems_folder_for_such_and_never_beside_it(
    without_index: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Ledger], Any]
) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(aside))
    folder, looked = Path(without_index.place).parent, sqlite_file.connect
    before, seen = files_in(folder), []

    def connect(*given: Any) -> sqlite3.Connection:
        connection = looked(*given)
        connection.execute("SELECT count(*) FROM provider_attempts").fetchall()
        seen.append(files_in(folder) == before)
        seen.append(any("ledger-shm" in name for name in files_in(aside)))
        return connection

    monkeypatch.setattr("turnout.storage.schema.sqlite_reading.connect", connect)
    use(without_index)
    assert {*seen} == {True}
    assert files_in(folder) == before
    assert files_in(aside) == {}


def test_many_pages_are_read_from_one_copy(without_index: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, copy = [], sqlite_reading._copy

    def counted(file: Path, to: Path) -> None:
        copied.append(file)
        copy(file, to)

    monkeypatch.setattr("turnout.storage.sqlite._PAGE_ROWS", 1)
    monkeypatch.setattr(sqlite_reading, "_copy", counted)
    assert rows(without_index) == [a_row()]
    assert len(copied) == 2


def test_a_copy_that_there_is_no_room_for_says_where_to_make_some(
    without_index: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_reading, "_COPY", "raise OSError('No space left on device')")
    with pytest.raises(StorageError, match=r"cannot be made in .*No space left.*make room there"):
        look(without_index)


@pytest.mark.parametrize("times", [1, 99])
def test_rows_that_were_written_meanwhile_are_read_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    looks = iter(range(2, 2 + times))
    connect = sqlite_file.connect

    def written_meanwhile(*given: Any) -> sqlite3.Connection:
        connection = connect(*given)
        connection.execute("SELECT count(*) FROM provider_attempts").fetchall()
        for number in looks:
            with closing(SQLiteMetricsStore(ledger.place)) as writer:
                writer.record_attempts([a_row(number)])
            break
        return connection

    monkeypatch.setattr("turnout.storage.schema.sqlite_reading.connect", written_meanwhile)
    if times == 1:
        assert rows(ledger) == [a_row(), a_row(2)]
        return
    with pytest.raises(StorageLockedError, match="is being written; try again"):
        rows(ledger)


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with closing(SQLiteMetricsStore(tmp_path, read_only=True)) as store:
        with pytest.raises(SchemaMismatchError, match=r"is a folder.*another path"):
            store.query_recent(since=NOON)
        store.close()
        with pytest.raises(StorageError, match="is closed"):
            store.query_recent(since=NOON)
