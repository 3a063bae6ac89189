"""The best first, and where scores are equal the order of another ranking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnout.calls import CallType
from turnout.policies.bounds import only
from turnout.policies.contract import RankedT, Ranking, RoutingContext

_REGULAR = CallType.REGULAR


@dataclass(frozen=True, slots=True)
class ScoreRanking:
    """Sorts what ``ties`` plans by scores that were computed before. What ``ties`` leaves out or repeats stays so."""

    ties: Ranking
    #: The total of each provider, by its id, for either call type.
    regular: Mapping[str, float]
    streaming: Mapping[str, float]

    def plan(self, eligible: Sequence[RankedT], context: RoutingContext, ticket: int) -> Sequence[RankedT]:
        scores = self.regular if context.call_type is _REGULAR else self.streaming
        tied = self.ties.plan(eligible, context, ticket)
        return sorted(tied, key=lambda provider: scores[provider.provider_id], reverse=True)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A ranking of the user's own, which may bring in nobody."""

    own: Ranking

    def plan(self, eligible: Sequence[RankedT], context: RoutingContext, ticket: int) -> Sequence[RankedT]:
        return only(self.own.plan(list(eligible), context, ticket), eligible)
