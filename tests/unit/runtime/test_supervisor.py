"""The supervisor: what starts first ends last, and what will not end is named and waited for again."""

import threading
from typing import Any

import pytest

from turnout.errors import ThreadsStillRunningError
from turnout.runtime.actor import Rests
from turnout.runtime.supervisor import Supervisor
from turnout.runtime.threads import ThreadRuntime
from turnout.testing import ManualClock


class Part:
    """Something with threads, which leaves of them what ``left`` says."""

    def __init__(self, name: str, happened: list[str], *left: str) -> None:
        self.name = name
        self.left = list(left)
        self.seconds: list[float] = []
        self._happened = happened

    def start(self) -> None:
        self._happened.append(f"{self.name} starts")

    def stop(self, timeout_seconds: float) -> list[str]:
        self._happened.append(f"{self.name} stops")
        self.seconds.append(timeout_seconds)
        return self.left

    def dismiss(self) -> list[threading.Thread]:
        self._happened.append(f"{self.name} is dismissed")
        return [threading.Thread(name=name) for name in self.left]


def owning(*parts: Part) -> Supervisor:
    supervisor = Supervisor()
    for part in parts:
        supervisor.own(part)
    return supervisor


def test_parts_start_in_the_order_given_and_stop_in_reverse() -> None:
    happened: list[str] = []
    owning(*(Part(name, happened) for name in "abc")).stop(1.0)
    assert happened == ["a starts", "b starts", "c starts", "c stops", "b stops", "a stops"]


def test_threads_that_will_not_end_are_named_once_all_others_have_stopped() -> None:
    happened: list[str] = []
    supervisor = owning(
        Part("a", happened, "turnout-r-a"),
        Part("b", happened, "turnout-r-b1", "turnout-r-b2"),
        Part("c", happened),
    )
    with pytest.raises(ThreadsStillRunningError, match=r"turnout-r-b1.*turnout-r-b2.*turnout-r-a"):
        supervisor.stop(1.0)
    assert happened[3:] == ["c stops", "b stops", "a stops"]


def test_another_stop_waits_for_what_did_not_end_and_for_nothing_else() -> None:
    happened: list[str] = []
    stuck = Part("b", happened, "turnout-r-b")
    supervisor = owning(Part("a", happened), stuck)
    with pytest.raises(ThreadsStillRunningError):
        supervisor.stop(1.0)
    del happened[:]
    stuck.left = []
    supervisor.stop(1.0)
    supervisor.stop(1.0)
    assert happened == ["b stops"]


def test_a_part_that_is_interrupted_while_it_stops_is_stopped_again() -> None:
    happened: list[str] = []

    class Interrupted(Part):
        def stop(self, timeout_seconds: float) -> list[str]:
            names = super().stop(timeout_seconds)
            if len(self.seconds) == 1:
                raise KeyboardInterrupt
            return names

    supervisor = owning(Part("a", happened), Interrupted("b", happened))
    with pytest.raises(KeyboardInterrupt):
        supervisor.stop(1.0)
    supervisor.stop(1.0)
    assert happened[2:] == ["b stops", "b stops", "a stops"]


def test_a_part_that_uses_up_all_the_time_leaves_each_of_the_others_some() -> None:
    parts = [Part(name, []) for name in "ab"]
    owning(*parts).stop(0.0)
    assert [part.seconds for part in parts] == [[3.0], [3.0]]


def test_a_part_that_does_not_start_is_not_stopped() -> None:
    happened: list[str] = []

    class Refused(Part):
        def start(self) -> None:
            raise RuntimeError("no more threads")

    supervisor = owning(Part("a", happened))
    with pytest.raises(RuntimeError, match="no more threads"):
        supervisor.own(Refused("b", happened))
    supervisor.stop(1.0)
    assert happened == ["a starts", "a stops"]


def test_parts_are_dismissed_in_reverse_and_their_threads_told() -> None:
    happened: list[str] = []
    threads = owning(Part("a", happened, "turnout-r-a"), Part("b", happened, "turnout-r-b")).dismiss()
    assert happened[2:] == ["b is dismissed", "a is dismissed"]
    assert [thread.name for thread in threads] == ["turnout-r-b", "turnout-r-a"]


def test_what_is_owned_after_the_stop_is_ended_without_having_started() -> None:
    happened: list[str] = []
    supervisor = owning()
    supervisor.stop(1.0)
    supervisor.own(Part("a", happened))
    supervisor.stop(1.0)
    assert happened == ["a stops"]


def test_a_part_whose_start_is_interrupted_is_stopped() -> None:
    happened: list[str] = []

    class Interrupted(Part):
        def start(self) -> None:
            super().start()
            raise KeyboardInterrupt

    supervisor = owning(Part("a", happened))
    with pytest.raises(KeyboardInterrupt):
        supervisor.own(Interrupted("b", happened))
    supervisor.stop(1.0)
    assert happened == ["a starts", "b starts", "b stops", "a stops"]


class Hearing(Rests):
    def __init__(self, name: str, ended: list[str]) -> None:
        self._name = name
        self._ended = ended

    def receive(self, message: Any) -> str:
        self._ended.append(f"{self._name} heard {message}")
        return "heard"

    def ended(self) -> None:
        self._ended.append(f"{self._name} ended")


def test_workers_end_before_the_actors_that_they_tell_and_those_the_other_way_round() -> None:
    ended: list[str] = []
    runtime = ThreadRuntime("t", max_workers=1, max_queue=1, idle_seconds=60.0, clock=ManualClock())
    first = runtime.actor("first", Hearing("first", ended))
    runtime.actor("second", Hearing("second", ended))
    runtime.start()
    begun, pause = threading.Event(), threading.Event()

    def tells_at_the_end() -> None:
        begun.set()
        while not runtime.workers._closing:
            pause.wait(0.001)
        first.ask("the last word")

    runtime.workers.submit(tells_at_the_end)
    assert begun.wait(20.0)
    runtime.stop(20.0)
    assert ended == ["first heard the last word", "second ended", "first ended"]
