"""Databases of each backend as tests make and read them: by the numbered SQL and the driver, without a store."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from turnout.storage import schema
from turnout.storage.rows import Row
from turnout.storage.schema import StorageBackend, duckdb_shape, postgres_shape, sqlite_shape

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


class Ledger:
    """The database at ``place``, a path or a URL. Nothing is there until ``make``."""

    def __init__(self, backend: StorageBackend, place: str) -> None:
        self.backend = backend
        self.place = place

    def make(self, version: int = schema.VERSION, rows: Sequence[Row] = ()) -> None:
        """The tables of a version, with rows."""
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

    def script(self, sql: str) -> None:
        """Run several statements."""
        with self.connection() as connection:
            _run_script(connection, sql)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            return [tuple(row) for row in connection.execute(sql).fetchall()]

    def rows(self) -> list[tuple[Any, ...]]:
        return self.ask("SELECT * FROM provider_attempts ORDER BY attempt_id")

    def versions(self) -> dict[str, int]:
        return dict(self.ask("SELECT component, version FROM turnout_schema_versions"))

    def shape(self) -> Any:
        with self.connection() as connection:
            return _SHAPES[self.backend](connection)

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
