"""The half of a policy that learns, and the ranking that it publishes; each used by the ordering actor alone."""

from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from loguru import logger

from turnout.actors.ledger import Ledger
from turnout.actors.ledger_messages import Answered, Asking, Observed, Unanswered
from turnout.calls import Attempt
from turnout.clock import Clock
from turnout.policies.contract import Policy, Ranking, ReadsHistory
from turnout.runtime.actor import Rests
from turnout.runtime.contract import ActorRef

#: How many times as long as its answer took, the store is left in peace before the next question.
_PEACE: Final = 20.0


class Learning(Rests):
    """A policy that learns from each attempt as it comes; ``ranking`` may be read by anyone."""

    def __init__(self, policy: Policy, ranking: Ranking) -> None:
        self._policy = policy
        self.ranking = ranking

    def receive(self, message: Attempt) -> None:
        published = self._policy.observe((message,))
        if published is not None:
            self.ranking = published


class WithHistory(Policy, ReadsHistory, Protocol):
    """A policy that learns from attempts and from rows of before."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message: where answers are to come."""

    here: ActorRef


class LearningFromHistory:
    """A policy that also reads rows. Attempts come by way of the ledger, which says which of them an answer of the
    store has, so that each is counted once; ``ranking`` may be read by anyone."""

    def __init__(self, policy: WithHistory, ranking: Ranking, ledger: Ledger, clock: Clock) -> None:
        self._policy = policy
        self._ledger = ledger
        self._clock = clock
        self._here: ActorRef | None = None
        self._due = clock.monotonic()
        #: When the question that is out was put.
        self._asked_at: float | None = None
        #: What was observed since the store was asked.
        self._since: list[Attempt] | None = None
        self.ranking = ranking

    def receive(self, message: Begin | Observed | Asking | Answered | Unanswered) -> None:
        match message:
            case Begin(here):
                self._here = here
            case Observed(attempts):
                self._publish(self._policy.observe(attempts))
                if self._since is not None:
                    self._since += attempts
            case Asking():
                self._since = []
            case Answered(answers):
                since = self._heard()
                self._publish(self._policy.answered(answers, since))
            case Unanswered(why):
                self._heard()
                self._publish(self._policy.unanswered(why))
            case _:
                assert_never(message)

    def rest(self) -> float | None:
        if self._here is None:
            return None
        now = self._clock.monotonic()
        if now >= self._due:
            self._due = now + self._policy.refresh_seconds
            try:
                self._look(self._here, now)
            except Exception as error:
                logger.warning("the policy could not be refreshed: {!r}", error)
        return max(self._due - now, 0.0)

    def ended(self) -> None:
        """Nothing to say: what was learned is in the rows."""

    def _look(self, here: ActorRef, now: float) -> None:
        self._publish(self._policy.aged())
        if self._ledger.is_kept and self._asked_at is None:
            questions = self._policy.questions()
            if questions and self._ledger.put_to_store(questions, here):
                self._asked_at = now

    def _heard(self) -> list[Attempt]:
        now, asked_at, since = self._clock.monotonic(), self._asked_at, self._since or []
        self._asked_at = self._since = None
        if asked_at is not None:
            self._due = max(self._due, now + self._peace_seconds(now - asked_at))
        return since

    def _peace_seconds(self, took_seconds: float) -> float:
        """A large history takes its time, in which the store takes no rows. But no answer may grow too old for it."""
        peace: float = _PEACE * took_seconds
        longest: float | None = getattr(self._policy, "max_staleness_seconds", None)
        return peace if longest is None else min(peace, max((longest - took_seconds) / 2, 0.0))

    def _publish(self, ranking: Ranking | None) -> None:
        if ranking is not None:
            self.ranking = ranking
