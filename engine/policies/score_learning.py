"""The scores of a router's providers: learnt from each attempt, filled and corrected from a store."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from turnout.calls import Attempt, CallType, Identity, Outcome
from turnout.decisions.aggregates import ScoreAggregate
from turnout.decisions.scoring import ScoreWeights, score_of
from turnout.decisions.totals import Totals, Window

#: Scores of providers that nothing was heard of are computed anew once so much of the window has passed: until then
#: their weights are off by a thousandth at most.
_PART: Final = 1 / 4096
_IGNORED, _SUCCESSES = Outcome.IGNORED, (Outcome.OK, Outcome.DEGRADED)


class LearntScores:
    """One score per provider and call type. Times are seconds since the epoch."""

    def __init__(
        self, providers: Sequence[Identity], weights: ScoreWeights, window: Window, at: float
    ) -> None:
        self._weights = weights
        self._window = window
        self._totals = {
            call_type: {
                provider.provider_id: Totals.empty(window, provider.provider_id, at) for provider in providers
            }
            for call_type in CallType
        }
        self._scores: dict[CallType, dict[str, float]] = {call_type: {} for call_type in CallType}
        self._scored_at = at
        self.age(at)

    def scores(self, call_type: CallType) -> Mapping[str, float]:
        """The totals by provider id; what was given out is never changed."""
        return self._scores[call_type]

    def observe(self, attempts: Iterable[Attempt], at: float) -> bool:
        """Learn from attempts that are over; whether any taught something."""
        heard: set[tuple[CallType, str]] = set()
        for attempt in attempts:
            call_type, provider_id = attempt.call_type, attempt.by.provider_id
            totals = self._totals[call_type].get(provider_id)
            if totals is None or attempt.outcome is _IGNORED:
                continue
            # As in the ledger's rows.
            latency = attempt.elapsed_seconds if attempt.stream_opened is None else attempt.first_seconds
            totals.observe(
                attempt.outcome in _SUCCESSES,
                None if latency is None else latency * 1000.0,
                attempt.fault,
                attempt.began,
            )
            heard.add((call_type, provider_id))
        if heard and at - self._scored_at > self._window.seconds * _PART:
            self.age(at)
        elif heard:
            for call_type in {call_type for call_type, _ in heard}:
                self._scores[call_type] = self._scores[call_type].copy()
            for call_type, provider_id in heard:
                self._scores[call_type][provider_id] = self._score(call_type, provider_id, at)
        return bool(heard)

    def replace(self, call_type: CallType, found: Mapping[str, ScoreAggregate], asked_at: float) -> None:
        """Forget what was learnt for ``call_type``: a store gave all of it, as of ``asked_at``. The scores are computed
        with the next ``age``."""
        self._totals[call_type] = {
            provider_id: Totals(self._window, found[provider_id], asked_at)
            for provider_id in self._totals[call_type]
        }

    def age(self, at: float) -> None:
        """Compute every score as of ``at``."""
        self._scored_at = at
        self._scores = {
            call_type: {provider_id: self._score(call_type, provider_id, at) for provider_id in totals}
            for call_type, totals in self._totals.items()
        }

    def _score(self, call_type: CallType, provider_id: str, at: float) -> float:
        evidence = self._totals[call_type][provider_id].evidence(at)
        return score_of(*evidence, self._weights, call_type).total
