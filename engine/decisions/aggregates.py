"""What a store sums up of its rows for scores: the question, the answer, and whether an answer can be believed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, NamedTuple

from turnout.calls import CallType
from turnout.errors import ConfigError, StorageError

#: What is older than so many half-lives counts for less than a sixtieth, and is left out.
HALF_LIVES: Final = 6.0
SECONDS_PER_HOUR: Final = 3600.0
#: By how much, relative to itself, a sum of weights may exceed another that bounds it: the order of adding differs.
_ROUNDING: Final = 1e-9


class Partition(NamedTuple):
    """Whose rows count together: those of one provider, under one model and protocol."""

    provider_id: str
    model: str | None
    protocol: str | None


@dataclass(frozen=True, slots=True)
class ScoreAggregateQuery:
    """Asks for one ``ScoreAggregate`` per partition, over rows of ``call_type`` that started at or after ``since`` (and
    are of ``metrics_scope``, unless that is None), IGNORED ones left out.

    A row weighs 1, or, with ``half_life_hours``, ``0.5 ** (age / half_life)`` where its age is counted back from
    ``reference`` (never below 0). Both times have a time zone. Raises ``ConfigError`` for what is not so, and for a
    provider that is asked for twice.
    """

    partitions: tuple[Partition, ...]
    call_type: CallType
    since: datetime
    reference: datetime
    metrics_scope: str | None = None
    half_life_hours: float | None = None

    def __post_init__(self) -> None:
        if self.since.tzinfo is None or self.reference.tzinfo is None:
            raise ConfigError("since and reference need a time zone, as in datetime.now(UTC)")
        ids = [partition.provider_id for partition in self.partitions]
        if len(set(ids)) < len(ids):
            raise ConfigError(f"each provider may be asked for once, not {', '.join(ids)}")
        if self.half_life_hours is not None and not 0 < self.half_life_hours < math.inf:
            raise ConfigError(f"half_life_hours must be above 0, not {self.half_life_hours!r}")


@dataclass(frozen=True, slots=True)
class ScoreAggregate:
    """Sums over one partition's rows: the weights of all, of the successes, of the successes whose latency is known,
    and of these the weighted latencies (ms: the whole time of regular calls, the first chunk of streams). The counts
    at the end are unweighted: attempts that failed, those of them rate-limited, and those out of time."""

    provider_id: str
    attempt_weight: float = 0.0
    success_weight: float = 0.0
    successful_latency_weight: float = 0.0
    successful_latency_total_ms: float = 0.0
    recent_error_count: int = 0
    rate_limit_count: int = 0
    timeout_count: int = 0


_WEIGHTS: Final = tuple(field.name for field in fields(ScoreAggregate) if field.type is float)
_COUNTS: Final = tuple(field.name for field in fields(ScoreAggregate) if field.type is int)


def checked_aggregates(query: ScoreAggregateQuery, answer: object) -> Mapping[str, ScoreAggregate]:
    """``answer`` by provider id, if it is one to ``query``: exactly one sound aggregate for each provider asked for.

    Raises ``StorageError`` otherwise. Nothing of an answer that is wrong somewhere is used: a provider that has only
    ever failed would look new where its row is missing.
    """
    if not isinstance(answer, Iterable):
        raise StorageError(f"score aggregates must be a list, not {type(answer).__name__}")
    wanted = {partition.provider_id for partition in query.partitions}
    found: dict[str, ScoreAggregate] = {}
    for aggregate in answer:
        if not isinstance(aggregate, ScoreAggregate):
            raise StorageError(f"a score aggregate must be a ScoreAggregate, not {type(aggregate).__name__}")
        if aggregate.provider_id not in wanted:
            raise StorageError(f"the store tells of {aggregate.provider_id!r}, which was not asked for")
        if aggregate.provider_id in found:
            raise StorageError(f"the store tells of {aggregate.provider_id!r} twice")
        _check_sound(aggregate)
        found[aggregate.provider_id] = aggregate
    if missing := sorted(wanted - found.keys()):
        raise StorageError(f"the store tells nothing of {', '.join(missing)}; zeros stand for no history")
    return found


def _check_sound(aggregate: ScoreAggregate) -> None:
    for name in _WEIGHTS:
        _require(aggregate, name, isinstance(getattr(aggregate, name), int | float))
        _require(aggregate, name, 0.0 <= getattr(aggregate, name) < math.inf)
    for name in _COUNTS:
        _require(aggregate, name, isinstance(getattr(aggregate, name), int) and getattr(aggregate, name) >= 0)
    _require(aggregate, "success_weight", _within(aggregate.success_weight, aggregate.attempt_weight))
    _require(
        aggregate,
        "successful_latency_weight",
        _within(aggregate.successful_latency_weight, aggregate.success_weight),
    )
    timed = aggregate.successful_latency_weight > 0 or aggregate.successful_latency_total_ms == 0
    _require(aggregate, "successful_latency_total_ms", timed)
    # No attempt is both.
    told_apart = aggregate.rate_limit_count + aggregate.timeout_count
    _require(aggregate, "recent_error_count", told_apart <= aggregate.recent_error_count)


def _within(part: float, whole: float) -> bool:
    return part <= whole + _ROUNDING * max(whole, 1e-300)


def _require(aggregate: ScoreAggregate, name: str, sound: Any) -> None:
    if not sound:
        raise StorageError(
            f"the store's {name} of {aggregate.provider_id!r} cannot be: {getattr(aggregate, name)!r}"
        )
