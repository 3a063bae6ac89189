"""Stores that read only: what is not there is not made, and what is there stays as it is."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from turnout.errors import SchemaMismatchError, StorageError
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

FileStore = type[DuckDBMetricsStore] | type[SQLiteMetricsStore]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROW = Row(
    str(uuid4()), str(uuid4()), 1, "primary", NOON, "scope", "p", "P", None, None, "regular", True, "ok", None,
    None, 1.0, 1.0, 0.0, None, None, None, None, "unknown", None, None,
)  # fmt: skip
kinds = pytest.mark.parametrize("kind", [DuckDBMetricsStore, SQLiteMetricsStore])


@kinds
def test_a_missing_database_is_an_error_and_neither_it_nor_its_folder_is_made(
    kind: FileStore, tmp_path: Path
) -> None:
    with closing(kind(tmp_path / "folder" / "ledger", read_only=True)) as store:
        for _ in range(2):
            with pytest.raises(StorageError, match=r"there is no database .*ledger"):
                store.query_recent(since=NOON)
    assert list(tmp_path.iterdir()) == []


@kinds
def test_rows_are_read_and_none_is_taken_and_no_file_is_left_behind(kind: FileStore, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(kind(path)) as writer:
        writer.record_attempts([ROW])
    before = path.read_bytes()
    with closing(kind(path, read_only=True)) as store:
        with pytest.raises(StorageError, match="read only"):
            store.record_attempts([ROW])
        store.record_attempts([])
        assert store.query_recent(since=NOON) == [ROW]
        assert list(store.iterate_recent(since=NOON)) == [ROW]
    assert [file.name for file in tmp_path.iterdir()] == ["ledger"]
    assert path.read_bytes() == before


@kinds
def test_what_is_no_ledger_is_refused(kind: FileStore, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text("something else entirely\n" * 1000)
    with closing(kind(path, read_only=True)) as store, pytest.raises(SchemaMismatchError):
        store.query_recent(since=NOON)
    assert path.read_text() == "something else entirely\n" * 1000


@kinds
def test_two_may_read_at_once(kind: FileStore, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(kind(path)) as writer:
        writer.record_attempts([ROW])
    with closing(kind(path, read_only=True)) as one, closing(kind(path, read_only=True)) as other:
        assert one.query_recent(since=NOON) == other.query_recent(since=NOON) == [ROW]
