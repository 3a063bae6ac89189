"""The wait for a bench, and the turn that may come to who waited: leave to ask for a permit."""

from collections.abc import Generator
from typing import Any

from turnout.actors.health import Health, HealthSnapshot
from turnout.actors.waiting import Turn
from turnout.clock import Clock
from turnout.deadline import Limit
from turnout.decisions.circuit import Admission
from turnout.invocation import Progress, Target
from turnout.runtime.steps import Sleep, Step


def waited_for_bench(
    targets: list[Target],
    until: float,
    seen: HealthSnapshot,
    progress: Progress,
    health: Health,
    clock: Clock,
) -> Generator[Step, Any, None]:
    """Wait for an instant, or for news of one of ``targets`` since what was ``seen``. Who was called in vain is the
    first in line again."""
    first = progress.turn is not None and progress.turn.called
    hand_on(progress, health, clock)
    limit = Limit(min(until, progress.invocation.deadline.at), clock)
    waits_at = tuple(target.provider_id for target in targets)
    try:
        health.waiting.enter(limit, waits_at, first=first)
        if health.circuits.snapshot is seen:
            yield Sleep(progress.under(limit))
    finally:
        progress.turn = Turn(waits_at, health.waiting.leave(limit))


def hand_on(progress: Progress, health: Health, clock: Clock) -> None:
    """Call the next in line where there is a permit that this call leaves to others, if it had waited at all."""
    turn, progress.turn = progress.turn, None
    if turn is None:
        return
    now = clock.monotonic()
    for provider_id in turn.provider_ids:
        if health.circuits.admission(provider_id, now) is Admission.PROBE:
            health.waiting.call(provider_id, 1)
