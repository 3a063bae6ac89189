"""Scores that are asked of the store for each order."""

from collections.abc import Callable, Sequence
from itertools import count

from turnout.calls import Identity
from turnout.decisions.scoring import ScoreWeights, score_of
from turnout.decisions.totals import evidence_of
from turnout.policies.bounds import only
from turnout.policies.contract import History, OrderingPolicy, Policy, Ranking, RoutingContext
from turnout.policies.score_history import Outages, Question, partition_of


class AskedScores:
    """One question a call, over those that the tie-break put in order; where there is no answer, that order stays."""

    def __init__(
        self,
        weights: ScoreWeights,
        question: Question,
        tie_break: Policy | OrderingPolicy,
        seconds: Callable[[], float],
    ) -> None:
        self.seconds = seconds
        self.history: History | None = None
        self._weights = weights
        self._question = question
        self._tie_break = tie_break
        self._ranking: Ranking | None = None
        self._tickets = count()
        self._outages = Outages("providers are tried in the order of the tie-break")

    def prepare(self, providers: Sequence[Identity]) -> Ranking | None:
        """Have the tie-break know all providers; its ranking, where it has one."""
        if not isinstance(self._tie_break, OrderingPolicy):
            self._ranking = self._tie_break.ranking(providers)
        return self._ranking

    def order(self, eligible: Sequence[Identity], context: RoutingContext) -> Sequence[Identity]:
        tied = self._tied(eligible, context)
        if self.history is None or not tied:
            return tied
        providers = {provider.provider_id: provider for provider in tied}
        partitions = [partition_of(provider) for provider in providers.values()]
        query = self._question.about(partitions, context.call_type, self.history, self.seconds())
        try:
            (found,) = self.history.ask([query])
        except Exception as error:
            self._outages.lost(error)
            return tied
        self._outages.over()
        scores = {
            name: score_of(*evidence_of(found[name]), self._weights, context.call_type).total
            for name in providers
        }
        return sorted(tied, key=lambda provider: scores[provider.provider_id], reverse=True)

    def _tied(self, eligible: Sequence[Identity], context: RoutingContext) -> list[Identity]:
        if isinstance(self._tie_break, OrderingPolicy):
            return only(self._tie_break.order(list(eligible), context), eligible)
        ranking = self._ranking or self.prepare(eligible)
        assert ranking is not None
        return only(ranking.plan(eligible, context, next(self._tickets)), eligible)
