"""Rows in a DuckDB file, which one process owns."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from turnout.calls import EPOCH, MICROSECOND
from turnout.decisions.aggregates import ScoreAggregate, ScoreAggregateQuery
from turnout.errors import StorageError
from turnout.storage.arrow import RowBatch
from turnout.storage.columns import COLUMNS, column
from turnout.storage.duckdb_spans import Span, between, known, spans
from turnout.storage.files import resolved, touch_private
from turnout.storage.filters import Filters
from turnout.storage.handle import Handle
from turnout.storage.rows import Row
from turnout.storage.schema.duckdb_file import DEFAULT_PATH, driver, make, target_of, told
from turnout.storage.schema.duckdb_shape import look
from turnout.storage.schema.place import require_file
from turnout.storage.schema.verdict import refuse_unless_current
from turnout.storage.score_sql import DUCKDB, score_aggregates, score_statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_INCOMING: Final = "turnout_incoming"
#: What the driver says where it does not run Python code any more.
_NO_PYTHON: Final = "cannot run Python code"


class DuckDBMetricsStore:
    """Keeps rows in the DuckDB file at ``path``, made private and with its folder at first use.

    One process at a time has the file: another gets ``StorageLockedError``, a child forked while it was open too. An
    existing file that is not a ledger of this version is refused with ``SchemaMismatchError`` and left untouched.

    With ``read_only`` nothing is made and nothing written: a missing file is a ``StorageError``. Any number of
    processes may read one file so, while none writes it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, read_only: bool = False) -> None:
        self.path = resolved(DEFAULT_PATH if path is None else path)
        self._read_only = read_only
        self._handle: Handle[DuckDBPyConnection] = Handle(
            self.path,
            self._open,
            lambda connection: connection.cursor(),
            ends_at_fork=False,
        )
        self._batch = RowBatch()

    def record_attempts(self, rows: Sequence[Row]) -> None:
        """Keep all of ``rows`` or none. A row whose ``attempt_id`` is already kept is passed over."""
        if not rows:
            return
        if self._read_only:
            raise StorageError(f"the store of {self.path} was made to read only")
        with self._translated(), self._handle.writing() as connection:
            # DuckDB makes its log at the first write after a checkpoint, readable by all; it takes one that is there.
            touch_private(f"{self.path}.wal")
            self._batch.load(rows)
            try:
                _insert(connection, self._batch)
            except driver().InvalidInputException as error:
                if _NO_PYTHON not in str(error):
                    raise
                _insert_text(connection, rows)

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
        where = " AND ".join(["started_at >= make_timestamptz(?)", *(f"{name} = ?" for name in equal)])
        sql = f"SELECT {_READ} FROM provider_attempts WHERE {where} ORDER BY started_at, attempt_id"
        with self._translated(), self._handle.reading() as cursor:
            found = cursor.execute(sql, [wanted.since_microseconds, *equal.values()]).fetchall()
        return [_row(values) for values in found]

    def iterate_recent(
        self, *, since: datetime, metrics_scope: str | None = None, until: datetime | None = None
    ) -> Iterator[Row]:
        """The same rows one by one, up to but not including ``until``, in bounded memory. Those that are written
        meanwhile may be among them."""
        return self._iterated(Filters(since, metrics_scope, until=until))

    def _iterated(self, wanted: Filters) -> Iterator[Row]:
        equal = wanted.equal
        where = " AND ".join(["true", *(f"{name} = ?" for name in equal)])
        whole = Span(wanted.since_microseconds, wanted.until_microseconds)
        with self._translated(), self._handle.reading() as cursor:
            parts = list(spans(cursor, whole, where, list(equal.values())))
        for span in parts:
            sql = (
                f"SELECT {_READ} FROM provider_attempts WHERE {where} AND {between(span)} "
                "ORDER BY started_at, attempt_id"
            )
            with self._translated(), self._handle.reading() as cursor:
                found = cursor.execute(sql, [*equal.values(), *known(span)]).fetchall()
            yield from map(_row, found)

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        """One aggregate for each partition asked for, in their order, from one statement beside writers."""
        if not query.partitions:
            return []
        statement, parameters = score_statement(query, DUCKDB)
        with self._translated(), self._handle.reading() as cursor:
            found = cursor.execute(statement, parameters).fetchall()
        return score_aggregates(query.partitions, found)

    def release(self) -> None:
        """Give up the file now, so that another process may have it; the next use opens it again."""
        with self._translated():
            self._handle.release()

    def close(self) -> None:
        """Give up the file for good. Idempotent."""
        with self._translated():
            self._handle.close()

    def _open(self) -> "DuckDBPyConnection":
        if self._read_only:
            require_file(target_of(self.path))
        elif not os.path.lexists(self.path):
            make(self.path)
        connection: DuckDBPyConnection = driver().connect(self.path, read_only=self._read_only)
        try:
            # One thread does for batches of this size, and leaves no other behind to be missed after a fork.
            connection.execute("SET threads = 1")
            # A checkpoint writes the last hundred thousand rows anew, however few came: every 16 MiB of log (75,000
            # rows) it was a sixth of what a row costs. Closing makes one; after a crash this much is read again.
            connection.execute("SET wal_autocheckpoint = '64MB'")
            refuse_unless_current(target_of(self.path), look(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise StorageError(f"a value does not fit the database {self.path}: {error}") from error
        except OSError as error:
            raise StorageError(f"the database {self.path} failed: {error.strerror or error}") from error
        except driver().Error as error:
            raise told(self.path, error) from error


def _insert(connection: "DuckDBPyConnection", batch: RowBatch) -> None:
    # Measured at batches of 500, in microseconds of GIL a row: the driver's appender 7, JSON unpacked in SQL 4.4, an
    # Arrow batch 2; and the Arrow batch is the fastest too. Looking for conflicts costs a third more than failing on
    # them, and only a replay has any.
    try:
        connection.execute(f"INSERT INTO provider_attempts FROM {_INCOMING}")
    except driver().ConstraintException:
        connection.execute(f"INSERT INTO provider_attempts FROM {_INCOMING} ON CONFLICT DO NOTHING")
    except driver().CatalogException as error:
        if _INCOMING not in str(error):
            raise
        # The first on this connection.
        connection.register(_INCOMING, batch)
        _insert(connection, batch)


def _insert_text(connection: "DuckDBPyConnection", rows: Sequence[Row]) -> None:
    """Insert rows without the driver's calling back into Python, which it refuses once its own exit hook has run. The
    last rows of a process come at that time, where nobody closed the router."""
    started = column(rows, "started_at")
    values = [{**row._asdict(), "started_at": at} for row, at in zip(rows, started, strict=True)]
    connection.execute(_INSERT_TEXT, [json.dumps(values)])


_AT: Final = COLUMNS.index("started_at")
_AS_TEXT: Final = json.dumps([{name: "BIGINT" if name == "started_at" else "VARCHAR" for name in COLUMNS}])
_INSERT_TEXT: Final = (
    "INSERT INTO provider_attempts SELECT * REPLACE (make_timestamptz(started_at) AS started_at) "
    f"FROM (SELECT unnest(from_json(?, '{_AS_TEXT}'), recursive := true)) ON CONFLICT DO NOTHING"
)
_READ: Final = ", ".join(
    {
        "attempt_id": "attempt_id::VARCHAR",
        "invocation_id": "invocation_id::VARCHAR",
        "started_at": "epoch_us(started_at)",
    }.get(name, name)
    for name in COLUMNS
)


def _row(values: Sequence[Any]) -> Row:
    return Row._make((*values[:_AT], EPOCH + values[_AT] * MICROSECOND, *values[_AT + 1 :]))
