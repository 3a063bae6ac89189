"""The owner of every provider's circuit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from loguru import logger

from turnout.calls import Identity
from turnout.clock import Clock
from turnout.decisions.circuit import Circuit, State, Thresholds, after_failure, after_success
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
    """An attempt that began in ``began_epoch`` failed."""

    provider_id: str
    began_epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Succeeded:
    """An attempt that began in ``began_epoch`` succeeded."""

    provider_id: str
    began_epoch: int


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
    """One provider's health for people. ``cooldown_remaining_seconds`` is None where there is no bench."""

    provider_name: str
    state: State
    auth_disabled: bool
    consecutive_failures: int
    cooldown_remaining_seconds: float | None
    last_error: str | None


class Circuits(Rests):
    """The state and its rules; used by its actor alone, but for ``snapshot``, which anyone may read."""

    def __init__(self, providers: Sequence[Identity], thresholds: Thresholds, clock: Clock) -> None:
        self._thresholds = thresholds
        self._clock = clock
        self.snapshot = HealthSnapshot(0, {provider.provider_id: Circuit() for provider in providers}, True)

    def receive(self, message: Failed | Succeeded | Reset) -> Change | None:
        now, epoch = self._clock.monotonic(), self.snapshot.epoch + 1
        match message:
            case Failed(provider_id, began, failure):
                before = self.snapshot.circuits[provider_id]
                after = after_failure(before, failure, began, epoch, now, self._thresholds)
            case Succeeded(provider_id, began):
                before = self.snapshot.circuits[provider_id]
                after = after_success(before, began)
            case Reset(provider_ids):
                self._publish(dict.fromkeys(provider_ids, Circuit(since=epoch)))
                return None
            case _:
                assert_never(message)
        if after is not before:
            self._publish({provider_id: after})
        return Change(provider_id, before, after, after.remaining_seconds(now))

    def _publish(self, changed: Mapping[str, Circuit]) -> None:
        circuits = {**self.snapshot.circuits, **changed}
        clean = all(circuit.clean for circuit in circuits.values())
        self.snapshot = HealthSnapshot(self.snapshot.epoch + 1, circuits, clean)


class Health:
    """What others hold of it: the published snapshot, and the address for what changes it."""

    def __init__(self, providers: Sequence[Identity], thresholds: Thresholds, runtime: Runtime) -> None:
        self._providers = {provider.provider_id: provider for provider in providers}
        self._clock = runtime.clock
        self.circuits = Circuits(providers, thresholds, runtime.clock)
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

        The first bench of an outage warns, further ones are DEBUG, the first success after it is one INFO.
        """
        before, after = change.before, change.after
        who = f"provider {self._providers[change.provider_id].described}"
        if after.state is not State.CLOSED and after.since != before.since:
            level = "DEBUG" if before.outage else "WARNING"
            logger.log(level, "{} {}", who, _why_benched(after, change.cooldown_seconds))
        elif before.outage and not after.outage:
            logger.info("{} answers again", who)


def exclusion_detail(circuit: Circuit, now: float) -> str:
    """Why a circuit does not admit, for an error message."""
    return _why_benched(circuit, circuit.remaining_seconds(now))


def _why_benched(circuit: Circuit, cooldown_seconds: float) -> str:
    failure = circuit.last_failure
    because = f"; last error: {failure.message or failure.fault.value}" if failure else ""
    if circuit.state is State.DISABLED:
        return (
            f"is disabled for this run: its credentials were refused; mend them, then reset_health(){because}"
        )
    trigger = "after repeated failures"
    if failure is not None:
        trigger = f"after {failure.fault.value.replace('_', ' ')}"
        if circuit.consecutive_failures:
            failures = (
                "1 failure"
                if circuit.consecutive_failures == 1
                else f"{circuit.consecutive_failures} failures"
            )
            trigger += f" ({failures} in a row)"
    return f"is benched for {cooldown_seconds:.1f} s {trigger}{because}"


def _reported(provider: Identity, circuit: Circuit, now: float) -> ProviderHealthReport:
    remaining = circuit.remaining_seconds(now)
    failure = circuit.last_failure
    return ProviderHealthReport(
        provider_name=provider.name,
        state=circuit.state,
        auth_disabled=circuit.state is State.DISABLED,
        consecutive_failures=circuit.consecutive_failures,
        cooldown_remaining_seconds=remaining or None,
        last_error=None if failure is None else failure.message or failure.fault.value,
    )
