"""One provider's health, as a pure state machine.

closed ── a rate limit, or failures up to the threshold ──▶ open ── its time is over ──▶ half_open
  ▲                                                          ▲                              │
  │                                                          └── longer ── a probe fails ───┤
  └──────────────────────────────── a probe succeeds ───────────────────────────────────────┘
disabled: refused credentials; only a reset brings it back

A half-open provider is tried by few: who would, is given a permit, and the word of its holder decides, be it late, as
long as the circuit has not opened anew. Time opens the half-open door, so no event marks it: ``state_at`` says where a
circuit stands.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from turnout.faults import FAULTS, Effect, Failure


class State(StrEnum):
    """Where a circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    DISABLED = "disabled"


class Admission(StrEnum):
    """Whether a provider may be tried now."""

    FREE = "free"
    #: With a permit, that must be asked for.
    PROBE = "probe"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a circuit opens, and for how long (seconds).

    A probe that fails once the bench is over multiplies the next cooldown, up to ``max_cooldown_seconds``; a quota's is
    long from the start. A provider that names its own time (Retry-After) is taken at its word, up to
    ``max_retry_after_seconds``; it cannot shorten a quota's, and where its probes find its rate limit again, that time
    grows as well.
    """

    failure_threshold: int = 3
    failure_cooldown_seconds: float = 60.0
    rate_limit_cooldown_seconds: float = 60.0
    quota_cooldown_seconds: float = 3600.0
    cooldown_multiplier: float = 2.0
    max_cooldown_seconds: float = 300.0
    honor_retry_after: bool = True
    max_retry_after_seconds: float = 3600.0
    half_open_probes: int = 1


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to send one probe, until its attempt has an outcome. It lapses at ``expires_at``, lest one that was lost
    with its thread shut the provider out for ever; who holds it still may renew it."""

    number: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class Circuit:
    """``open_until`` is an instant of the router's monotonic clock. ``since`` is the first epoch in which this state
    could be seen: what began in an earlier one is late and proves nothing about it. ``outage`` lasts from the first
    bench to the first success after it, over all benches between; ``growth`` is what its failed probes have made of
    the cooldowns. ``opened`` stays true while half-open. ``probes`` are out since it is; ``late`` are those of earlier
    benches, which keep others from probing beside them."""

    opened: bool = False
    disabled: bool = False
    consecutive_failures: int = 0
    open_until: float = 0.0
    since: int = 0
    outage: bool = False
    growth: float = 1.0
    probes: tuple[Permit, ...] = ()
    late: tuple[Permit, ...] = ()
    last_failure: Failure | None = None

    @property
    def clean(self) -> bool:
        """Whether a success would change nothing."""
        return not (self.opened or self.disabled or self.consecutive_failures or self.outage)

    def state_at(self, now: float) -> State:
        if self.disabled:
            return State.DISABLED
        if not self.opened:
            return State.CLOSED
        return State.OPEN if now < self.open_until else State.HALF_OPEN

    def remaining_seconds(self, now: float) -> float:
        """What is left of the bench; 0 where there is none."""
        return max(self.open_until - now, 0.0) if self.state_at(now) is State.OPEN else 0.0

    def free_at(self, now: float, probes_at_most: int) -> float:
        """The instant from which somebody may try it, whatever becomes of the probes that are out: once its bench is
        over, or the first of their permits lapses. Infinite where time does not help."""
        match self.state_at(now):
            case State.CLOSED:
                return now
            case State.OPEN:
                return self.open_until
            case State.HALF_OPEN:
                lapsing = [permit.expires_at for permit in self.permits if permit.expires_at > now]
                return now if len(lapsing) < probes_at_most else min(lapsing)
            case State.DISABLED:
                return math.inf

    @property
    def permits(self) -> tuple[Permit, ...]:
        """Those that were given and have not come back, lapsed or not."""
        return self.probes + self.late

    def probes_out(self, now: float) -> int:
        return sum(permit.expires_at > now for permit in self.permits)

    def lets(self, permit: int, now: float) -> bool:
        """Whether who was given the permit of this number may still go."""
        return not self.opened or any(one.number == permit and one.expires_at > now for one in self.probes)

    def admission(self, now: float, probes_at_most: int, *, ahead_of_time: bool = False) -> Admission:
        """Whether it may be tried; ``ahead_of_time`` says that a bench may be probed before it is over."""
        match self.state_at(now):
            case State.CLOSED:
                return Admission.FREE
            case State.HALF_OPEN if self.probes_out(now) < probes_at_most:
                return Admission.PROBE
            case State.OPEN if ahead_of_time and self.probes_out(now) < probes_at_most:
                return Admission.PROBE
            case State.HALF_OPEN | State.OPEN | State.DISABLED:
                return Admission.REFUSED


