"""Some providers always first, in one order; another policy orders the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnout.calls import Attempt, Identity
from turnout.errors import ConfigError
from turnout.policies.bounds import is_built_in, named_ids, only
from turnout.policies.contract import (
    Answers,
    OrderingPolicy,
    Policy,
    RankedT,
    Ranking,
    ReadsHistory,
    RoutingContext,
)
from turnout.policies.preference import ConfiguredOrder
from turnout.policies.round_robin import RoundRobinPolicy
from turnout.policies.wiring import ReadsClock, ReadsLoad


@dataclass(frozen=True, slots=True)
class FixedHead:
    """The sticky ones lead, in their own order; ``tail`` orders the rest. It is asked once, and not at all where
    nobody is left for it. What it is given is its own to change."""

    sticky: Sequence[str]
    tail: Ranking
    #: Whether the tail is turnout's own, whose answers need no look.
    built_in: bool

    def plan(self, eligible: Sequence[RankedT], context: RoutingContext, ticket: int) -> Sequence[RankedT]:
        head, rest = _parted(eligible, self.sticky)
        if not rest:
            return head
        if self.built_in:
            head += self.tail.plan(rest, context, ticket)
            return head
        return head + only(self.tail.plan(list(rest), context, ticket), rest)


@dataclass(frozen=True, slots=True)
class AskedTail:
    """The same where the rest is ordered by a policy that only the ordering actor may ask."""

    sticky: Sequence[str]
    tail: OrderingPolicy

    def order(self, eligible: Sequence[Identity], context: RoutingContext) -> Sequence[Identity]:
        head, rest = _parted(eligible, self.sticky)
        return head + only(self.tail.order(list(rest), context), rest) if rest else head


@dataclass(frozen=True, slots=True)
class Lead:
    """Puts the sticky ones before what a wrapped policy publishes."""

    sticky: Sequence[str]
    built_in: bool

    def before(self, tail: Ranking) -> Ranking:
        return FixedHead(self.sticky, tail, self.built_in)

    def before_new(self, tail: Ranking | None) -> Ranking | None:
        return None if tail is None else self.before(tail)


@dataclass(frozen=True, slots=True)
class LedHistory:
    """What a wrapped policy makes of rows of before, behind the sticky ones."""

    lead: Lead
    wrapped: ReadsHistory

    def answered(self, answers: Answers, since: Sequence[Attempt] = ()) -> Ranking | None:
        return self.lead.before_new(self.wrapped.answered(answers, since))

    def unanswered(self, why: str) -> Ranking | None:
        return self.lead.before_new(self.wrapped.unanswered(why))

    def aged(self) -> Ranking | None:
        return self.lead.before_new(self.wrapped.aged())


class StickyRoutingPolicy:
    """Tries the providers it names first, in its order, whenever they may be tried; ``fallback_policy`` (by default
    round robin) orders the others. That policy may leave out and repeat, and brings in nobody.

    The preference is the whole router's: nothing that happens to a call changes it, and it knows no sessions. Raises
    ``ConfigError`` for ids that are no list of texts, blank, or given twice, and, once a router is built with it, for
    those that the router does not know.
    """

    def __init__(
        self,
        sticky_provider_ids: Sequence[str],
        fallback_policy: Policy | OrderingPolicy | None = None,
    ) -> None:
        self.sticky_provider_ids = named_ids("sticky_provider_ids", sticky_provider_ids)
        self.fallback_policy = RoundRobinPolicy() if fallback_policy is None else fallback_policy
        self._lead = Lead(self.sticky_provider_ids, is_built_in(self.fallback_policy))
        self._ranks: Policy | None = None
        self._pass_on(self.fallback_policy)
        if isinstance(self.fallback_policy, OrderingPolicy):
            # There in this case only: by its ``order`` a policy is known for one that must be asked.
            self.order = AskedTail(self.sticky_provider_ids, self.fallback_policy).order
        elif callable(getattr(self.fallback_policy, "ranking", None)):
            self._ranks = self.fallback_policy
        else:
            raise ConfigError(
                f"fallback_policy {type(fallback_policy).__name__} is none: it must be an object such as "
                "RoundRobinPolicy(), or one with order(eligible, context); see OrderingPolicy"
            )

    def _pass_on(self, wrapped: object) -> None:
        """What the wrapped policy has besides, this one has: each name is there in that case only, and by being there
        tells what a policy is. None of it refers to this one, which nothing may keep that ends with its router."""
        if isinstance(wrapped, ReadsHistory):
            led = LedHistory(self._lead, wrapped)
            self.refresh_seconds = wrapped.refresh_seconds
            self.bind, self.questions = wrapped.bind, wrapped.questions
            self.answered, self.unanswered, self.aged = led.answered, led.unanswered, led.aged
        if isinstance(wrapped, ReadsLoad):
            self.bind_load = wrapped.bind_load
        if isinstance(wrapped, ReadsClock):
            self.bind_clock = wrapped.bind_clock

    @property
    def learns(self) -> bool:
        return self._ranks is not None and self._ranks.learns

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        unadvised = self.unadvised(providers)
        ranking = getattr(self.fallback_policy, "ranking", None)
        if not callable(ranking):
            return unadvised
        # One that must be asked may want to know its providers as well.
        tail = ranking(providers)
        return unadvised if self._ranks is None else self._lead.before(tail)

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        return None if self._ranks is None else self._lead.before_new(self._ranks.observe(attempts))

    def unadvised(self, providers: Sequence[Identity]) -> Ranking:
        """The ranking for where the wrapped policy fails: the others follow in configured order. Raises
        ``ConfigError`` where this policy names one that is not among ``providers``."""
        known = [provider.provider_id for provider in providers]
        strange = [name for name in self.sticky_provider_ids if name not in known]
        if strange:
            raise ConfigError(
                f"sticky_provider_ids names {', '.join(strange)}; the providers are {', '.join(known)}"
            )
        wrapped = self.fallback_policy
        tail = wrapped.unadvised(providers) if isinstance(wrapped, StickyRoutingPolicy) else ConfiguredOrder()
        return FixedHead(self.sticky_provider_ids, tail, built_in=True)


def _parted(eligible: Sequence[RankedT], sticky: Sequence[str]) -> tuple[list[RankedT], list[RankedT]]:
    """The sticky ones, in their own order, and the others."""
    others = {provider.provider_id: provider for provider in eligible}
    return [others.pop(name) for name in sticky if name in others], list(others.values())
