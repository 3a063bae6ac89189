"""Where an attempt may be made again at the same provider, whatever a policy says."""

import math
from collections.abc import Sequence
from typing import Final

from turnout.calls import Attempt, Reason
from turnout.faults import FAULTS, Effect, Failure, Fault, Then

_OPEN_TO_RETRIES: Final = frozenset(
    fault
    for fault, rule in FAULTS.items()
    if rule.then is Then.NEXT and rule.effect is Effect.COUNT and fault is not Fault.STREAM_INTERRUPTED
)


def cycle(attempts: Sequence[Attempt]) -> int | None:
    """How many attempts the newest provider has had in a row of retries; None where it had its row before: a provider
    that an order repeats gets one row in a call."""
    newest = attempts[-1].by
    length = 1
    while attempts[-length].reason is Reason.RETRY:
        length += 1
    if any(attempt.by == newest for attempt in attempts[:-length]):
        return None
    return length


def may_retry(failure: Failure, made: int | None, at_most: float, *, stream_opened: bool) -> bool:
    """The gates that no policy can open: faults that stop a call or bench a provider, a provider that asks not to be
    asked again, an opened stream, and the ceiling."""
    return (
        failure.fault in _OPEN_TO_RETRIES
        and failure.should_retry is not False
        and not stream_opened
        and made is not None
        and made < at_most
    )


def pause_seconds(wanted: float, retry_after: float | None, at_most: float) -> float | None:
    """How long to wait before a retry: what the policy wants, or the longer time that the provider asks for. None where
    that is longer than ``at_most``: then another provider is the better choice."""
    pause = wanted if math.isfinite(wanted) and wanted > 0.0 else 0.0
    if retry_after is not None:
        pause = max(pause, retry_after)
    return pause if pause <= at_most else None
