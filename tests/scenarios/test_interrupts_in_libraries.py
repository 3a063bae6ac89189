"""Ctrl-C, and what signal handlers do, where Python looks for signals, also within the standard library: a router that
is being built, used, closed or cancelled in loses nothing by it."""

import gc
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, as_completed
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final

import pytest

from turnout import ProviderRouter, RouterClosedError
from turnout.batch import run_batch
from turnout.cli.demo_calls import Callers, questions
from turnout.runtime.lazy_future import LazyFuture
from turnout.runtime.tokens import Tokens
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import ScriptedAdapters

WAIT: Final = 20.0
LONG_AGO: Final = datetime.fromtimestamp(0, UTC)
_LIBRARIES: Final = frozenset(("threading", "concurrent.futures._base"))
_MISSES: Final = 2
#: Goes round ten thousand times and more, with nothing in hand.
_LONG: Final = Tokens.__init__.__code__


def interrupt() -> None:
    raise KeyboardInterrupt


class Signal:
    """Does what ``handle`` does on this thread at the place that is ``at`` places away where Python looks for
    signals: where a function begins, where a loop goes back, and after a call of what is written in C."""

    def __init__(self, at: int) -> None:
        self.handle: Callable[[], object] = interrupt
        self._left = at
        self._here = threading.get_ident()
        #: The frames that called what is written in Python: no signal is looked for as that returns.
        self._calling: set[FrameType | None] = set()
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        # What a type's call begins with returns to C first.
        if frame.f_code.co_name != "__init__":
            self._calling.add(frame.f_back)
        name = frame.f_globals.get("__name__", "")
        if not (name.startswith("turnout.") or name in _LIBRARIES) or frame.f_code is _LONG:
            return None
        if frame.f_code.co_name == "<genexpr>" or _is_finalizing(frame):
            # A generator may be closed by being let go: as in a finalizer, Python ignores what is raised there.
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last = "RESUME"

        def step(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal last
            if event == "opcode":
                before, last = last, _NAMES[frame.f_code.co_code[frame.f_lasti]]
                called = frame in self._calling
                self._calling.discard(frame)
                if (before.startswith("CALL") and not called) or "RESUME" in before or "JUMP_BACK" in before:
                    self._come(frame)
            return step

        return step

    def _come(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left == 0:
            sys.settrace(None)
            self.where = f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}, line {frame.f_lineno}"
            self.handle()

    @contextmanager
    def armed(self) -> Iterator[None]:
        # What other tests left is not to be collected in between: Python ignores what is raised there.
        gc.disable()
        before = sys.gettrace()
        # Python 3.12 sends no such events unless somebody had asked for them when tracing began.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)
            gc.enable()
            # Frames keep what they work on.
            self._calling.clear()


def _is_finalizing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name not in {"__del__", "_dropped"}:
        frame = frame.f_back
    return frame is not None


def _named() -> dict[int, str]:
    from opcode import opmap

    return {number: name for name, number in opmap.items()}


_NAMES: Final = _named()


def interrupt_everywhere(act: Callable[[Signal], None], stride: int = 1) -> int:
    """Have ``act`` be interrupted a little later each time, until it ends before it is; how often it was."""
    at, interrupted, missed = random.randrange(stride) + 1, 0, 0
    # Python 3.13 tells of a function's steps from the second time that it is traced to its end.
    while missed < _MISSES:
        signal = Signal(at)
        try:
            act(signal)
        except BaseException as error:
            error.add_note(f"interrupted in {signal.where}")
            raise
        if signal.where:
            interrupted, missed = interrupted + 1, 0
            at += stride
        else:
            missed += 1
    return interrupted


def no_thread_is_left() -> bool:
    """Of this file's routers; waits for those that end."""
    return ended_up(lambda: not threads_of("turnout-my-app"))


def threads_of(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


@pytest.fixture(
    params=[
        pytest.param(13, id="few places"),
        pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(300)], id="all places"),
    ]
)
def stride(request: pytest.FixtureRequest) -> Any:
    return request.param


