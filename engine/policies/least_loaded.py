"""Of two at random the one that is likely to answer sooner: for fleets of many providers that are as good as each
other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnout.calls import Attempt, CallType, Identity, Outcome
from turnout.clock import Clock, SystemClock
from turnout.config import LONGEST_SECONDS
from turnout.decisions.load import MOST_DECAYS, Cost, after_answer, after_failure, comparable, drawn
from turnout.policies.bounds import number_above_zero
from turnout.policies.contract import RankedT, Ranking, RoutingContext
from turnout.policies.wiring import Load

_REGULAR: Final = CallType.REGULAR
_SUCCESSES: Final = (Outcome.OK, Outcome.DEGRADED)


def _none_known(provider_id: str) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class LeastLoaded:
    """Draws two of those eligible. What each costs is its latency, for itself and all that is in flight there; the
    cheaper leads, the other follows, and the rest stands by in turn."""

    load: Load
    #: By provider id, of those whose latency is known: how they compare. Others count as the quickest.
    regular: Mapping[str, float]
    streaming: Mapping[str, float]

    def plan(self, eligible: Sequence[RankedT], context: RoutingContext, ticket: int) -> Sequence[RankedT]:
        among = len(eligible)
        if among < 2:
            return eligible
        costs = self.regular if context.call_type is _REGULAR else self.streaming
        one, other = drawn(ticket, among)
        leads, follows = eligible[one], eligible[other]
        if self._cost(follows.provider_id, costs) < self._cost(leads.provider_id, costs):
            leads, follows = follows, leads
        first = ticket % among
        rest = [*eligible[first:], *eligible[:first]]
        for place in sorted(((one - first) % among, (other - first) % among), reverse=True):
            del rest[place]
        return [leads, follows, *rest]

    def _cost(self, provider_id: str, costs: Mapping[str, float]) -> tuple[float, int]:
        """Between equals, as those are whose latency is unknown, what is in flight decides."""
        in_flight = self.load(provider_id)
        return (in_flight + 1) * costs.get(provider_id, 0.0), in_flight


class LeastLoadedPolicy:
    """Sends each call to the less loaded of two providers that are drawn for it: a load is the attempts in flight
    (streams until their end) and the latency of late, which rises at once with a slower answer and sinks by
    ``decay_seconds``. Latencies of whole answers and of streams' first chunks are kept apart. A failure may make a
    provider costlier, and never cheaper. Raises ``ConfigError`` for what is out of range."""

    learns = True

    def __init__(self, decay_seconds: float = 10.0, *, clock: Clock | None = None) -> None:
        self.decay_seconds = number_above_zero("decay_seconds", decay_seconds, LONGEST_SECONDS)
        self._has_clock = clock is not None
        self._monotonic: Callable[[], float] = (SystemClock() if clock is None else clock).monotonic
        self._load: Load = _none_known
        self._known: dict[CallType, dict[str, Cost]] = {}
        self._costs: dict[CallType, dict[str, float]] = {}
        self._reference = 0.0

    def bind_clock(self, clock: Clock) -> None:
        """Called before anything else: the time, unless a clock was given."""
        if not self._has_clock:
            self._monotonic = clock.monotonic

    def bind_load(self, load: Load) -> None:
        """Called before anything else: what is in flight; without it, latencies alone decide."""
        self._load = load

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        self._known = {call_type: {} for call_type in CallType}
        self._move_reference(self._monotonic())
        return self._published()

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        now = self._monotonic()
        if now - self._reference > MOST_DECAYS * self.decay_seconds:
            self._move_reference(now)
        heard = {
            (attempt.call_type, attempt.provider_id) for attempt in attempts if self._learn(attempt, now)
        }
        for call_type in {call_type for call_type, _ in heard}:
            # What was published is never changed.
            self._costs[call_type] = self._costs[call_type].copy()
        for call_type, provider_id in heard:
            cost = self._known[call_type][provider_id]
            self._costs[call_type][provider_id] = comparable(cost, self._reference, self.decay_seconds)
        return self._published() if heard else None

    def _learn(self, attempt: Attempt, now: float) -> bool:
        """Whether the attempt changed what its provider costs."""
        known, provider_id = self._known[attempt.call_type], attempt.provider_id
        before = known.get(provider_id)
        # Of a stream, what it took to begin; one that never did has kept its caller waiting as long as it lasted.
        latency = attempt.elapsed_seconds if attempt.first_seconds is None else attempt.first_seconds
        if attempt.outcome is Outcome.IGNORED:
            return False
        after = after_answer if attempt.outcome in _SUCCESSES else after_failure
        cost = after(before, latency, now, self.decay_seconds)
        if cost is None or cost is before:
            return False
        known[provider_id] = cost
        return True

    def _move_reference(self, now: float) -> None:
        self._reference = now
        self._costs = {
            call_type: {name: comparable(cost, now, self.decay_seconds) for name, cost in known.items()}
            for call_type, known in self._known.items()
        }

    def _published(self) -> Ranking:
        return LeastLoaded(self._load, self._costs[CallType.REGULAR], self._costs[CallType.STREAMING])
