"""The owner of every provider's circuit."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import assert_never

from loguru import logger

from turnout.actors.reasons import why_benched
from turnout.actors.waiting import Waiting
from turnout.calls import Identity
from turnout.clock import Clock
from turnout.decisions.budget import Bucket, Refill, full, taken
from turnout.decisions.circuit import (
    CLEAN,
    Admission,
    Circuit,
    Permit,
    State,
    Thresholds,
    after_failure,
    after_success,
    renewed,
    with_permit,
    without_permit,
)
from turnout.errors import ConfigError
from turnout.faults import Failure
from turnout.runtime.actor import Rests
from turnout.runtime.contract import ActorRef, Runtime


@dataclass(frozen=True, slots=True)
class HealthSnapshot:
    """Every circuit as of ``epoch``, by provider id. ``clean`` says that none has anything to tell."""

    epoch: int
    circuits: Mapping[str, Circuit]
    clean: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that began in ``began_epoch`` failed; with a permit, it was a probe."""

    provider_id: str
    began_epoch: int
    failure: Failure
    permit: int | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """An attempt that began in ``began_epoch`` succeeded; with a permit, it was a probe."""

    provider_id: str
    began_epoch: int
    permit: int | None = None


@dataclass(frozen=True, slots=True)
class AskPermit:
    """May I probe? Replied: PROBE, and the permit of this ``number`` was given, which lapses ``for_seconds`` from now;
    REFUSED; or FREE, where the circuit has closed meanwhile and none is needed. ``ahead_of_time`` asks while the bench
    still lasts."""

    provider_id: str
    number: int
    for_seconds: float
    ahead_of_time: bool = False


@dataclass(frozen=True, slots=True)
class Renewed:
    """A probe's stream is being read: its permit, if it still has it, lapses at ``expires_at``."""

    provider_id: str
    permit: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class Returned:
    """A permit comes back unused, or its probe proved nothing. One that was never given does no harm."""

    provider_id: str
    permit: int


@dataclass(frozen=True, slots=True)
class AskToken:
    """May one attempt more be made than the first at each provider? Asked by the invocation of this ``number``; those
    between fill the budget. Replied: whether there was a token."""

    number: int