CLEAN: Final = Circuit()
#: More growth than any cooldown can use, and far from what a float cannot hold.
_LARGEST_GROWTH: Final = 1e9


def with_permit(
    circuit: Circuit, permit: Permit, now: float, thresholds: Thresholds, *, ahead_of_time: bool = False
) -> Circuit:
    """The circuit with ``permit`` given, or itself where none is to be had. ``ahead_of_time`` asks for one while the
    circuit is still open: where every provider is, somebody may have to be tried."""
    if circuit.disabled or not circuit.opened or (now < circuit.open_until and not ahead_of_time):
        return circuit
    if circuit.probes_out(now) >= thresholds.half_open_probes:
        return circuit
    probes, late = _not_lapsed(circuit.probes, now), _not_lapsed(circuit.late, now)
    return replace(circuit, probes=(*probes, permit), late=late)


def renewed(circuit: Circuit, permit: Permit) -> Circuit:
    """The circuit with the life of a permit that is out prolonged. One in whose place there is another stays lapsed,
    and one of an earlier bench goes on to its end: its probe proves nothing any more, so it may not keep others out."""
    out = tuple(permit if one.number == permit.number else one for one in circuit.probes)
    return circuit if out == circuit.probes else replace(circuit, probes=out)


def without_permit(circuit: Circuit, number: int) -> Circuit:
    """The circuit with a permit given back by a probe that proved nothing: cancelled, or the caller's own mistake. The
    next who comes may probe."""
    probes, late = (
        tuple(one for one in out if one.number != number) for out in (circuit.probes, circuit.late)
    )
    return circuit if probes + late == circuit.permits else replace(circuit, probes=probes, late=late)


def after_failure(
    circuit: Circuit,
    failure: Failure,
    began_epoch: int,
    epoch: int,
    now: float,
    thresholds: Thresholds,
    permit: int | None = None,
) -> Circuit:
    """The circuit after a failed attempt that began in ``began_epoch``; a change becomes visible in ``epoch``.

    An attempt that began before the circuit opened is late and does not count, so failures that were in flight
    together count once. Nor does a probe's that comes while the bench still lasts: growth comes once a bench, however
    many try ahead of its end. What either says of a limit still holds: it may lengthen the bench. Refused credentials
    are news whenever they come.
    """
    effect = FAULTS[failure.fault].effect
    word = _is_word_of_probe(circuit, began_epoch, permit)
    probed = word and now >= circuit.open_until
    if permit is not None:
        circuit = without_permit(circuit, permit)
    if effect is Effect.NONE or circuit.disabled:
        return circuit
    if effect is Effect.DISABLE:
        return replace(
            circuit,
            disabled=True,
            outage=True,
            since=epoch,
            probes=(),
            late=_not_lapsed(circuit.permits, now),
            last_failure=failure,
        )
    if effect is Effect.COUNT:
        if not probed and (circuit.opened or began_epoch < circuit.since):
            return circuit
        circuit = replace(
            circuit, consecutive_failures=circuit.consecutive_failures + 1, last_failure=failure
        )
        if not probed and circuit.consecutive_failures < thresholds.failure_threshold:
            return circuit
    elif circuit.opened and not probed:
        lasts = _news_ahead_of_time if word else _cooldown
        until = max(circuit.open_until, now + lasts(circuit, failure, thresholds))
        if until == circuit.open_until:
            return circuit
        return replace(circuit, open_until=until, last_failure=failure)
    again = False
    if probed:
        again = circuit.last_failure is not None and FAULTS[circuit.last_failure.fault].effect is effect
        growth = min(circuit.growth * thresholds.cooldown_multiplier, _LARGEST_GROWTH)
        circuit = replace(circuit, growth=growth)
    return replace(
        circuit,
        opened=True,
        # A new cooldown never shortens a longer one.
        open_until=max(
            now + _cooldown(circuit, failure, thresholds, again=again),
            circuit.open_until if circuit.opened else now,
        ),
        since=epoch,
        outage=True,
        probes=(),
        late=_not_lapsed(circuit.permits, now),
        last_failure=failure,
    )


