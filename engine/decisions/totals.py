"""One provider's totals in memory: what the store summed up of its rows, kept up to date by single attempts."""

import math
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from turnout.decisions.aggregates import ScoreAggregate
from turnout.faults import Fault

#: Attempts leave the window a bucket at a time; what the store knew of leaves it as evenly.
BUCKETS: Final = 128
#: How far weights grow before they are all written down anew. A double holds 2 ** 1023.
_MOST_HALF_LIVES: Final = 256
#: After so many half-lives nothing is left of anything.
_VANISHED: Final = 1000


class Window(NamedTuple):
    """How far back attempts count, and how soon they fade: each weighs 1, or half as much every half-life. Seconds."""

    seconds: float
    half_life_seconds: float | None = None

    @property
    def bucket_seconds(self) -> float:
        return self.seconds / BUCKETS


class Evidence(NamedTuple):
    """What a score is made from. ``latency_ms`` is the mean of the successes; None where none is known."""

    attempts: float
    successes: float
    latency_ms: float | None


@dataclass(slots=True)
class _Sums:
    attempts: float = 0.0
    successes: float = 0.0
    timed: float = 0.0
    latency_ms: float = 0.0
    errors: int = 0
    rate_limits: int = 0
    timeouts: int = 0

    def add(self, weight: float, success: bool, latency_ms: float | None, fault: Fault | None) -> None:
        self.attempts += weight
        if not success:
            self.errors += 1
            self.rate_limits += fault is Fault.RATE_LIMIT
            self.timeouts += fault is Fault.TIMEOUT
            return
        self.successes += weight
        if latency_ms is not None:
            self.timed += weight
            self.latency_ms += weight * latency_ms

    def scale(self, factor: float) -> None:
        self.attempts *= factor
        self.successes *= factor
        self.timed *= factor
        self.latency_ms *= factor


