"""The retry budget: how many attempts beyond the first try of each provider may be made, over all calls together.

A token bucket. Calls and time fill it, every retry takes one, and an empty one says no: where everything fails at once,
retries stay a fraction of the calls instead of a multiple.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Refill:
    """A bucket gains ``per_call`` for each call and ``per_second`` for each second, and holds at most ``most``."""

    per_call: float = 0.2
    per_second: float = 10.0
    most: float = 100.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """``tokens`` as of ``at`` (monotonic), when ``calls`` had been made."""

    tokens: float
    at: float
    calls: int


def full(refill: Refill, now: float, calls: int) -> Bucket:
    return Bucket(refill.most, now, calls)


def filled(bucket: Bucket, refill: Refill, now: float, calls: int) -> Bucket:
    """The bucket as of now. Calls may be told of out of order: those known already count once."""
    seconds, more = max(now - bucket.at, 0.0), max(calls - bucket.calls, 0)
    gained = seconds * refill.per_second + more * refill.per_call
    return Bucket(min(bucket.tokens + gained, refill.most), max(now, bucket.at), max(calls, bucket.calls))


def taken(bucket: Bucket, refill: Refill, now: float, calls: int) -> tuple[Bucket, bool]:
    """The bucket after one asked for a token, and whether there was one."""
    now_filled = filled(bucket, refill, now, calls)
    if now_filled.tokens < 1.0:
        return now_filled, False
    return replace(now_filled, tokens=now_filled.tokens - 1.0), True