def after_success(circuit: Circuit, began_epoch: int, permit: int | None = None) -> Circuit:
    """The circuit after a successful attempt that began in ``began_epoch``. An open one is closed by a probe alone; of
    a closed one, an attempt that began before it stood so says nothing."""
    word = _is_word_of_probe(circuit, began_epoch, permit)
    if permit is not None:
        circuit = without_permit(circuit, permit)
    if circuit.disabled or not (word if circuit.opened else began_epoch >= circuit.since):
        return circuit
    # `since` stays: a failure that began beside this success, after the bench, is news of its own and not late.
    return Circuit(since=circuit.since)


def _not_lapsed(permits: tuple[Permit, ...], now: float) -> tuple[Permit, ...]:
    return tuple(one for one in permits if one.expires_at > now)


def _is_word_of_probe(circuit: Circuit, began_epoch: int, permit: int | None) -> bool:
    """Whether an attempt decides what becomes of an open circuit: a probe of it, and of no earlier bench. Its permit
    may have lapsed meanwhile, as that of a long stream does, and another have been given."""
    if permit is None or not circuit.opened:
        return False
    return began_epoch >= circuit.since or any(one.number == permit for one in circuit.probes)


def _cooldown(circuit: Circuit, failure: Failure, thresholds: Thresholds, *, again: bool = False) -> float:
    """How long a failure benches. ``again`` says that a probe met the very limit that the bench was for."""
    asked = _asked(failure, thresholds)
    match FAULTS[failure.fault].effect:
        case Effect.RATE_LIMIT if asked is not None:
            return _grown(asked, circuit, thresholds) if again else asked
        case Effect.RATE_LIMIT:
            return _grown(thresholds.rate_limit_cooldown_seconds, circuit, thresholds)
        case Effect.QUOTA:
            # What is asked is meant for rate limits, and says nothing of when somebody pays.
            return max(_grown(thresholds.quota_cooldown_seconds, circuit, thresholds), asked or 0.0)
        case _:
            return _grown(thresholds.failure_cooldown_seconds, circuit, thresholds)


def _news_ahead_of_time(circuit: Circuit, failure: Failure, thresholds: Thresholds) -> float:
    """How long a limit benches that was met before the bench's end: as long as the provider asks, or as a limit of
    another kind does. The same limit without a time is no news: were it to begin the bench anew, calls that keep coming
    would push its end away for ever."""
    known = circuit.last_failure is not None and (
        FAULTS[circuit.last_failure.fault].effect is FAULTS[failure.fault].effect
    )
    if known:
        return _asked(failure, thresholds) or 0.0
    return _cooldown(replace(circuit, growth=1.0), failure, thresholds)


def _grown(seconds: float, circuit: Circuit, thresholds: Thresholds) -> float:
    return max(seconds, min(seconds * circuit.growth, thresholds.max_cooldown_seconds))


def _asked(failure: Failure, thresholds: Thresholds) -> float | None:
    """The time that a provider named for a limit. Now, or a time that is over, names none: a provider that lasted in it
    would be asked by every call."""
    if not thresholds.honor_retry_after or failure.retry_after_seconds is None:
        return None
    asked = min(failure.retry_after_seconds, thresholds.max_retry_after_seconds)
    return asked if asked > 0.0 else None
