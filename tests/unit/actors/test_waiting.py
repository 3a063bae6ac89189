"""The waits for a bench, as the owner of the circuits ends them."""

from collections.abc import Callable
from typing import Any

from turnout.actors.waiting import Waiting
from turnout.deadline import Limit
from turnout.errors import RouterBusyError
from turnout.testing import ManualClock


class Alarms:
    """Rings when it is told to."""

    def __init__(self) -> None:
        self.set: list[Callable[[], None]] = []
        self.refuses = False

    def at(self, instant: float, callback: Callable[[], None]) -> Any:
        if self.refuses:
            raise RouterBusyError("the system gives no thread")
        self.set.append(callback)


def one_that_waits() -> tuple[Waiting, Alarms, Limit, list[str]]:
    alarms, clock, cut = Alarms(), ManualClock(), list[str]()
    waiting, limit = Waiting(alarms, clock), Limit(60.0, clock)
    limit.on_cut(lambda: cut.append("cut"))
    waiting.enter(limit)
    return waiting, alarms, limit, cut


def test_waits_are_ended_by_the_timer_and_not_by_the_owner_of_the_circuits() -> None:
    waiting, alarms, _, cut = one_that_waits()

    waiting.end()
    assert (cut, len(alarms.set)) == ([], 1)
    alarms.set.pop()()
    assert cut == ["cut"]


def test_who_has_left_is_not_woken_and_where_nobody_waits_nothing_rings() -> None:
    waiting, alarms, limit, cut = one_that_waits()
    waiting.end()
    waiting.leave(limit)
    alarms.set.pop()()

    waiting.end()
    assert (cut, alarms.set, len(waiting)) == ([], [], 0)


def test_where_the_timer_has_no_thread_waits_are_ended_at_once() -> None:
    waiting, alarms, _, cut = one_that_waits()
    alarms.refuses = True

    waiting.end()
    assert cut == ["cut"]


def test_once_the_timer_has_ended_waits_are_ended_at_once_and_none_that_it_had_is_lost() -> None:
    waiting, _, _, cut = one_that_waits()
    waiting.end()

    waiting.end_without_alarms()
    assert cut == ["cut"]
    waiting.end()
    assert cut == ["cut", "cut"]
