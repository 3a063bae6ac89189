"""One provider's health, as a pure state machine.

closed ── a rate limit, or failures up to the threshold ──▶ open ── its time is over ──▶ tried again
  ▲                                                                                        │
  └──────────────────────────────── a success that began since ────────────────────────────┘
disabled: refused credentials; only a reset brings it back
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from turnout.faults import FAULTS, Effect, Failure


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a circuit opens, and for how long (seconds)."""

    failure_threshold: int = 3
    failure_cooldown_seconds: float = 60.0
    rate_limit_cooldown_seconds: float = 60.0
    quota_cooldown_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Circuit:
    """``open_until`` is an instant of the router's monotonic clock. ``since`` is the first epoch in which this state
    could be seen: what began in an earlier one is late and proves nothing about it. ``outage`` lasts from the first
    bench to the first success after it, over all benches between."""

    state: State = State.CLOSED
    consecutive_failures: int = 0
    open_until: float = 0.0
    since: int = 0
    outage: bool = False
    last_failure: Failure | None = None

    @property
    def clean(self) -> bool:
        """Whether a success would change nothing."""
        return self.state is State.CLOSED and self.consecutive_failures == 0 and not self.outage

    def remaining_seconds(self, now: float) -> float:
        """What is left of the bench; 0 where there is none."""
        return max(self.open_until - now, 0.0) if self.state is State.OPEN else 0.0

    def admits(self, now: float) -> bool:
        """Whether the provider may be tried."""
        match self.state:
            case State.CLOSED:
                return True
            case State.OPEN:
                return now >= self.open_until
            case State.DISABLED:
                return False


CLEAN: Final = Circuit()


def after_failure(
    circuit: Circuit, failure: Failure, began_epoch: int, epoch: int, now: float, thresholds: Thresholds
) -> Circuit:
    """The circuit after a failed attempt that began in ``began_epoch``; a change becomes visible in ``epoch``.

    An attempt that began before the circuit opened is late: it neither counts nor lengthens the bench, so failures
    that were in flight together count once. Refused credentials are news whenever they come.
    """
    effect = FAULTS[failure.fault].effect
    if effect is Effect.NONE or circuit.state is State.DISABLED:
        return circuit
    if effect is Effect.DISABLE:
        return replace(circuit, state=State.DISABLED, outage=True, since=epoch, last_failure=failure)
    if began_epoch < circuit.since:
        return circuit
    if effect is Effect.COUNT:
        count = circuit.consecutive_failures + 1
        if count < thresholds.failure_threshold:
            return replace(circuit, consecutive_failures=count, last_failure=failure)
        return _opened(
            replace(circuit, consecutive_failures=count),
            failure,
            thresholds.failure_cooldown_seconds,
            epoch,
            now,
        )
    cooldown = (
        thresholds.quota_cooldown_seconds
        if effect is Effect.QUOTA
        else thresholds.rate_limit_cooldown_seconds
    )
    return _opened(circuit, failure, cooldown, epoch, now)


def after_success(circuit: Circuit, began_epoch: int) -> Circuit:
    """The circuit after a successful attempt that began in ``began_epoch``."""
    if circuit.state is State.DISABLED or (circuit.state is State.OPEN and began_epoch < circuit.since):
        return circuit
    # `since` stays: a failure that began beside this success, after the bench, is news of its own and not late.
    return Circuit(since=circuit.since)


def _opened(circuit: Circuit, failure: Failure, cooldown_seconds: float, epoch: int, now: float) -> Circuit:
    # A new cooldown never shortens a longer one.
    until = max(now + cooldown_seconds, circuit.open_until if circuit.state is State.OPEN else now)
    return replace(
        circuit, state=State.OPEN, open_until=until, since=epoch, outage=True, last_failure=failure
    )