def built(provider: Any, store: MemoryMetricsStore) -> ProviderRouter:
    return ProviderRouter(
        [{"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}],
        metrics_scope="my-application:production",
        metrics_store=store,
        # Longer than any test: only a close writes.
        ledger={"flush_seconds": 60.0},
        adapter_factory=ScriptedAdapters({"a": [provider]}),
    )


def test_an_interrupted_construction_leaves_no_thread_behind(stride: int) -> None:
    made: list[ProviderRouter] = []

    def construct(signal: Signal) -> None:
        with suppress(KeyboardInterrupt), signal.armed():
            made.append(built("answer", MemoryMetricsStore()))
        if made:
            made.pop().close(WAIT)
        assert no_thread_is_left()

    # Most places are where its settings are checked, and long before any thread.
    assert interrupt_everywhere(construct, stride) > 300 // stride


def test_a_close_after_an_interrupted_one_ends_every_thread_and_writes_every_row(
    rig: Any, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, gates = LazyFuture.watch, list[SimpleQueue[None]]()

    def watched(future: Any, told: Any) -> None:
        watch(future, told)
        # The close has come to a call that is held.
        gates[-1].put(None)

    def close(signal: Signal) -> None:
        gates.append(SimpleQueue())
        store, gate, begun = MemoryMetricsStore(), gates[-1], threading.Event()

        def held(call: Any) -> str:
            begun.set()
            gate.get(timeout=WAIT)
            # For the next.
            gate.put(None)
            return "answer"

        router = built(held, store)
        futures = [router.submit(rig.chat()) for _ in range(2)]
        assert begun.wait(WAIT)
        try:
            with suppress(KeyboardInterrupt), signal.armed():
                router.close()
        finally:
            gate.put(None)
        router.close(WAIT)
        assert [future.result(0) for future in futures] == ["answer"] * 2
        assert len(store.query_recent(since=LONG_AGO)) == 2
        assert no_thread_is_left()

    monkeypatch.setattr(LazyFuture, "watch", watched)
    assert interrupt_everywhere(close, stride) > 100 // stride


@pytest.mark.parametrize("crowd", ["nobody", "callbacks", "a waiter", "a gatherer"])
def test_an_interrupted_cancel_leaves_a_future_that_ends_and_tells_each_once(rig: Any, crowd: str) -> None:
    gates = [threading.Event()]
    router = rig.scripted(ScriptedAdapters({"a": [lambda call: gates[-1].wait(WAIT)]}), "a")
    waits = {
        "a waiter": lambda future: future.exception(WAIT),
        "a gatherer": lambda future: list(as_completed([future], WAIT)),
    }

    def cancel(signal: Signal) -> None:
        gates.append(threading.Event())
        told: list[int] = []
        # Called back without a step of Python's own, in which an interrupt would be theirs.
        called: list[list[Any]] = [[], [], []]
        future = router.submit(rig.chat())
        waiter = threading.Thread(target=waited, args=(waits.get(crowd), future, told))
        if crowd == "callbacks":
            for each in called:
                future.add_done_callback(each.append)
        elif crowd != "nobody":
            waiter.start()
            while not future._standing or not (future._waiters or future._condition._waiters):
                assert waiter.is_alive()
        with suppress(KeyboardInterrupt), signal.armed():
            future.cancel()
        gates[-1].set()
        with suppress(CancelledError):
            future.result(WAIT)
        if crowd == "callbacks":
            # Whoever ended it may be about to tell.
            assert ended_up(lambda: called == [[future]] * 3)
        elif crowd != "nobody":
            waiter.join(WAIT)
            assert told == [0]
        assert ended_up(lambda: router.stats().pending == 0)

    assert interrupt_everywhere(cancel) > 6
    gates[-1].set()


def test_a_close_in_a_signal_handler_ends_in_time_wherever_it_interrupts_a_submit(rig: Any) -> None:
    def submit(signal: Signal) -> None:
        router = built("answer", store := MemoryMetricsStore())
        signal.handle = lambda: router.close(WAIT)
        calls = []
        try:
            with suppress(RouterClosedError), signal.armed():
                calls.append(router.submit(rig.chat()))
        finally:
            router.close(WAIT)
        # One that was about to be queued is cancelled.
        assert all(future.done() for future in calls)
        answered = [future for future in calls if not future.cancelled()]
        assert [future.result(0) for future in answered] == ["answer"] * len(answered)
        assert len(store.query_recent(since=LONG_AGO)) == len(answered)
        assert no_thread_is_left()

    assert interrupt_everywhere(submit) > 50


@pytest.mark.parametrize("timeout", [None, WAIT], ids=["without a time", "timed"])
def test_a_close_in_a_signal_handler_leaves_the_calls_of_other_threads_to_end(
    rig: Any, stride: int, timeout: float | None
) -> None:
    def submit(signal: Signal) -> None:
        router, others = built("answer", MemoryMetricsStore()), list[Any]()

        def close() -> None:
            # Others may wait for what this thread was about to start.
            other = threading.Thread(target=lambda: others.append(router.submit(rig.chat(), timeout=timeout)))
            other.start()
            other.join(WAIT)
            router.close(WAIT)

        signal.handle = close
        try:
            with suppress(RouterClosedError), signal.armed():
                router.submit(rig.chat(), timeout=timeout)
        finally:
            router.close(WAIT)
        assert [future.result(0) for future in others] == ["answer"] * bool(signal.where)
        assert no_thread_is_left()

    assert interrupt_everywhere(submit, stride) > 50 // stride


def test_a_signal_handler_has_its_own_call_answered_wherever_it_interrupts_a_submit(
    rig: Any, stride: int
) -> None:
    def submit(signal: Signal) -> None:
        router, answers = built("answer", MemoryMetricsStore()), list[str]()
        signal.handle = lambda: answers.append(router.submit(rig.chat()).result(WAIT))
        with signal.armed():
            future = router.submit(rig.chat())
        assert future.result(WAIT) == "answer"
        assert answers == ["answer"] * bool(signal.where)
        router.close(WAIT)

    assert interrupt_everywhere(submit, stride) > 50 // stride


def test_an_interrupted_wait_is_told_as_an_interrupt() -> None:
    def wait(signal: Signal) -> None:
        future: Any = LazyFuture()
        left = threading.Event()

        def resolve() -> None:
            while not (left.is_set() or (future._standing and future._condition._waiters)):
                pass
            future.resolve("answer", None)

        other = threading.Thread(target=resolve)
        other.start()
        try:
            with suppress(KeyboardInterrupt), signal.armed():
                future.result(WAIT)
        finally:
            left.set()
            other.join(WAIT)
        assert future.result(0) == "answer"

    assert interrupt_everywhere(wait) > 20


def test_an_interrupted_batch_leaves_no_thread_behind(rig: Any, stride: int) -> None:
    line = {
        "custom_id": "1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"messages": [{"role": "user", "content": "hi"}]},
    }
    router = rig.scripted(ScriptedAdapters({"a": [lambda call: 1 / 0]}), "a")

    def run(signal: Signal) -> None:
        with suppress(KeyboardInterrupt), signal.armed():
            run_batch(router, [json.dumps(line)], lambda line: None)
        assert ended_up(lambda: not threads_of("turnout-batch"))

    assert interrupt_everywhere(run, stride) > 100 // stride


def test_interrupted_callers_of_the_demonstration_end(rig: Any, stride: int) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [lambda call: 1 / 0]}), "a")

    def start(signal: Signal) -> None:
        callers = Callers(router, questions(1, random.Random(1)))
        with suppress(KeyboardInterrupt), signal.armed():
            callers.start()
        callers.stop(WAIT)
        assert ended_up(lambda: not threads_of("turnout-demo"))

    assert interrupt_everywhere(start, stride) > 50 // stride


def waited(wait: Any, future: Any, told: list[int]) -> None:
    with suppress(CancelledError):
        wait(future)
    told.append(0)


def ended_up(there: Callable[[], bool]) -> bool:
    end = time.monotonic() + WAIT
    while not there():
        if time.monotonic() > end:
            return False
        threading.Event().wait(0.001)
    return True
