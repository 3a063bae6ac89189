"""Databases of each backend as tests make and read them: by the numbered SQL and the driver, without a store."""

import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from turnout.storage import schema
from turnout.storage.rows import Row
from turnout.storage.schema import StorageBackend, duckdb_shape, postgres_shape, sqlite_shape

#: A file's bytes, when it was written last, and its mode.
Files = dict[str, tuple[bytes, int, str]]

#: For ``file_ledger``, where what is tested is the same code for both: DuckDB's files take their time to be opened.
SHARED = pytest.mark.parametrize(
    "file_ledger",
    [pytest.param(StorageBackend.DUCKDB, marks=pytest.mark.slow), StorageBackend.SQLITE],
    indirect=True,
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_MARKS = {StorageBackend.DUCKDB: "?", StorageBackend.SQLITE: "?", StorageBackend.POSTGRES: "%s"}
_SHAPES: dict[StorageBackend, Any] = {
    StorageBackend.DUCKDB: duckdb_shape.shape_of,
    StorageBackend.SQLITE: sqlite_shape.shape_of,
    StorageBackend.POSTGRES: postgres_shape.shape,
}


def a_row(
    number: int = 1, *, invocation: int | None = None, attempt: int = 1, reason: str = "primary", **other: Any
) -> Row:
    """A success, unless something else is said. Each number is an attempt of its own, and a second later."""
    values: dict[str, Any] = {
        **dict.fromkeys(Row._fields),
        "attempt_id": f"01900000-0000-7000-8000-{number:012x}",
        "invocation_id": f"01900000-0000-7000-8000-{number if invocation is None else invocation:012x}",
        "attempt_number": attempt,
        "reason": reason,
        "started_at": NOON + timedelta(seconds=number),
        "metrics_scope": "scope",
        "provider_id": "a",
        "provider_name": "A",
        "call_type": "regular",
        "success": True,
        "outcome": "ok",
        "total_duration_ms": 1.5,
        "queue_ms": 0.0,
        "billing_state": "unknown",
    }
    return Row(**{**values, **other})


class Content(NamedTuple):
    """What a ledger holds."""

    rows: list[tuple[Any, ...]]
    versions: dict[str, int]
    shape: Any


class Ledger:
    """The database at ``place``, a path or a URL. Nothing is there until ``make``."""

    def __init__(self, backend: StorageBackend, place: str) -> None:
        self.backend = backend
        self.place = place

    def make(self, version: int = schema.VERSION, rows: Sequence[Row] = (), change: str = "") -> None:
        """The tables of a version, with rows, and what is changed there then."""
        with self.connection() as connection:
            if self.backend is StorageBackend.SQLITE:
                connection.execute("PRAGMA journal_mode = WAL")
            _run_script(connection, schema.whole(self.backend, version))
            mark = _MARKS[self.backend]
            for row in rows:
                connection.execute(
                    f"INSERT INTO provider_attempts VALUES ({', '.join([mark] * len(row))})",
                    self._values(row),
                )
            if change:
                _run_script(connection, change)

    def script(self, sql: str) -> None:
        """Run several statements."""
        with self.connection() as connection:
            _run_script(connection, sql)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            return [tuple(row) for row in connection.execute(sql).fetchall()]

    def content(self) -> Content:
        """Looked at at once: a DuckDB file takes its time to be opened."""
        with self.connection() as connection:
            rows, versions = (
                [tuple(row) for row in connection.execute(sql).fetchall()]
                for sql in (
                    "SELECT * FROM provider_attempts ORDER BY attempt_id",
                    "SELECT component, version FROM turnout_schema_versions",
                )
            )
            return Content(rows, dict(versions), _SHAPES[self.backend](connection))

    @contextmanager
    def connection(self) -> Iterator[Any]:
        match self.backend:
            case StorageBackend.DUCKDB:
                import duckdb

                opened: Any = duckdb.connect(self.place)
            case StorageBackend.SQLITE:
                opened = sqlite3.connect(self.place, isolation_level=None)
            case StorageBackend.POSTGRES:
                import psycopg

                opened = psycopg.connect(self.place, autocommit=True)
        with closing(opened) as connection:
            yield connection

    def _values(self, row: Row) -> list[Any]:
        started: Any = row.started_at
        if self.backend is StorageBackend.SQLITE:
            started = round(started.timestamp() * 1e6)
        return [started if name == "started_at" else value for name, value in row._asdict().items()]


def _run_script(connection: Any, sql: str) -> None:
    # SQLite's execute() takes one statement alone, psycopg's takes no text that is not the program's own.
    if isinstance(connection, sqlite3.Connection):
        connection.executescript(sql)
    else:
        connection.execute(sql if type(connection).__module__.startswith("_duckdb") else sql.encode())


def files_in(folder: Path) -> Files:
    """All of a folder, to be compared with what becomes of it. A link is told by where it leads."""
    found: Files = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        content = (
            b""
            if path.is_dir()
            else str(path.readlink()).encode()
            if path.is_symlink()
            else path.read_bytes()
        )
        found[str(path.relative_to(folder))] = (content, status.st_mtime_ns, stat.filemode(status.st_mode))
    return found
