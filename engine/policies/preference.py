"""The configured order, always."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnout.calls import Attempt, Identity
from turnout.policies.contract import RankedT, Ranking, RoutingContext


@dataclass(frozen=True, slots=True)
class ConfiguredOrder:
    """Eligible providers come in configured order already."""

    def plan(self, eligible: Sequence[RankedT], context: RoutingContext, ticket: int) -> Sequence[RankedT]:
        return eligible


class PreferencePolicy:
    """Order is preference: the first configured provider that can be tried, is."""

    learns = False

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        return ConfiguredOrder()

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        return None
