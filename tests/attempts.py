"""Attempts as policies are told of them, and a history that is kept in memory."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from turnout import Attempt, CallType, Fault, Identity, MemoryMetricsStore, Outcome, Reason, StorageError
from turnout.decisions.aggregates import ScoreAggregateQuery, checked_aggregates
from turnout.policies.contract import Answers
from turnout.storage.attempts import AttemptRows

SCOPE = "here"
_keys = count(1)


def identities(names: str) -> list[Identity]:
    return [Identity(name, name.upper(), f"model-{name}", "openai_chat") for name in names]


def ids(plan: Sequence[Any]) -> str:
    return "".join(provider.provider_id for provider in plan)


def attempt(
    name: str,
    latency: float | None = 0.1,
    fault: Fault | None = None,
    *,
    began: float,
    outcome: Outcome | None = None,
    streaming: bool = False,
) -> Attempt:
    """One that is over. ``latency`` (seconds) is of a whole answer, or of a stream's first chunk."""
    return Attempt(
        key=next(_keys),
        invocation_key=1,
        number=1,
        reason=Reason.PRIMARY,
        by=identities(name)[0],
        call_type=CallType.STREAMING if streaming else CallType.REGULAR,
        began=began,
        elapsed_seconds=30.0 if streaming or latency is None else latency,
        queue_seconds=0.0,
        outcome=outcome or (Outcome.OK if fault is None else Outcome.FAILED),
        epoch=0,
        fault=fault,
        first_seconds=latency if streaming else None,
        stream_opened=latency is not None if streaming else None,
    )


def has(policy: Any, kind: Any) -> bool:
    """isinstance(), by which a checker would take the policy for nothing else from then on."""
    return isinstance(policy, kind)


class Kept:
    """The rows of a ledger, kept in memory; ``down`` is why they cannot be asked for."""

    def __init__(self, scope: str = SCOPE) -> None:
        self.metrics_scope = scope
        self.store = MemoryMetricsStore()
        self.asked: list[ScoreAggregateQuery] = []
        self.down: Exception | None = None

    def record(self, *attempts: Attempt, scope: str = SCOPE) -> None:
        self.store.record_attempts(AttemptRows(attempts, scope))

    def ask(self, questions: Sequence[ScoreAggregateQuery]) -> Answers:
        self.asked += questions
        if self.down is not None:
            raise self.down
        return [
            checked_aggregates(question, self.store.query_score_aggregates(question))
            for question in questions
        ]


def refresh(policy: Any, history: Kept) -> Any:
    """What the ordering actor does every ``refresh_seconds``; the new ranking."""
    questions = policy.questions()
    try:
        answers = history.ask(questions)
    except StorageError as error:
        return policy.unanswered(str(error))
    return policy.answered(answers)