@dataclass(frozen=True, slots=True)
class Reset:
    """Treat these providers as new."""

    provider_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What a message did to one circuit; ``cooldown_seconds`` is what is left of its bench."""

    provider_id: str
    before: Circuit
    after: Circuit
    cooldown_seconds: float


@dataclass(frozen=True, slots=True)
class ProviderHealthReport:
    """One provider's health for people.

    ``why`` is the kind of its last failure and ``last_error`` the provider's own words for it.
    ``cooldown_remaining_seconds`` is what is left of its bench, None where there is none; ``probes_out`` counts the
    calls that find out just now whether it answers again.
    """

    provider_name: str
    state: State
    auth_disabled: bool
    consecutive_failures: int
    cooldown_remaining_seconds: float | None
    why: str | None
    last_error: str | None
    probes_out: int


class Circuits(Rests):
    """The state and its rules; used by its actor alone, but for ``snapshot`` and what reads it, for anyone."""

    def __init__(
        self, thresholds: Mapping[str, Thresholds], refill: Refill, clock: Clock, waiting: Waiting
    ) -> None:
        """``thresholds`` of each provider, by its id; ``waiting`` is told what may end a wait."""
        self._thresholds = thresholds
        self._refill = refill
        self._bucket: Bucket | None = None
        self._clock = clock
        self._waiting = waiting
        self.snapshot = HealthSnapshot(0, dict.fromkeys(thresholds, CLEAN), True)

    def admission(self, provider_id: str, now: float, *, ahead_of_time: bool = False) -> Admission:
        """Whether a provider may be tried, as the snapshot has it."""
        probes_at_most = self._thresholds[provider_id].half_open_probes
        return self.snapshot.circuits[provider_id].admission(now, probes_at_most, ahead_of_time=ahead_of_time)

    def free_at(self, provider_id: str, now: float) -> float:
        """The instant from which a provider may be tried, as the snapshot has it; infinite where time does not help."""
        return self.snapshot.circuits[provider_id].free_at(
            now, self._thresholds[provider_id].half_open_probes
        )

    def refusing(self, provider_id: str, now: float) -> Circuit | None:
        """The circuit, looked at once, of a provider that may not be tried."""
        circuit = self.snapshot.circuits[provider_id]
        admission = circuit.admission(now, self._thresholds[provider_id].half_open_probes)
        return circuit if admission is Admission.REFUSED else None

    def receive(
        self, message: Failed | Succeeded | AskPermit | Renewed | Returned | AskToken | Reset
    ) -> Change | Admission | bool | None:
        now, epoch = self._clock.monotonic(), self.snapshot.epoch + 1
        if isinstance(message, Reset):
            self._publish(dict.fromkeys(message.provider_ids, Circuit(since=epoch)))
            self._waiting.end(message.provider_ids)
            return None
        if isinstance(message, AskToken):
            bucket = self._bucket or full(self._refill, now, message.number)
            self._bucket, given = taken(bucket, self._refill, now, message.number)
            return given
        before, rules = self.snapshot.circuits[message.provider_id], self._thresholds[message.provider_id]
        match message:
            case AskPermit(provider_id, number, for_seconds, ahead_of_time):
                if before.state_at(now) is State.CLOSED:
                    return Admission.FREE
                permit = Permit(number, now + for_seconds)
                after = with_permit(before, permit, now, rules, ahead_of_time=ahead_of_time)
                self._publish_if_new(provider_id, before, after)
                return Admission.REFUSED if after is before else Admission.PROBE
            case Failed(_, began, failure, number):
                after = after_failure(before, failure, began, epoch, now, rules, number)
            case Succeeded(_, began, number):
                after = after_success(before, began, number)
            case Renewed(provider_id, number, expires_at):
                self._publish_if_new(provider_id, before, renewed(before, Permit(number, expires_at)))
                return None
            case Returned(_, number):
                after = without_permit(before, number)
            case _:
                assert_never(message)
        self._publish_if_new(message.provider_id, before, after)
        if after is not before and (message.permit is not None or after.disabled):
            self._let_go_on(message.provider_id, after, now)
        return Change(message.provider_id, before, after, after.remaining_seconds(now))

    def _let_go_on(self, provider_id: str, after: Circuit, now: float) -> None:
        """A probe has come back: whatever it found, it is not to be waited for any more. One that proved nothing leaves
        room for the next; after any other, everybody may go, has a bench to wait for, or is told."""
        if after.state_at(now) is State.HALF_OPEN:
            room = self._thresholds[provider_id].half_open_probes - after.probes_out(now)
            self._waiting.call(provider_id, room)
        else:
            self._waiting.end((provider_id,))

    def ended(self) -> None:
        # After the timer, which ends first.
        self._waiting.end_without_alarms()

    def _publish_if_new(self, provider_id: str, before: Circuit, after: Circuit) -> None:
        if after is not before:
            self._publish({provider_id: after})

    def _publish(self, changed: Mapping[str, Circuit]) -> None:
        circuits = {**self.snapshot.circuits, **changed}
        clean = all(circuit.clean for circuit in circuits.values())
        self.snapshot = HealthSnapshot(self.snapshot.epoch + 1, circuits, clean)


class Health:
    """What others hold of it: the published snapshot, and the address for what changes it."""

    def __init__(self, providers: Mapping[Identity, Thresholds], refill: Refill, runtime: Runtime) -> None:
        self._providers = {provider.provider_id: provider for provider in providers}
        self._clock = runtime.clock
        #: The number of a permit to be asked for: who asks knows it, so that one whose reply was lost comes back too.
        self.permit_number = count(1).__next__
        rules = {provider.provider_id: thresholds for provider, thresholds in providers.items()}
        self.waiting = Waiting(rules, runtime.alarms, runtime.clock)
        self.circuits = Circuits(rules, refill, runtime.clock, self.waiting)
        # Outlives its thread: after close(), reports and resets still answer and late streams still report.
        self.actor: ActorRef = runtime.actor("health", self.circuits, outlives=True)

    @property
    def snapshot(self) -> HealthSnapshot:
        return self.circuits.snapshot

    def report(self) -> dict[str, ProviderHealthReport]:
        """Every provider's health as it stands now, by provider id."""
        now, circuits = self._clock.monotonic(), self.snapshot.circuits
        return {
            provider_id: _reported(provider, circuits[provider_id], now)
            for provider_id, provider in self._providers.items()
        }

    def reset(self, provider_id: str | None) -> None:
        """Treat one provider, or all, as new. Raises ``ConfigError`` for an unknown id."""
        if provider_id is not None and provider_id not in self._providers:
            known = ", ".join(sorted(self._providers))
            raise ConfigError(f'no provider has the id "{provider_id}"; the ids are: {known}')
        self.actor.ask(Reset(tuple(self._providers) if provider_id is None else (provider_id,)))

    def announce(self, change: Change) -> None:
        """Log a bench or a recovery, on the thread of the walk: a slow log sink must not hold up the owner.

        The first bench of an outage warns, further ones are DEBUG, the first success after it is one INFO. Refused
        credentials warn whenever they come: time does not mend them.
        """
        before, after = change.before, change.after
        if after is before:
            return
        who = f"provider {self._providers[change.provider_id].described}"
        if (after.opened or after.disabled) and after.since != before.since:
            level = "DEBUG" if before.outage and not after.disabled else "WARNING"
            logger.log(level, "{} {}", who, why_benched(after, change.cooldown_seconds))
        elif before.outage and not after.outage:
            logger.info("{} answers again", who)


def _reported(provider: Identity, circuit: Circuit, now: float) -> ProviderHealthReport:
    failure = circuit.last_failure
    return ProviderHealthReport(
        provider_name=provider.name,
        state=circuit.state_at(now),
        auth_disabled=circuit.disabled,
        consecutive_failures=circuit.consecutive_failures,
        cooldown_remaining_seconds=circuit.remaining_seconds(now) or None,
        why=None if failure is None else failure.fault.value,
        last_error=None if failure is None else failure.message or failure.fault.value,
        probes_out=circuit.probes_out(now),
    )
