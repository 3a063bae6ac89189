"""The least that a store can be: what someone would write who keeps rows elsewhere than turnout can."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite

from turnout import Row, ScoreAggregate, ScoreAggregateQuery, StorageError


class ListStore:
    """Keeps rows in a list, and adds them up in loops."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._lock = threading.Lock()
        self._closed = False

    def record_attempts(self, rows: Sequence[Row]) -> None:
        good = [self._checked(row) for row in rows]
        with self._open():
            known = {row.attempt_id for row in self.rows}
            for row in good:
                if row.attempt_id not in known:
                    known.add(row.attempt_id)
                    self.rows.append(row)

    def query_recent(self, *, since: datetime, **filters: str | None) -> list[Row]:
        with self._open():
            rows = [row for row in self.rows if row.started_at >= since]
        for name, value in filters.items():
            rows = [row for row in rows if value is None or getattr(row, name) == value]
        return sorted(rows, key=lambda row: row.started_at)

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        rows = self.query_recent(
            since=query.since, metrics_scope=query.metrics_scope, call_type=query.call_type
        )
        return [
            self._added(
                query,
                provider_id,
                [
                    row
                    for row in rows
                    if (row.provider_id, row.model, row.protocol) == (provider_id, model, protocol)
                    and row.success is not None
                ],
            )
            for provider_id, model, protocol in query.partitions
        ]

    def close(self) -> None:
        self._closed = True

    def _open(self) -> threading.Lock:
        if self._closed:
            raise StorageError("closed")
        return self._lock

    def _checked(self, row: Row) -> Row:
        numbers = (row.latency_ms, row.total_duration_ms, row.queue_ms, row.cost_usd)
        if row.provider_id is None or row.started_at.tzinfo is None:
            raise StorageError("incomplete")
        if not all(isfinite(number) for number in numbers if number is not None):
            raise StorageError("not finite")
        return row._replace(started_at=row.started_at.astimezone(UTC))

    def _added(self, query: ScoreAggregateQuery, provider_id: str, rows: list[Row]) -> ScoreAggregate:
        def weight(row: Row) -> float:
            hours = max((query.reference - row.started_at).total_seconds() / 3600, 0.0)
            return 1.0 if query.half_life_hours is None else 0.5 ** (hours / query.half_life_hours)

        good = [row for row in rows if row.success]
        bad = [row.fault for row in rows if not row.success]
        timed = [(weight(row), row.latency_ms) for row in good if row.latency_ms is not None]
        return ScoreAggregate(
            provider_id,
            sum(map(weight, rows)),
            sum(map(weight, good)),
            sum(weight for weight, _ in timed),
            sum(weight * latency_ms for weight, latency_ms in timed),
            len(bad),
            bad.count("rate_limit"),
            bad.count("timeout"),
        )
