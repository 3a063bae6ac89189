"""What decides the order of providers, in two halves: one learns, the other plans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from turnout.calls import Attempt, CallType, Identity
from turnout.decisions.aggregates import ScoreAggregate, ScoreAggregateQuery


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


#: For each question, what the store knows of every provider it names, by provider id.
Answers = Sequence[Mapping[str, ScoreAggregate]]


class History(Protocol):
    """The rows of the ledger, for a policy that asks about them."""

    @property
    def metrics_scope(self) -> str:
        """The scope that the router writes its own rows under."""

    def ask(self, questions: Sequence[ScoreAggregateQuery]) -> Answers:
        """Have what was recorded so far written, then ask the store. Slow. Raises ``StorageError``, also for answers
        that cannot be (``checked_aggregates``). Not from the ledger's own thread."""


@runtime_checkable
class ReadsHistory(Protocol):
    """What a policy has besides that also learns from rows of before, and of other processes. The ordering actor puts
    its questions to the store by way of the ledger, on no call's time. Attempts are observed as they come; ``answered``
    replaces all that was observed, and is told what is in no answer yet, so that every attempt is counted once."""

    @property
    def refresh_seconds(self) -> float:
        """How often it is asked for questions."""

    def bind(self, history: History | None) -> None:
        """Called once before anything else, in a forked child again; None where the router keeps no ledger."""

    def questions(self) -> Sequence[ScoreAggregateQuery]:
        """What to ask the store now."""

    def answered(self, answers: Answers, since: Sequence[Attempt] = ()) -> Ranking | None:
        """The answers to its last questions, in their order, and the attempts observed ``since`` the store was asked; a
        new ranking, or None where nothing changed."""

    def unanswered(self, why: str) -> Ranking | None:
        """The store could not be asked; a new ranking, or None."""

    def aged(self) -> Ranking | None:
        """Time went by without an attempt; a new ranking, or None."""


@runtime_checkable
class OrderingPolicy(Protocol):
    """The simple form for policies of one's own: it may keep state and needs no lock, since the ordering actor asks
    it, one call at a time. That costs each call a question to the actor (tens of microseconds); it must not call the
    router. What it leaves out is not tried, what it repeats is tried again, and what it adds is dropped."""

    def order(self, eligible: Sequence[Identity], context: RoutingContext) -> Sequence[Identity]:
        """The providers to try, in order."""
