"""Rows in this process's memory: for tests, and for those who want numbers without a file."""

import math
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID

from turnout.decisions.aggregates import ScoreAggregate, ScoreAggregateQuery
from turnout.decisions.stats import aggregates_of
from turnout.errors import StorageError
from turnout.storage.columns import COLUMNS
from turnout.storage.filters import Filters
from turnout.storage.rows import Row

_REQUIRED = tuple(
    name for name, kind in Row.__annotations__.items() if type(None) not in getattr(kind, "__args__", ())
)
_NUMBERS = tuple(
    name
    for name, kind in Row.__annotations__.items()
    if kind is float or float in getattr(kind, "__args__", ())
)


class MemoryMetricsStore:
    """Keeps rows until it is closed; nothing is bounded and nothing outlives the process."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._lock = threading.Lock()
        self._closed = False

    def record_attempts(self, rows: Sequence[Row]) -> None:
        """Keep all of ``rows`` or none; raises ``StorageError`` for a row that no database would take."""
        kept = [_as_kept(row) for row in rows]
        with self._lock:
            self._check_open()
            for row in kept:
                self._rows.setdefault(row.attempt_id, row)

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
        return self._found(Filters(since, metrics_scope, provider_id, model, protocol, call_type))

    def iterate_recent(
        self, *, since: datetime, metrics_scope: str | None = None, until: datetime | None = None
    ) -> Iterator[Row]:
        """The same rows one by one, up to but not including ``until``."""
        return iter(self._found(Filters(since, metrics_scope, until=until)))

    def _found(self, wanted: Filters) -> list[Row]:
        with self._lock:
            self._check_open()
            rows = list(self._rows.values())
        return sorted(filter(wanted.match, rows), key=lambda row: (row.started_at, row.attempt_id))

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        """One aggregate for each partition asked for, in their order."""
        with self._lock:
            self._check_open()
            rows = list(self._rows.values())
        try:
            return aggregates_of(rows, query)
        except OverflowError as error:
            raise StorageError(f"the latencies of a provider do not add up: {error}") from error

    def release(self) -> None:
        """Nothing to give up: there is no file."""

    def close(self) -> None:
        """Drop the rows. Idempotent."""
        with self._lock:
            self._closed = True
            self._rows.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("this store is closed; build a new one")


def _as_kept(row: Row) -> Row:
    missing = [name for name in _REQUIRED if getattr(row, name) is None]
    if missing:
        raise StorageError(f"a row without {', '.join(missing)} cannot be kept")
    if any(not math.isfinite(getattr(row, name) or 0.0) for name in _NUMBERS):
        raise StorageError("a row with a number that is not finite cannot be kept")
    if row.started_at.tzinfo is None:
        raise StorageError("a row whose started_at has no time zone cannot be kept")
    try:
        "".join(str(getattr(row, name)) for name in COLUMNS).encode()
        attempt_id, invocation_id = (
            str(UUID(row.attempt_id)),
            str(UUID(row.invocation_id)),
        )
    except ValueError as error:
        raise StorageError(
            f"a row whose text or identity is no such thing cannot be kept: {error}"
        ) from error
    return row._replace(
        attempt_id=attempt_id,
        invocation_id=invocation_id,
        started_at=row.started_at.astimezone(UTC),
    )
