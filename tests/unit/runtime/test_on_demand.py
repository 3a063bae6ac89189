"""Threads that start at first use: a refusal, or an interrupt, costs that use alone."""

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from queue import SimpleQueue
from typing import Any

import pytest

from turnout.clock import SystemClock
from turnout.errors import RouterBusyError, RouterClosedError
from turnout.runtime.loop import EventLoop
from turnout.runtime.on_demand import ThreadOnDemand
from turnout.runtime.timer import Timer

WAIT = 20.0
NAME = "turnout-test-part"


def refused(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


async def answer() -> str:
    return "answer"


def rings(timer: Timer) -> None:
    bell: SimpleQueue[None] = SimpleQueue()
    timer.at(0.0, lambda: bell.put(None))
    bell.get(timeout=WAIT)


def awaits(loop: EventLoop) -> None:
    assert loop.run(answer(), contextvars.copy_context()).result(WAIT) == "answer"


PARTS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "timer": (lambda: Timer(NAME, SystemClock()), rings),
    "loop": (lambda: EventLoop(NAME), awaits),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_thread_that_was_refused_is_asked_for_again_at_the_next_use(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    made, use = PARTS[part]
    it = made()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        for _ in range(2):
            with pytest.raises(RouterBusyError, match=f"no thread for {NAME}; try again"):
                use(it)
    use(it)
    assert it.stop(WAIT) == []


@pytest.mark.parametrize("part", PARTS)
def test_what_never_got_its_thread_can_be_stopped(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    made, use = PARTS[part]
    it = made()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RouterBusyError):
            use(it)
    assert it.stop(WAIT) == []
    assert it.stop(WAIT) == []


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("begun", [False, True])
def test_an_interrupted_start_costs_no_later_use_and_leaves_one_thread(
    monkeypatch: pytest.MonkeyPatch, part: str, begun: bool
) -> None:
    made, use = PARTS[part]
    it = made()
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if begun:
            start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            use(it)
    use(it)
    use(it)
    assert it.stop(WAIT) == []


def test_a_use_within_its_own_start_as_a_signal_handler_makes_it_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timer, bell, start = Timer(NAME, SystemClock()), SimpleQueue[str](), threading.Thread.start
    handled = threading.Event()

    def handle(*_: object) -> None:
        timer.at(0.0, lambda: bell.put("handler"))
        handled.set()

    def signalled(thread: threading.Thread) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        assert handled.wait(WAIT)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", signalled)
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        timer.at(0.0, lambda: bell.put("caller"))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sorted(bell.get(timeout=WAIT) for _ in range(2)) == ["caller", "handler"]
    assert timer.stop(WAIT) == []


def test_many_first_uses_at_once_start_one_thread() -> None:
    ran: SimpleQueue[None] = SimpleQueue()
    for _ in range(50):
        thread = ThreadOnDemand(NAME, lambda: ran.put(None))
        users = [threading.Thread(target=thread.start) for _ in range(4)]
        for user in users:
            user.start()
        for user in users:
            user.join(WAIT)
        assert thread.join(WAIT) == []
    assert ran.qsize() == 50


def test_after_its_end_a_timer_starts_no_thread() -> None:
    timer = Timer(NAME, SystemClock())
    assert timer.stop(WAIT) == []
    timer.at(0.0, lambda: None)
    assert all(thread.name != NAME for thread in threading.enumerate())


@pytest.mark.parametrize("used", [False, True])
def test_a_loop_that_has_ended_refuses_at_once_and_closes_what_it_was_given(used: bool) -> None:
    loop = EventLoop(NAME)
    if used:
        awaits(loop)
    assert loop.stop(WAIT) == []
    # A coroutine left unawaited would be a warning, and so fail this test.
    with pytest.raises(RouterClosedError, match="build a new one"):
        loop.run(answer(), contextvars.copy_context())


def test_what_comes_to_a_loop_just_as_it_ends_is_cancelled_with_what_it_had_in_hand() -> None:
    loop, begun = EventLoop(NAME), threading.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    in_hand = loop.run(endless(), contextvars.copy_context())
    assert begun.wait(WAIT)
    assert loop.stop(WAIT) == []
    # It looked before the end came.
    loop._stopping = False
    late = loop.run(answer(), contextvars.copy_context())

    for future in (in_hand, late):
        with pytest.raises(CancelledError):
            future.result(WAIT)
    assert loop.ended


def test_a_task_cancelled_before_its_first_step_leaves_nothing_unawaited() -> None:
    loop, inside = EventLoop(NAME), threading.Event()
    gate = threading.Event()

    async def hold() -> None:
        inside.set()
        assert gate.wait(WAIT)

    held = loop.run(hold(), contextvars.copy_context())
    assert inside.wait(WAIT)
    waiting = loop.run(answer(), contextvars.copy_context())
    assert waiting.cancel()
    gate.set()
    held.result(WAIT)
    awaits(loop)
    assert loop.stop(WAIT) == []
