"""Rows in a SQLite file, which several processes may share."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar

from turnout.calls import EPOCH, MICROSECOND
from turnout.decisions.aggregates import ScoreAggregate, ScoreAggregateQuery
from turnout.errors import StorageError, StorageLockedError
from turnout.storage.columns import COLUMNS, LABELS, column, labelled
from turnout.storage.files import resolved
from turnout.storage.filters import Filters
from turnout.storage.handle import Handle
from turnout.storage.rows import Row
from turnout.storage.schema.place import require_file
from turnout.storage.schema.sqlite_file import (
    AMID_A_WRITE,
    BUSY_SECONDS,
    NO_DATABASE,
    connect,
    is_busy,
    make,
    target_of,
)
from turnout.storage.schema.sqlite_reading import Reader
from turnout.storage.schema.sqlite_shape import look
from turnout.storage.schema.verdict import refusal, refuse_unless_current
from turnout.storage.score_sql import SQLITE, SQLITE_WITHOUT_POW, Dialect, score_aggregates, score_statement

_LARGEST_INSERT: Final = 512
_PAGE_ROWS: Final = 4_096
T = TypeVar("T")


class SQLiteMetricsStore:
    """Keeps rows in the SQLite file at ``path``, made private and with its folder at first use.

    Any number of processes may use one file, forked ones too. An existing file that is not a ledger of this version is
    refused with ``SchemaMismatchError`` and left untouched. ``started_at`` is kept as microseconds since 1970, UTC.

    With ``read_only`` nothing is made and nothing written, not even what SQLite has beside its files: a missing file is
    a ``StorageError``.
    """

    #: Its connections are closed before a fork, and opened anew after it.
    ends_at_fork: Final = True

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = resolved(path)
        self._read_only = read_only
        self._synchronous = "NORMAL"
        self._closed = False
        self._reader = Reader(self.path, BUSY_SECONDS)
        self._handle = Handle(self.path, self._open, lambda _: connect(self.path), ends_at_fork=True)

    def record_attempts(self, rows: Sequence[Row]) -> None:
        """Keep all of ``rows`` or none. A row whose ``attempt_id`` is already kept is passed over."""
        if not rows:
            return
        if self._read_only:
            raise StorageError(f"the store of {self.path} was made to read only")
        with self._translated(), self._handle.writing() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                _insert(connection, rows)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def query_recent(
        self,
        *,
        since: datetime,
        metrics_scope: str | None = None,
        provider_id: str | None = None,
        model: str | None = None,
        protocol: str | None = None,
        call_type: str | None = None,
    ) -> list[Row]:
        """Rows that started at or after ``since`` and match every filter given, oldest first."""
        wanted = Filters(since, metrics_scope, provider_id, model, protocol, call_type)
        equal = wanted.equal
        where = " AND ".join(["started_at >= ?", *(f"{name} = ?" for name in equal)])
        sql = f"SELECT {', '.join(COLUMNS)} FROM provider_attempts WHERE {where} ORDER BY started_at, attempt_id"
        return [_row(values) for values in self._fetched(sql, wanted.since_microseconds, *equal.values())]

    def iterate_recent(
        self, *, since: datetime, metrics_scope: str | None = None, until: datetime | None = None
    ) -> Iterator[Row]:
        """The same rows one by one, up to but not including ``until``, in bounded memory. Those that are written
        meanwhile may be among them."""
        return self._iterated(Filters(since, metrics_scope, until=until))

    def _iterated(self, wanted: Filters) -> Iterator[Row]:
        equal, until = wanted.equal, wanted.until_microseconds
        where = ["started_at >= ?", "(started_at, attempt_id) > (?, ?)", *(f"{name} = ?" for name in equal)]
        bounds: list[int | str] = [*equal.values()]
        if until is not None:
            where.append("started_at < ?")
            bounds.append(until)
        sql = (
            f"SELECT {', '.join(COLUMNS)} FROM provider_attempts WHERE {' AND '.join(where)} "
            f"ORDER BY started_at, attempt_id LIMIT {_PAGE_ROWS}"
        )
        # Page by page: nothing is held while the reader does something else.
        after, last = wanted.since_microseconds, ""
        while True:
            found = self._fetched(sql, after, after, last, *bounds)
            yield from map(_row, found)
            if len(found) < _PAGE_ROWS:
                return
            after, last = found[-1][_AT], found[-1][_ID]

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        """One aggregate for each partition asked for, in their order, from one statement beside writers."""
        if not query.partitions:
            return []
        found = self._read(
            lambda connection: connection.execute(*score_statement(query, _dialect(connection))).fetchall()
        )
        return score_aggregates(query.partitions, found)

    def make_durable(self) -> None:
        """From now on a commit outlasts a crash of the machine, too: it takes a few milliseconds then. Raises
        ``StorageError`` where another write does not end."""
        self._synchronous = "FULL"
        # Opened before, it would stay as it is.
        self.release()

    def release(self) -> None:
        """Close the file now; the next use opens it again."""
        with self._translated():
            self._handle.release()

    def close(self) -> None:
        """Close the file for good. Idempotent."""
        self._closed = True
        self._reader.close()
        with self._translated():
            self._handle.close()

    def _fetched(self, sql: str, *values: int | str) -> list[Any]:
        return self._read(lambda connection: connection.execute(sql, values).fetchall())

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What ``work`` makes of a connection of its own, which it may be given more than once."""
        with self._translated():
            if self._read_only:
                return self._looked(work)
            with self._handle.reading() as connection:
                return work(connection)

    def _looked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Nothing is held from one look to the next, so that nobody's database is kept open."""
        if self._closed:
            raise StorageError(f"the store of {self.path} is closed; build a new one")
        target = target_of(self.path)
        require_file(target)

        def checked(connection: sqlite3.Connection) -> T:
            refuse_unless_current(target, look(connection))
            return work(connection)

        return self._reader.read(checked)

    def _open(self) -> sqlite3.Connection:
        if not os.path.lexists(self.path):
            make(self.path)
        connection = connect(self.path)
        try:
            refuse_unless_current(target_of(self.path), look(connection))
            # NORMAL is safe against a crash of the process; after one of the machine the last commits may be gone.
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(_LABELS_TABLE)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if is_busy(error):
                raise StorageLockedError(
                    f"the database {self.path} was held by another process for {BUSY_SECONDS:g} s; "
                    "try again later, or give the store another path"
                ) from error
            if self._read_only and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:
                raise refusal(target_of(self.path), AMID_A_WRITE) from error
            raise StorageError(f"the database {self.path} failed: {error}") from error
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                raise refusal(target_of(self.path), NO_DATABASE) from error
            raise StorageError(f"the database {self.path} failed: {error}") from error
        except OSError as error:
            raise StorageError(f"the database {self.path} failed: {error.strerror or error}") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise StorageError(f"a value does not fit the database {self.path}: {error}") from error


