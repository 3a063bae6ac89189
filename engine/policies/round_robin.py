"""Everyone in turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnout.calls import Attempt, Identity
from turnout.policies.contract import RankedT, Ranking, RoutingContext


@dataclass(frozen=True, slots=True)
class Rotation:
    """Starts one provider further at each plan, over those eligible for it."""

    def plan(self, eligible: Sequence[RankedT], context: RoutingContext, ticket: int) -> Sequence[RankedT]:
        first = ticket % len(eligible)
        return [*eligible[first:], *eligible[:first]] if first else eligible


class RoundRobinPolicy:
    """The default: spreads calls evenly; the others follow in configured order as fallbacks."""

    learns = False

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        return Rotation()

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        return None
