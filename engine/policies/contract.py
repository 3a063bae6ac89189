"""What decides the order of providers, in two halves: one learns, the other plans."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from turnout.calls import Attempt, CallType, Identity


@dataclass(frozen=True, slots=True)
class RoutingContext:
    """What a plan may depend on besides the providers."""

    call_type: CallType


class Ranked(Protocol):
    """What a ranking orders: anything with a provider's identity."""

    @property
    def provider_id(self) -> str: ...


RankedT = TypeVar("RankedT", bound=Ranked)


class Ranking(Protocol):
    """A frozen view from which plans are made, purely and by any thread at once."""

    def plan(self, eligible: Sequence[RankedT], context: RoutingContext, ticket: int) -> Sequence[RankedT]:
        """The providers to try, in order. ``ticket`` is one number per plan: rotation, and a seed for draws."""


class Policy(Protocol):
    """The half that learns; only the ordering actor calls it."""

    @property
    def learns(self) -> bool:
        """Whether it wants to be told of attempts."""

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        """The ranking to start with. Raises ``ConfigError`` where it cannot work with these providers."""

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        """Learn from attempts; a new ranking to publish, or None where nothing changed."""


@runtime_checkable
class OrderingPolicy(Protocol):
    """The simple form for policies of one's own: it may keep state and needs no lock, since the ordering actor asks
    it, one call at a time. That costs each call a question to the actor (tens of microseconds); it must not call the
    router. What it leaves out is not tried, what it repeats is tried again, and what it adds is dropped."""

    def order(self, eligible: Sequence[Identity], context: RoutingContext) -> Sequence[Identity]:
        """The providers to try, in order."""
