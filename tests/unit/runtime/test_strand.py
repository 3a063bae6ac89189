"""Threads that are started and waited for where an interrupt comes."""

import signal
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from turnout.clock import SystemClock
from turnout.runtime.actor import Actor, Rests
from turnout.runtime.on_demand import ThreadOnDemand
from turnout.runtime.pool import WorkerPool
from turnout.runtime.strand import Strand

WAIT = 20.0
NAME = "turnout-test-strand"


class Held:
    """What a thread does: it begins, and ends when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.go_on.wait(WAIT)


class Slow(Rests):
    """An owner that is held up by what it is told."""

    def __init__(self) -> None:
        self.held = Held()
        self.ended_on = ""

    def receive(self, message: Any) -> None:
        self.held()

    def ended(self) -> None:
        self.ended_on = threading.current_thread().name


def interrupt_the_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def actor_and_held() -> tuple[Any, Held]:
    slow = Slow()
    actor = Actor(NAME, slow, clock=SystemClock())
    actor.start()
    actor.tell("wait")
    return actor.stop, slow.held


def pool_and_held() -> tuple[Any, Held]:
    held = Held()
    pool = WorkerPool(NAME, max_workers=1, max_queue=1, idle_seconds=5.0, clock=SystemClock())
    pool.submit(held)
    return pool.stop, held


def on_demand_and_held() -> tuple[Any, Held]:
    held = Held()
    thread = ThreadOnDemand(NAME, held)
    thread.start()
    return thread.join, held


@pytest.mark.parametrize("part", [actor_and_held, pool_and_held, on_demand_and_held])
def test_a_stop_after_an_interrupted_one_still_waits_for_a_thread_that_runs(
    part: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, held = part()
    assert held.begun.wait(WAIT)
    waiting = threading.Event()
    wait = Strand.ends_within

    def told(thread: Strand, timeout_seconds: float) -> bool:
        waiting.set()
        return wait(thread, timeout_seconds)

    def interrupt() -> None:
        assert waiting.wait(WAIT)
        interrupt_the_main_thread()

    monkeypatch.setattr(Strand, "ends_within", told)
    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        stop(WAIT)
    other.join(WAIT)

    assert [name.removesuffix("-worker-1") for name in stop(0.01)] == [NAME]
    held.go_on.set()
    assert stop(WAIT) == []


def test_an_end_is_heard_by_all_who_wait_for_it_and_by_who_comes_later() -> None:
    held, heard = Held(), list[bool]()
    thread = Strand(NAME, held)
    thread.start()
    others = [threading.Thread(target=lambda: heard.append(thread.ends_within(WAIT))) for _ in range(3)]
    for other in others:
        other.start()
    held.go_on.set()
    for other in others:
        other.join(WAIT)
    assert heard == [True] * 3
    assert thread.ends_within(0.0)
    assert thread not in threading.enumerate()


def test_a_thread_that_raises_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda args: None)

    def bad() -> None:
        raise SystemError

    thread = Strand(NAME, bad)
    thread.start()
    assert thread.ends_within(WAIT)


def test_one_that_was_said_to_be_void_first_does_nothing_and_is_not_waited_for() -> None:
    ran: list[None] = []
    thread = Strand(NAME, lambda: ran.append(None))
    assert thread.is_void()
    assert thread.is_void()
    thread.start()
    assert thread.ends_within(0.0)
    thread.join(WAIT)
    assert ran == []


def test_one_that_has_begun_is_not_void() -> None:
    held = Held()
    thread = Strand(NAME, held)
    thread.start()
    assert held.begun.wait(WAIT)
    assert not thread.is_void()
    held.go_on.set()
    assert thread.ends_within(WAIT)


class LateStart:
    """Starts of threads are interrupted, and come to something when they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._go_on = threading.Event()
        self._begun: SimpleQueue[threading.Thread] = SimpleQueue()

        def late(thread: threading.Thread) -> None:
            interrupt_the_main_thread()
            assert self._go_on.wait(WAIT)
            start(thread)
            self._begun.put(thread)

        start = threading.Thread.start
        monkeypatch.setattr(threading.Thread, "start", late)

    def come(self) -> None:
        """Let the one that was interrupted begin, and end."""
        self._go_on.set()
        self._begun.get(timeout=WAIT).join(WAIT)


@pytest.fixture
def late_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateStart]:
    with monkeypatch.context() as patched:
        yield LateStart(patched)


def test_an_actor_whose_start_was_interrupted_ends_without_its_thread_and_once(
    late_start: LateStart,
) -> None:
    slow = Slow()
    actor = Actor(NAME, slow, clock=SystemClock())
    with pytest.raises(KeyboardInterrupt):
        actor.start()

    assert actor.stop(WAIT) == []
    assert slow.ended_on == threading.current_thread().name
    slow.ended_on = ""
    assert actor.stop(WAIT) == []
    late_start.come()
    assert slow.ended_on == ""


def test_a_worker_that_comes_late_after_an_interrupted_birth_takes_no_second_place(
    late_start: LateStart,
) -> None:
    pool = WorkerPool(NAME, max_workers=1, max_queue=9, idle_seconds=5.0, clock=SystemClock())
    with pytest.raises(KeyboardInterrupt):
        pool.submit(lambda: None)

    assert len(pool._unborn) == 1
    late_start.come()
    assert pool.stop(WAIT) == []
    assert len(pool._unborn) == 1


def test_a_start_on_the_main_thread_is_made_by_one_that_no_interrupt_comes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starters: list[int] = []
    start = threading.Thread.start

    def watched(thread: threading.Thread) -> None:
        starters.append(threading.get_ident())
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", watched)
        thread = Strand(NAME, lambda: None)
        thread.start()
    assert thread.ends_within(WAIT)
    assert len(starters) == 1
    assert starters[0] != threading.main_thread().ident
