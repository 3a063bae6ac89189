"""The owner of the policy: it learns here, and plans are made from what it publishes."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, TypeVar

from loguru import logger

from turnout.actors.learning import Begin, Learning, LearningFromHistory
from turnout.actors.ledger import Ledger
from turnout.calls import Attempt, Identity
from turnout.errors import ConfigError, ReentrantCallError
from turnout.policies.bounds import is_built_in, only
from turnout.policies.contract import (
    OrderingPolicy,
    Policy,
    Ranked,
    RankedT,
    Ranking,
    ReadsHistory,
    RoutingContext,
)
from turnout.policies.preference import ConfiguredOrder
from turnout.policies.sticky import StickyRoutingPolicy
from turnout.runtime.actor import Rests
from turnout.runtime.contract import ActorRef, Runtime
from turnout.runtime.steps import Ask, Step
from turnout.runtime.tally import Tally
from turnout.traces import trace_of


class Identified(Ranked, Protocol):
    """What a custom policy orders is shown to it by its identity."""

    @property
    def identity(self) -> Identity: ...


TargetT = TypeVar("TargetT", bound=Identified)


@dataclass(frozen=True, slots=True)
class Order:
    """Ask a custom policy for one order."""

    eligible: tuple[Identity, ...]
    context: RoutingContext


class Asked(Rests):
    """A custom policy; used by its actor alone."""

    def __init__(self, policy: OrderingPolicy) -> None:
        self._policy = policy

    def receive(self, message: Order) -> Sequence[Identity] | Exception:
        try:
            return tuple(self._policy.order(list(message.eligible), message.context))
        except Exception as error:
            # A reply like any other: the walk tells of it once, and is told apart from its own failure to ask.
            return error


class Ordering:
    """Makes plans on the walking thread. A policy that raises falls back to configured order (behind a fixed
    preference, which stays), with one warning."""

    def __init__(
        self,
        policy: Policy | OrderingPolicy,
        providers: Sequence[Identity],
        runtime: Runtime,
        ledger: Ledger | None = None,
    ) -> None:
        self._tickets = count()
        self._warned = False
        self._built_in = is_built_in(policy)
        #: A policy of the user's own may leave out whom it likes.
        self.may_omit = not self._built_in
        self._missed = Tally()
        self._learning: Learning | LearningFromHistory | None = None
        self._ledger = ledger
        #: Whether it is to be told of attempts: those of a policy that reads history come by way of the ledger.
        self.learns = False
        self._asked: ActorRef | None = None
        self._observers: ActorRef | None = None
        #: The order where the policy raises.
        self._unadvised: Ranking = ConfiguredOrder()
        if isinstance(policy, StickyRoutingPolicy):
            self._unadvised = policy.unadvised(providers)
        self._fixed = self._unadvised
        if callable(bind := getattr(policy, "bind", None)):
            bind(ledger if ledger is not None and ledger.is_kept else None)
        if isinstance(policy, OrderingPolicy):
            if callable(prepared := getattr(policy, "ranking", None)):
                prepared(providers)
            self._asked = runtime.actor("ordering", Asked(policy))
            return
        if not callable(getattr(policy, "ranking", None)):
            raise ConfigError(
                f"policy {type(policy).__name__} is none: it needs order(eligible, context); see OrderingPolicy"
            )
        self._fixed = policy.ranking(providers)
        if ledger is not None and isinstance(policy, ReadsHistory):
            self._learning = LearningFromHistory(policy, self._fixed, ledger, runtime.clock)
            learner = runtime.actor("ordering", self._learning)
            ledger.taught(learner)
            learner.tell(Begin(learner))
        elif policy.learns:
            self.learns = True
            self._learning = Learning(policy, self._fixed)
            self._observers = runtime.actor("ordering", self._learning)

    def plan(self, eligible: Sequence[RankedT], context: RoutingContext) -> Sequence[RankedT] | None:
        """The providers to try, in order; None where the policy must be asked for them (``asked``)."""
        if self._asked is not None:
            return None
        ranking = self._fixed if self._learning is None else self._learning.ranking
        try:
            chosen = ranking.plan(eligible, context, next(self._tickets))
            return chosen if self._built_in else only(chosen, eligible)
        except Exception as error:
            self._warn(error)
            return self._unadvised.plan(eligible, context, 0)

    def asked(
        self, eligible: Sequence[TargetT], context: RoutingContext
    ) -> Generator[Step, Any, Sequence[TargetT]]:
        """The same from a custom policy, as a part of a walk."""
        assert self._asked is not None
        try:
            chosen = yield Ask(self._asked, Order(tuple(target.identity for target in eligible), context))
            if not isinstance(chosen, Exception):
                return only(chosen, eligible)
            self._warn(chosen)
        except ReentrantCallError:
            # The policy itself is calling: it is told so, instead of being served without its own advice.
            raise
        except Exception as error:
            self._warn(error)
        return self._unadvised.plan(eligible, context, 0)

    def observe(self, attempt: Attempt) -> None:
        """Tell a policy that learns. When its mailbox is full the attempt is passed over: a sample teaches as well."""
        if self._observers is not None and not self._observers.tell(attempt):
            self._missed.add()

    @property
    def missed(self) -> int:
        """Attempts that a learning policy was not told of."""
        return self._missed.value + (0 if self._ledger is None else self._ledger.unobserved)

    def _warn(self, error: Exception) -> None:
        if self._warned:
            logger.debug("the policy raised again: {!r}", error)
            return
        self._warned = True
        logger.warning(
            "the policy raised; providers are tried in configured order instead:\n{}", trace_of(error)
        )
