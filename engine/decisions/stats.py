"""What the rows of the ledger say about providers: the plain reference that every store's sums are held against."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from turnout.calls import MICROSECOND, CallType
from turnout.decisions.aggregates import (
    HALF_LIVES,
    SECONDS_PER_HOUR,
    Partition,
    ScoreAggregate,
    ScoreAggregateQuery,
)
from turnout.errors import ConfigError
from turnout.faults import Fault

_MICROSECONDS_PER_HOUR: Final = SECONDS_PER_HOUR * 1e6
_EVER: Final = datetime.min.replace(tzinfo=UTC)


class Recorded(Protocol):
    """What is read of a row (``turnout.Row`` is one)."""

    @property
    def started_at(self) -> datetime: ...
    @property
    def metrics_scope(self) -> str: ...
    @property
    def provider_id(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def protocol(self) -> str | None: ...
    @property
    def call_type(self) -> str: ...
    @property
    def success(self) -> bool | None: ...
    @property
    def fault(self) -> str | None: ...
    @property
    def latency_ms(self) -> float | None: ...


class Configured(Protocol):
    """What is read of a provider (``turnout.ProviderConfig`` is one)."""

    @property
    def provider_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def protocol(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ProviderStats:
    """What one provider's rows come to: regular calls and streams apart, and only those of one call type filled.

    Attempts and successes are counts, or sums of weights where older rows weigh less. Rates lie between 0 and 1;
    ``regular_latency_ms`` and ``streaming_ttft_ms`` (to the first chunk) are means over successes whose latency is
    known. What has no rows to stand on is None. The counts at the end are exact and unweighted: attempts that failed,
    those of them rate-limited, and those out of time.
    """

    provider_id: str
    provider_name: str
    regular_attempts: float = 0.0
    regular_successes: float = 0.0
    regular_success_rate: float | None = None
    regular_latency_ms: float | None = None
    streaming_attempts: float = 0.0
    streaming_successes: float = 0.0
    streaming_success_rate: float | None = None
    streaming_ttft_ms: float | None = None
    recent_error_count: int = 0
    rate_limit_count: int = 0
    timeout_count: int = 0


def aggregate_stats(
    rows: Iterable[Recorded],
    providers: Iterable[Configured],
    call_type: CallType,
    *,
    now: datetime | None = None,
    half_life_hours: float | None = None,
) -> dict[str, ProviderStats]:
    """Stats by ``provider_id``, one for each of ``providers``, from those of ``rows`` that have exactly its id, model
    and protocol and are of ``call_type``; IGNORED ones say nothing. Which scope and time they are of, ``rows`` decides.

    With ``half_life_hours`` a row weighs ``0.5 ** (age / half_life)``, its age counted back from ``now``, and rows of
    more than six half-lives are left out. Raises ``ConfigError`` for a half-life without ``now``, a time without a time
    zone, and a provider that is there twice.
    """
    if half_life_hours is not None and now is None:
        raise ConfigError("half_life_hours needs now=, from which ages are counted, as in datetime.now(UTC)")
    providers = list(providers)
    reference = _EVER if now is None else now
    query = ScoreAggregateQuery(
        partitions=tuple(Partition(one.provider_id, one.model, one.protocol) for one in providers),
        call_type=CallType(call_type),
        since=_EVER if half_life_hours is None else _oldest(reference, half_life_hours),
        reference=reference,
        half_life_hours=half_life_hours,
    )
    return {
        one.provider_id: stats_of(aggregate, one.name, query.call_type)
        for one, aggregate in zip(providers, aggregates_of(rows, query), strict=True)
    }


def stats_of(aggregate: ScoreAggregate, provider_name: str, call_type: CallType) -> ProviderStats:
    """What a store's sums come to, over rows of ``call_type``."""
    attempts, successes = aggregate.attempt_weight, aggregate.success_weight
    timed = aggregate.successful_latency_weight
    # Sums of the same weights may differ by how they were added.
    rate = min(successes / attempts, 1.0) if attempts else None
    latency_ms = aggregate.successful_latency_total_ms / timed if timed else None
    stats = ProviderStats(
        aggregate.provider_id,
        provider_name,
        recent_error_count=aggregate.recent_error_count,
        rate_limit_count=aggregate.rate_limit_count,
        timeout_count=aggregate.timeout_count,
    )
    match call_type:
        case CallType.REGULAR:
            return replace(
                stats,
                regular_attempts=attempts,
                regular_successes=successes,
                regular_success_rate=rate,
                regular_latency_ms=latency_ms,
            )
        case CallType.STREAMING:
            return replace(
                stats,
                streaming_attempts=attempts,
                streaming_successes=successes,
                streaming_success_rate=rate,
                streaming_ttft_ms=latency_ms,
            )


def aggregates_of(rows: Iterable[Recorded], query: ScoreAggregateQuery) -> list[ScoreAggregate]:
    """The answer to ``query`` from ``rows``, in the order of its partitions; sums are exact before they are rounded."""
    found = {partition: _Sums() for partition in query.partitions}
    for row in rows:
        sums = found.get(Partition(row.provider_id, row.model, row.protocol))
        if sums is not None and _asked_for(row, query):
            sums.add(row, _weight(row, query))
    return [sums.aggregate(partition.provider_id) for partition, sums in found.items()]


def _asked_for(row: Recorded, query: ScoreAggregateQuery) -> bool:
    return (
        row.success is not None
        and row.call_type == query.call_type
        and row.started_at >= query.since
        and query.metrics_scope in (None, row.metrics_scope)
    )


def _weight(row: Recorded, query: ScoreAggregateQuery) -> float:
    if query.half_life_hours is None:
        return 1.0
    age = max((query.reference - row.started_at) // MICROSECOND, 0)
    return float(0.5 ** (age / (query.half_life_hours * _MICROSECONDS_PER_HOUR)))


def _oldest(reference: datetime, half_life_hours: float) -> datetime:
    try:
        return reference - timedelta(hours=HALF_LIVES * half_life_hours)
    except OverflowError:
        return _EVER


@dataclass(slots=True)
class _Sums:
    attempts: list[float] = field(default_factory=list)
    successes: list[float] = field(default_factory=list)
    timed: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    errors: int = 0
    rate_limits: int = 0
    timeouts: int = 0

    def add(self, row: Recorded, weight: float) -> None:
        self.attempts.append(weight)
        if not row.success:
            self.errors += 1
            self.rate_limits += row.fault == Fault.RATE_LIMIT
            self.timeouts += row.fault == Fault.TIMEOUT
            return
        self.successes.append(weight)
        if row.latency_ms is not None:
            self.timed.append(weight)
            self.latencies_ms.append(weight * row.latency_ms)

    def aggregate(self, provider_id: str) -> ScoreAggregate:
        return ScoreAggregate(
            provider_id,
            attempt_weight=math.fsum(self.attempts),
            success_weight=math.fsum(self.successes),
            successful_latency_weight=math.fsum(self.timed),
            successful_latency_total_ms=math.fsum(self.latencies_ms),
            recent_error_count=self.errors,
            rate_limit_count=self.rate_limits,
            timeout_count=self.timeouts,
        )
