"""The waits for a bench, as the owner of the circuits ends them."""

from collections.abc import Callable
from functools import partial
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
    waiting, limit = Waiting("ab", alarms, clock), Limit(60.0, clock)
    limit.on_cut(lambda: cut.append("cut"))
    waiting.enter(limit, ("a",))
    return waiting, alarms, limit, cut


def test_waits_are_ended_by_the_timer_and_not_by_the_owner_of_the_circuits() -> None:
    waiting, alarms, _, cut = one_that_waits()

    waiting.end(("a",))
    assert (cut, len(alarms.set)) == ([], 1)
    alarms.set.pop()()
    assert cut == ["cut"]


def test_who_has_left_is_not_woken_and_where_nobody_waits_nothing_rings() -> None:
    waiting, alarms, limit, cut = one_that_waits()
    waiting.end(("a",))
    waiting.leave(limit)
    alarms.set.pop()()

    waiting.end(("a",))
    assert (cut, alarms.set, len(waiting)) == ([], [], 0)


def test_where_the_timer_has_no_thread_waits_are_ended_at_once() -> None:
    waiting, alarms, _, cut = one_that_waits()
    alarms.refuses = True

    waiting.end(("a",))
    assert cut == ["cut"]


def test_once_the_timer_has_ended_waits_are_ended_at_once_and_none_that_it_had_is_lost() -> None:
    waiting, _, _, cut = one_that_waits()
    waiting.end(("a",))

    waiting.end_without_alarms()
    assert cut == ["cut"]
    waiting.end(("a",))
    assert cut == ["cut", "cut"]


def a_line(*names: str) -> tuple[Waiting, dict[str, Limit], list[str]]:
    """Who waits at a, in this order; and who was called."""
    clock, alarms, called = ManualClock(), Alarms(), list[str]()
    alarms.refuses = True
    waiting = Waiting("ab", alarms, clock)
    limits = {name: Limit(60.0, clock) for name in names}
    for name, limit in limits.items():
        limit.on_cut(partial(called.append, name))
        waiting.enter(limit, ("a",))
    return waiting, limits, called


def test_as_many_are_called_as_there_is_room_for_and_who_came_first_is_called_first() -> None:
    waiting, limits, called = a_line("one", "two", "three", "four")

    waiting.call("a", 2)
    assert called == ["one", "two"]
    assert [waiting.leave(limits[name]) for name in ("one", "three")] == [True, False]
    waiting.call("a", 5)
    assert called == ["one", "two", "four"]


def test_who_was_called_in_vain_is_the_first_in_line_again() -> None:
    waiting, limits, called = a_line("one", "two")
    waiting.call("a", 1)
    waiting.leave(limits["one"])

    waiting.enter(limits["one"], ("a", "b"), first=True)
    waiting.call("a", 1)
    assert called == ["one", "one"]


def test_news_of_one_provider_wakes_those_alone_who_wait_for_it_and_each_once() -> None:
    waiting, _, called = a_line("one")
    for name, waits_at in (("both", ("a", "b")), ("other", ("b",))):
        limit = Limit(60.0, ManualClock())
        limit.on_cut(partial(called.append, name))
        waiting.enter(limit, waits_at)

    waiting.end(("a",))
    assert called == ["one", "both"]
    waiting.end(("a", "b"))
    assert sorted(called[2:]) == ["both", "one", "other"]