class Totals:
    """The totals of one partition over a window that ends now: ``aggregate``, as a store gave it for the instant
    ``at``, and the attempts observed since. All times are seconds since the epoch.

    An attempt costs the same however many there were. Until a bucket's width has passed since ``at`` the totals are
    what the store would say; from then on they may hold what left the window less than a bucket ago, and of what the
    store knew they take the part for gone that would be, had it come evenly. A clock that is set back takes what was
    learnt along: nothing grows younger.
    """

    __slots__ = (
        "_ahead",
        "_base",
        "_base_at",
        "_buckets",
        "_first",
        "_now",
        "_own",
        "_reference",
        "_width",
        "_window",
    )

    def __init__(self, window: Window, aggregate: ScoreAggregate, at: float) -> None:
        self._window = window
        self._width = window.bucket_seconds
        self._base = aggregate
        self._base_at = at
        #: The latest instant known of, and by how much it is ahead of a clock that was set back.
        self._now = at
        self._ahead = 0.0
        #: By which bucket of time, counted from the epoch, from the first that the window has not left whole.
        self._buckets: dict[int, _Sums] = {}
        self._first = math.floor((at - window.seconds) / self._width)
        #: Over all buckets. Nothing is ever subtracted from it: a huge latency leaves no trace once it is gone.
        self._own = _Sums()
        #: When an attempt weighs 1.
        self._reference = at

    @classmethod
    def empty(cls, window: Window, provider_id: str, at: float) -> "Totals":
        return cls(window, ScoreAggregate(provider_id), at)

    def observe(
        self, success: bool, latency_ms: float | None, fault: Fault | None, started_at: float
    ) -> None:
        """Count one attempt that is over."""
        started_at += self._ahead
        if started_at > self._now:
            self._move_to(started_at)
        place = math.floor(started_at / self._width)
        if place < self._first:
            return
        bucket = self._buckets.get(place)
        if bucket is None:
            bucket = self._buckets[place] = _Sums()
        weight = self._weight(started_at)
        bucket.add(weight, success, latency_ms, fault)
        self._own.add(weight, success, latency_ms, fault)

    def evidence(self, at: float) -> Evidence:
        """The totals as of ``at``, as a score needs them."""
        self._tell(at)
        return _evidence(*self._weights())

    def aggregate(self, at: float) -> ScoreAggregate:
        """The totals as of ``at``, as a store sums them up."""
        self._tell(at)
        own, base, kept = self._own, self._base, self._kept()
        return ScoreAggregate(
            base.provider_id,
            *self._weights(),
            round(base.recent_error_count * kept) + own.errors,
            round(base.rate_limit_count * kept) + own.rate_limits,
            round(base.timeout_count * kept) + own.timeouts,
        )

    def _tell(self, at: float) -> None:
        """It is ``at`` by a clock that may have been set back."""
        at += self._ahead
        if at < self._now:
            self._ahead += self._now - at
        else:
            self._move_to(at)

    def _move_to(self, now: float) -> None:
        self._now = now
        first = math.floor((now - self._window.seconds) / self._width)
        if first == self._first:
            return
        self._first = first
        gone = [place for place in self._buckets if place < first]
        for place in gone:
            del self._buckets[place]
        if gone:
            self._own = _summed(list(self._buckets.values()))

    def _weights(self) -> tuple[float, float, float, float]:
        """Of all attempts, of the successes, of those whose latency is known, and theirs times their latencies."""
        own, base, own_share, base_share = self._own, self._base, self._own_share(), self._base_share()
        return (
            base.attempt_weight * base_share + own.attempts * own_share,
            base.success_weight * base_share + own.successes * own_share,
            base.successful_latency_weight * base_share + own.timed * own_share,
            base.successful_latency_total_ms * base_share + own.latency_ms * own_share,
        )

    def _kept(self) -> float:
        """What part of the store's rows are taken to be in the window still: it moves by buckets."""
        passed = min(math.floor((self._now - self._base_at) / self._width), BUCKETS)
        return 1.0 - passed / BUCKETS

    def _base_share(self) -> float:
        half_life, kept = self._window.half_life_seconds, self._kept()
        if half_life is None or kept == 0.0:
            return kept
        return float(0.5 ** ((self._now - self._base_at) / half_life))

    def _own_share(self) -> float:
        """What sums of weights are to be multiplied by to be as of now."""
        half_life = self._window.half_life_seconds
        return 1.0 if half_life is None else float(0.5 ** ((self._now - self._reference) / half_life))

    def _weight(self, started_at: float) -> float:
        half_life = self._window.half_life_seconds
        if half_life is None:
            return 1.0
        half_lives = (started_at - self._reference) / half_life
        if half_lives > _MOST_HALF_LIVES:
            half_lives -= self._move_reference(math.floor(half_lives), half_life)
        return float(2.0**half_lives)

    def _move_reference(self, half_lives: int, half_life: float) -> int:
        """By whole half-lives, so that nothing is rounded; what would vanish has left the window long before."""
        self._reference += half_lives * half_life
        factor = math.ldexp(1.0, -min(half_lives, _VANISHED))
        for sums in (*self._buckets.values(), self._own):
            sums.scale(factor)
        return half_lives


def evidence_of(aggregate: ScoreAggregate) -> Evidence:
    """What a store's answer says, as a score needs it."""
    return _evidence(
        aggregate.attempt_weight,
        aggregate.success_weight,
        aggregate.successful_latency_weight,
        aggregate.successful_latency_total_ms,
    )


def _evidence(attempts: float, successes: float, timed: float, latency_total_ms: float) -> Evidence:
    # Sums of the same weights in another order: by a rounding, a part may be more than the whole.
    return Evidence(attempts, min(successes, attempts), latency_total_ms / timed if timed > 0.0 else None)


def _summed(parts: list[_Sums]) -> _Sums:
    return _Sums(*(sum(getattr(part, field.name) for part in parts) for field in fields(_Sums)))