def _dialect(connection: sqlite3.Connection) -> Dialect:
    try:
        connection.execute("SELECT pow(0.5, 1)")
    except sqlite3.DatabaseError:
        return SQLITE_WITHOUT_POW
    return SQLITE


_AT: Final = COLUMNS.index("started_at")
_ID: Final = COLUMNS.index("attempt_id")
# What a row has for itself; the rest it shares with others of its batch.
_OWN: Final = tuple(name for name in COLUMNS if name not in LABELS)
_LABELS_TABLE: Final = f"CREATE TEMP TABLE batch_labels (place INTEGER PRIMARY KEY, {', '.join(LABELS)})"


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    # executemany gives up the GIL at every row: beside one busy thread that is a wait of 5 ms a row, 240 rows/s. A
    # statement of many rows gives it up once. Most of the rest is binding values, so labels are bound once a batch.
    places, combinations = labelled(rows)
    labels = [list(values) for values in zip(*combinations, strict=True)]
    connection.execute("DELETE FROM batch_labels")
    _run(connection, _labels_statement, [list(range(len(combinations))), *labels])
    _run(connection, _rows_statement, [places, *(column(rows, name) for name in _OWN)])


def _run(
    connection: sqlite3.Connection,
    statement: Callable[[int], str],
    columns: Sequence[Sequence[Any]],
) -> None:
    # Sizes are powers of two, so that few statements are ever prepared.
    width, done, count = len(columns), 0, len(columns[0])
    while done < count:
        size = min(_LARGEST_INSERT, 1 << (count - done).bit_length() - 1)
        values: list[Any] = [None] * (size * width)
        for place, one in enumerate(columns):
            values[place::width] = one[done : done + size]
        connection.execute(statement(size), values)
        done += size


def _values(rows: int, width: int) -> str:
    one = f"({', '.join('?' * width)})"
    return f"VALUES {', '.join([one] * rows)}"


@cache
def _labels_statement(rows: int) -> str:
    return f"INSERT INTO batch_labels {_values(rows, 1 + len(LABELS))}"


@cache
def _rows_statement(rows: int) -> str:
    own = {name: f"own.column{place}" for place, name in enumerate(_OWN, 2)}
    for name in ("attempt_id", "invocation_id"):
        own[name] = f"lower({own[name]})"
    return (
        f"INSERT INTO provider_attempts SELECT {', '.join(own.get(name, name) for name in COLUMNS)} "
        f"FROM ({_values(rows, 1 + len(_OWN))}) AS own CROSS JOIN batch_labels ON place = own.column1 "
        "WHERE true ON CONFLICT (attempt_id) DO NOTHING"
    )


def _row(values: Sequence[Any]) -> Row:
    row = dict(zip(COLUMNS, values, strict=True))
    row["started_at"] = EPOCH + row["started_at"] * MICROSECOND
    for name in ("success", "stream_opened"):
        if row[name] is not None:
            row[name] = bool(row[name])
    return Row(**row)
