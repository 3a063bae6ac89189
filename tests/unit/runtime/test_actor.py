"""Actors: one owner, every message answered, nothing left waiting."""

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from turnout.clock import SystemClock
from turnout.errors import ReentrantCallError, RouterBusyError, RouterClosedError
from turnout.runtime.actor import Actor, Rests

WAIT = 20.0


class Adder(Rests):
    """Adds what it is told, on whatever thread it runs, and says who that was."""

    def __init__(self) -> None:
        self.total = 0
        self.threads: set[str] = set()
        self.ended_with: int | None = None

    def receive(self, message: Any) -> int:
        self.threads.add(threading.current_thread().name)
        if isinstance(message, Exception):
            raise message
        self.total += message
        return self.total

    def ended(self) -> None:
        self.ended_with = self.total


class Blocked(Rests):
    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()

    def receive(self, message: Any) -> Any:
        self.entered.set()
        assert self.go.wait(WAIT)
        return message


def started(behaviour: Any, **options: Any) -> Actor:
    actor = Actor("turnout-test-actor", behaviour, clock=SystemClock(), **options)
    actor.start()
    return actor


def test_messages_are_handled_in_order_by_one_named_thread() -> None:
    adder = Adder()
    actor = started(adder)
    for number in range(100):
        actor.tell(number)
    assert actor.ask(0) == sum(range(100))
    assert adder.threads == {"turnout-test-actor"}
    assert actor.stop(WAIT) == []


def test_what_handling_raises_goes_to_the_asker_and_the_actor_lives_on() -> None:
    actor = started(Adder())
    with pytest.raises(ZeroDivisionError):
        actor.ask(ZeroDivisionError())
    assert actor.ask(3) == 3
    actor.stop(WAIT)


def test_stop_handles_what_was_told_before_it() -> None:
    adder = Adder()
    actor = started(adder)
    for _ in range(5000):
        actor.tell(1)
    assert actor.stop(WAIT) == []
    assert adder.ended_with == 5000


def test_after_its_end_it_answers_that_it_is_closed() -> None:
    actor = started(Adder())
    actor.stop(WAIT)
    with pytest.raises(RouterClosedError):
        actor.ask(1)
    actor.tell(1)


def test_one_that_outlives_its_thread_still_answers_on_the_askers() -> None:
    adder = Adder()
    actor = started(adder, outlives=True)
    actor.ask(1)
    actor.stop(WAIT)
    assert actor.ask(2) == 3
    assert threading.current_thread().name in adder.threads


def test_many_askers_around_its_end_are_all_answered() -> None:
    for _ in range(30):
        actor = started(Adder())
        answers: SimpleQueue[object] = SimpleQueue()

        def ask(actor: Actor = actor, answers: "SimpleQueue[object]" = answers) -> None:
            for _ in range(20):
                try:
                    answers.put(actor.ask(1, timeout_seconds=WAIT))
                except RouterClosedError as closed:
                    answers.put(closed)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        actor.stop(WAIT)
        for thread in threads:
            thread.join(WAIT)
        assert answers.qsize() == 80


def test_late_messages_to_one_that_outlives_are_handled_one_at_a_time() -> None:
    adder = Adder()
    actor = started(adder, outlives=True)
    actor.stop(WAIT)

    def tell() -> None:
        for _ in range(200):
            actor.ask(1, timeout_seconds=WAIT)

    threads = [threading.Thread(target=tell) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert adder.total == 1600


def test_asking_from_its_own_thread_raises_at_once() -> None:
    class Selfish(Rests):
        actor: Actor

        def receive(self, message: Any) -> Any:
            return self.actor.ask(message)

    selfish = Selfish()
    selfish.actor = started(selfish)
    with pytest.raises(ReentrantCallError, match="own thread"):
        selfish.actor.ask(1)
    selfish.actor.stop(WAIT)


def test_a_full_mailbox_refuses_and_says_so() -> None:
    blocked = Blocked()
    actor = started(blocked, capacity=2)
    actor.tell(1)
    assert blocked.entered.wait(WAIT)
    assert actor.tell(2)
    assert actor.tell(3)
    assert not actor.tell(4)
    with pytest.raises(RouterBusyError, match="is full; try again later, or make fewer calls at once"):
        actor.ask(5)
    blocked.go.set()
    assert actor.stop(WAIT) == []


def test_an_answer_that_does_not_come_in_time_is_a_timeout() -> None:
    blocked = Blocked()
    actor = started(blocked)
    with pytest.raises(TimeoutError, match="did not answer"):
        actor.ask(1, timeout_seconds=0.001)
    blocked.go.set()
    assert actor.stop(WAIT) == []


def test_a_thread_that_will_not_end_is_named() -> None:
    blocked = Blocked()
    actor = started(blocked)
    actor.tell(1)
    assert blocked.entered.wait(WAIT)
    assert actor.stop(0.0) == ["turnout-test-actor"]
    blocked.go.set()
    actor.thread.join(WAIT)


def test_one_that_fails_between_messages_goes_on() -> None:
    class Restless:
        def __init__(self) -> None:
            self.rested = 0

        def receive(self, message: Any) -> Any:
            return message

        def rest(self) -> float | None:
            self.rested += 1
            raise RuntimeError("between messages")

        def ended(self) -> None:
            raise RuntimeError("at the end")

    actor = started(Restless())
    assert actor.ask("hello") == "hello"
    assert actor.ask("again") == "again"
    assert actor.stop(WAIT) == []
