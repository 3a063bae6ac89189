"""When a policy that reads history asks for more."""

from typing import Any

import pytest

from turnout.actors.learning import Begin, LearningFromHistory
from turnout.actors.ledger_messages import Answered
from turnout.testing import ManualClock


class Policy:
    """Has one question at all times."""

    refresh_seconds = 30.0

    def __init__(self, max_staleness_seconds: float | None) -> None:
        self.max_staleness_seconds = max_staleness_seconds

    def questions(self) -> list[str]:
        return ["how are they?"]

    def aged(self) -> None:
        return None

    def answered(self, answers: Any, since: Any) -> None:
        return None


class Ledger:
    is_kept = True

    def __init__(self) -> None:
        self.asked = 0

    def put_to_store(self, questions: Any, to: Any) -> bool:
        self.asked += 1
        return True


@pytest.mark.parametrize(
    ("took_seconds", "max_staleness_seconds", "next_after_seconds"),
    [(1.0, None, 29.0), (10.0, None, 200.0), (10.0, 110.0, 50.0), (200.0, 110.0, 30.0)],
)
def test_a_store_that_answers_slowly_is_asked_less_often_but_before_its_answer_is_too_old(
    took_seconds: float, max_staleness_seconds: float | None, next_after_seconds: float
) -> None:
    clock, ledger = ManualClock(), Ledger()
    policy: Any = Policy(max_staleness_seconds)
    learning = LearningFromHistory(policy, None, ledger, clock)  # type: ignore[arg-type]
    here: Any = ledger
    learning.receive(Begin(here))
    learning.rest()
    clock.advance(took_seconds)
    learning.rest()
    learning.receive(Answered([]))
    assert ledger.asked == 1
    clock.advance(next_after_seconds - 0.001)
    learning.rest()
    assert ledger.asked == 1
    clock.advance(0.002)
    learning.rest()
    assert ledger.asked == 2
