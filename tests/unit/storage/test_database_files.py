"""The files of the stores on disk: made privately, recognised, refused, shared and handed over."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from turnout.errors import (
    ConfigError,
    SchemaMismatchError,
    StorageDriverMissingError,
    StorageError,
    StorageLockedError,
)
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

FileStore = DuckDBMetricsStore | SQLiteMetricsStore
Kind = Callable[[Path], FileStore]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BOTH = pytest.mark.parametrize("kind", [DuckDBMetricsStore, SQLiteMetricsStore])


def a_row(number: int = 1) -> Row:
    nothing = (None,) * 4
    identity = f"01900000-0000-7000-8000-{number:012x}"
    known = (
        identity,
        identity,
        1,
        "primary",
        NOON,
        "scope",
        "a",
        "A",
        None,
        None,
        "regular",
        True,
        "ok",
    )
    return Row(*known, None, None, 1.0, 1.0, 0.0, *nothing, "unknown", None, None)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@BOTH
def test_nothing_is_touched_before_the_first_use(kind: Kind, tmp_path: Path) -> None:
    kind(tmp_path / "deep" / "ledger").close()
    assert list(tmp_path.iterdir()) == []


@BOTH
def test_files_and_new_folders_are_private_under_any_umask(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "ledger"
    before = os.umask(0)
    try:
        with closing(kind(path)) as store:
            for number in range(3):
                store.record_attempts([a_row(number)])
                assert set(modes(path.parent).values()) == {0o600}
                assert len(modes(path.parent)) > 1
            store.release()
            store.record_attempts([a_row(9)])
            assert set(modes(path.parent).values()) == {0o600}
    finally:
        os.umask(before)
    assert modes(tmp_path) == {"deep": 0o700}
    assert modes(path.parent.parent) == {"er": 0o700}


def test_the_log_of_duckdb_stays_private_over_checkpoints(tmp_path: Path) -> None:
    with closing(DuckDBMetricsStore(tmp_path / "ledger")) as store:
        store.record_attempts([a_row()])
        with closing(duckdb.connect(store.path)) as beside:
            beside.execute("CHECKPOINT")
        assert modes(tmp_path) == {"ledger": 0o600}
        store.record_attempts([a_row(2)])
        assert modes(tmp_path) == {"ledger": 0o600, "ledger.wal": 0o600}


@BOTH
def test_a_path_follows_neither_the_home_nor_the_working_folder_later(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    at_home, here = kind(Path("~/a")), kind(Path("b"))
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.chdir(tmp_path)
    assert at_home.path == str(tmp_path / "a")
    assert Path(here.path).is_absolute()
    assert Path(here.path).parent != tmp_path


def test_duckdb_has_a_default_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert DuckDBMetricsStore().path == str(tmp_path / ".turnout" / "metrics.duckdb")


@BOTH
def test_a_path_that_is_no_file_is_refused(kind: Kind) -> None:
    with pytest.raises(ConfigError, match="MemoryMetricsStore"):
        kind(Path(":memory:"))


@BOTH
@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be looked at" * 400])
def test_a_file_that_is_no_ledger_is_refused_untouched(kind: Kind, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_bytes(content)
    with (
        closing(kind(path)) as store,
        pytest.raises(SchemaMismatchError, match="another path"),
    ):
        store.record_attempts([a_row()])
    assert path.read_bytes() == content
    assert [found.name for found in tmp_path.iterdir()] == ["mine"]


ALTERED = {
    "no tables": "DROP TABLE provider_attempts; DROP TABLE turnout_schema_versions",
    "no version": "DELETE FROM turnout_schema_versions",
    "a newer version": "UPDATE turnout_schema_versions SET version = 7",
    "a column more": "ALTER TABLE provider_attempts ADD COLUMN extra INTEGER",
}


@BOTH
@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED.keys())
def test_a_ledger_of_another_shape_is_refused_untouched(kind: Kind, change: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(kind(path)) as store:
        store.record_attempts([a_row()])
    alter(kind, path, change)
    before = path.read_bytes()
    with (
        closing(kind(path)) as store,
        pytest.raises(SchemaMismatchError, match="left untouched"),
    ):
        store.query_recent(since=NOON)
    assert path.read_bytes() == before


@BOTH
def test_a_column_that_may_be_null_where_none_was_is_refused(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(kind(path)) as store:
        store.record_attempts([a_row()])
    alter(kind, path, "DROP VIEW provider_failovers")
    copy = "CREATE TABLE other AS SELECT * FROM provider_attempts; DROP TABLE provider_attempts"
    alter(kind, path, f"{copy}; ALTER TABLE other RENAME TO provider_attempts")
    with (
        closing(kind(path)) as store,
        pytest.raises(SchemaMismatchError, match="provider_attempts"),
    ):
        store.query_recent(since=NOON)


def alter(kind: Kind, path: Path, change: str) -> None:
    if kind is DuckDBMetricsStore:
        with closing(duckdb.connect(str(path))) as database:
            database.execute(change)
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.executescript(change)


def test_a_duckdb_file_held_by_another_process_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    hold = f"import duckdb; c = duckdb.connect({str(path)!r}); print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with closing(DuckDBMetricsStore(path)) as store:
            with pytest.raises(StorageLockedError, match="SQLite") as caught:
                store.record_attempts([a_row()])
            assert str(path) in str(caught.value)
            holder.communicate("\n", timeout=30)
            path.unlink()
            store.record_attempts([a_row()])
            assert len(store.query_recent(since=NOON)) == 1


def test_two_sqlite_stores_of_one_file_see_each_others_rows(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with (
        closing(SQLiteMetricsStore(path)) as one,
        closing(SQLiteMetricsStore(path)) as other,
    ):
        one.record_attempts([a_row(1)])
        other.record_attempts([a_row(2), a_row(1)])
        assert one.query_recent(since=NOON) == other.query_recent(since=NOON) == [a_row(1), a_row(2)]


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with (
        closing(DuckDBMetricsStore(tmp_path / "ledger")) as store,
        pytest.raises(StorageDriverMissingError, match=r"turnout\[duckdb\]"),
    ):
        store.record_attempts([a_row()])
    assert list(tmp_path.iterdir()) == []


@BOTH
def test_a_folder_that_cannot_be_written_is_a_storage_error(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        closing(kind(tmp_path / "file" / "ledger")) as store,
        pytest.raises(StorageError, match="ledger"),
    ):
        store.record_attempts([a_row()])


def test_a_full_disk_is_a_storage_error_and_loses_no_kept_row(tmp_path: Path) -> None:
    with closing(SQLiteMetricsStore(tmp_path / "ledger")) as store:
        store.record_attempts([a_row(1)])
        with store._handle.writing() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StorageError, match="full"):
            store.record_attempts([a_row(number) for number in range(2, 600)])
        assert store.query_recent(since=NOON) == [a_row(1)]


def test_rows_are_there_for_anyone_who_asks_the_file_itself(tmp_path: Path) -> None:
    with closing(DuckDBMetricsStore(tmp_path / "ledger")) as store:
        store.record_attempts([a_row()])
    with closing(duckdb.connect(str(tmp_path / "ledger"), read_only=True)) as database:
        found = database.execute("SELECT provider_id, epoch_us(started_at) FROM provider_attempts").fetchall()
    assert found == [("a", int(NOON.timestamp()) * 1_000_000)]


def test_rows_that_come_once_the_driver_runs_no_python_any_more_are_kept_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise duckdb.InvalidInputException(
            "this query cannot run Python code: the interpreter is shutting down"
        )

    rows = [
        a_row(1),
        a_row(2)._replace(
            model='m "quoted" \\ \u00e9\U0001f600', success=None, stream_opened=True, fault="timeout"
        ),
        a_row(3)._replace(latency_ms=0.1 + 0.2, input_tokens=2**40, http_status=429, cost_usd=1e-9),
    ]
    with closing(DuckDBMetricsStore(tmp_path / "usual.duckdb")) as usual:
        usual.record_attempts(rows)
        kept = usual.query_recent(since=NOON)
    monkeypatch.setattr("turnout.storage.duckdb._insert", refuses)
    with closing(DuckDBMetricsStore(tmp_path / "late.duckdb")) as late:
        late.record_attempts(rows)
        late.record_attempts(rows)
        assert late.query_recent(since=NOON) == kept == rows


def test_a_sqlite_store_that_is_open_becomes_durable_too(tmp_path: Path) -> None:
    store = SQLiteMetricsStore(tmp_path / "metrics.sqlite")
    try:
        store.query_recent(since=datetime.now(UTC))
        store.make_durable()
        store.query_recent(since=datetime.now(UTC))
        with store._handle.writing() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    finally:
        store.close()
