"""The lazy future: to whoever looks, a standard future that can be cancelled until it is resolved."""

import asyncio
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, as_completed, wait
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loguru import logger

from turnout.runtime.lazy_future import LazyFuture

WAIT = 20.0


def resolved(value: Any = None, error: BaseException | None = None) -> LazyFuture:
    future = LazyFuture()
    assert future.resolve(value, error)
    return future


def cancelled() -> LazyFuture:
    future = LazyFuture()
    assert future.cancel()
    return future


def told(act: Callable[[], Any]) -> Any:
    """What it gives, or the kind of what it raises."""
    try:
        return act()
    except BaseException as error:
        return type(error)


class Standard:
    """The standard future, with the words of the lazy one."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def resolve(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)

    def cancel(self) -> bool:
        said = self.future.cancel()
        if self.future.cancelled():
            told(self.future.set_running_or_notify_cancel)
        return said


STEPS = (
    "resolve",
    "fail",
    "cancel",
    "result",
    "exception",
    "done",
    "cancelled",
    "running",
    "callback",
    "wait",
)


def played(future: Any, resolve: Any, cancel: Any, steps: list[str]) -> list[Any]:
    seen: list[Any] = []
    for step in steps:
        match step:
            case "resolve":
                resolve("value", None)
            case "fail":
                resolve(None, ValueError("no"))
            case "cancel":
                seen.append(cancel())
            case "result" | "exception":
                seen.append(told(lambda step=step: getattr(future, step)(0)))  # type: ignore[misc]
            case "callback":
                future.add_done_callback(lambda one: seen.append(("told", one.done(), one.cancelled())))
            case "wait":
                done, not_done = wait([future], 0)
                seen.append((len(done), len(not_done)))
            case _:
                seen.append(getattr(future, step)())
    return [type(one) if isinstance(one, ValueError) else one for one in seen]


@given(st.lists(st.sampled_from(STEPS), max_size=12))
def test_whatever_is_done_to_it_it_says_what_the_standard_future_says(steps: list[str]) -> None:
    lazy, standard = LazyFuture(), Standard()
    assert played(lazy, lazy.resolve, lazy.cancel, steps) == played(
        standard.future, standard.resolve, standard.cancel, steps
    )


def test_an_error_is_raised_each_time_and_is_not_held_in_a_cycle() -> None:
    future = resolved(error=ValueError("no"))
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            future.result()
    gone = weakref.ref(future)
    del future
    assert gone() is None


def test_functions_of_the_standard_library_take_it() -> None:
    pending = LazyFuture()
    some = [resolved(1), resolved(error=ValueError()), cancelled()]
    assert set(as_completed(some, timeout=WAIT)) == {*some}
    assert wait([pending, some[0]], WAIT, FIRST_COMPLETED).not_done == {pending}
    assert not wait([pending], 0).done

    async def awaited() -> Any:
        return await asyncio.wrap_future(some[0]), await asyncio.gather(
            *map(asyncio.wrap_future, some[1:]), return_exceptions=True
        )

    value, (error, cancel) = asyncio.run(awaited())
    assert value == 1
    assert isinstance(error, ValueError)
    assert isinstance(cancel, asyncio.CancelledError)
    assert pending.cancel()


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda future: future.resolve("value", None), "value"),
        (lambda future: future.resolve(None, ValueError("no")), ValueError),
        (lambda future: future.cancel(), CancelledError),
    ],
)
@pytest.mark.parametrize("look", ["result", "as_completed", "callback"])
def test_who_looks_while_it_is_being_resolved_is_told(look: str, end: Any, expected: Any) -> None:
    for _ in range(300):
        future, seen, start = LazyFuture(), SimpleQueue[Any](), threading.Barrier(2)

        def watch(
            future: LazyFuture = future, seen: SimpleQueue[Any] = seen, start: threading.Barrier = start
        ) -> None:
            start.wait(WAIT)
            if look == "callback":
                future.add_done_callback(lambda one: seen.put(told(one.result)))
            elif look == "result":
                seen.put(told(lambda: future.result(WAIT)))
            else:
                (one,) = as_completed([future], timeout=WAIT)
                seen.put(told(one.result))

        watcher = threading.Thread(target=watch)
        watcher.start()
        start.wait(WAIT)
        end(future)
        watcher.join(WAIT)
        assert seen.get(timeout=WAIT) == expected
        assert seen.empty()


def test_of_many_who_would_resolve_it_one_does_and_all_cancels_agree_on_it() -> None:
    for round_number in range(200):
        future, start = LazyFuture(), threading.Barrier(6)
        won: SimpleQueue[str] = SimpleQueue()
        said: SimpleQueue[bool] = SimpleQueue()

        def resolve(future: LazyFuture = future, start: Any = start, won: Any = won, name: str = "") -> None:
            start.wait(WAIT)
            if future.resolve(name, None):
                won.put(name)

        def cancel(future: LazyFuture = future, start: Any = start, said: Any = said) -> None:
            start.wait(WAIT)
            said.put(future.cancel())

        members = [threading.Thread(target=resolve, kwargs={"name": f"{n}"}) for n in range(2)]
        members += [threading.Thread(target=cancel) for _ in range(4)]
        for member in members:
            member.start()
        for member in members:
            member.join(WAIT)
        assert {said.get() for _ in range(4)} == {future.cancelled()}, round_number
        if future.cancelled():
            assert won.empty()
        else:
            assert future.result(0) == won.get()
            assert won.empty()


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3), GeneratorExit()])
def test_a_callback_that_raises_keeps_no_other_from_being_called(error: BaseException) -> None:
    future, seen, told = LazyFuture(), list[str](), list[str]()

    def bad(_: Any) -> None:
        raise error

    future.add_done_callback(bad)
    future.add_done_callback(lambda _: seen.append("told"))
    sink = logger.add(lambda message: told.append(message.record["level"].name))
    try:
        future.resolve(1, None)
    finally:
        logger.remove(sink)
    assert seen == ["told"]
    assert told == ["ERROR"]


@pytest.mark.parametrize("look", ["wait", "as_completed"])
def test_many_that_are_resolved_while_somebody_gathers_them_are_each_counted_once(look: str) -> None:
    """What ``wait`` and ``as_completed`` read twice under the futures' locks may not change in between."""
    for _ in range(60):
        futures, start = [LazyFuture() for _ in range(40)], threading.Barrier(3)

        def resolve(part: list[LazyFuture], start: threading.Barrier = start) -> None:
            start.wait(WAIT)
            for future in part:
                future.resolve(1, None)

        threads = [threading.Thread(target=resolve, args=(futures[n::2],)) for n in range(2)]
        for thread in threads:
            thread.start()
        start.wait(WAIT)
        if look == "wait":
            gathered = wait(futures, WAIT)
            assert not gathered.not_done
            assert all(future.done() for future in futures)
        else:
            assert len(list(as_completed(futures, WAIT))) == len(futures)
        for thread in threads:
            thread.join(WAIT)


def test_a_state_does_not_change_between_two_looks_under_the_lock() -> None:
    future, other = LazyFuture(), LazyFuture()
    resolving = threading.Thread(target=lambda: future.resolve(1, None))
    with future._condition, other._condition:
        before = future._state
        resolving.start()
        while not future.is_decided:
            assert resolving.is_alive()
        assert (before, future._state, future.done()) == ("PENDING", "PENDING", False)
    resolving.join(WAIT)
    assert future.result(0) == 1


def test_an_error_that_was_waited_for_is_not_held_in_a_cycle() -> None:
    future = LazyFuture()
    late = threading.Thread(target=future.resolve, args=(None, ValueError("no")))
    late.start()
    with pytest.raises(ValueError, match="no"):
        future.result(WAIT)
    late.join(WAIT)
    gone = weakref.ref(future)
    del late, future
    assert gone() is None


def test_somebody_who_looked_before_takes_nothing_from_who_waits() -> None:
    """The hook before waiting is called where it is unresolved, a crowd before it or not."""
    asked: list[float | None] = []

    class Hooked(LazyFuture):
        def _before_waiting(self, timeout: float | None) -> None:
            asked.append(timeout)
            self.resolve("made here", None)

    for look in (repr, Future.running, lambda future: future.add_done_callback(lambda _: None)):
        future = Hooked()
        look(future)
        assert future.result(3.0) == "made here"
    assert asked == [3.0] * 3


def test_a_cancel_tells_who_gathers_it_also_where_the_system_gives_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    future = LazyFuture()
    gathered: SimpleQueue[Any] = SimpleQueue()
    gatherer = threading.Thread(target=lambda: gathered.put(wait([future], WAIT).done))
    gatherer.start()
    while not (future._standing and future._waiters):
        assert gatherer.is_alive()
    monkeypatch.setattr("turnout.runtime.undisturbed.start_new_thread", refused)
    assert future.cancel()
    assert gathered.get(timeout=WAIT) == {future}
    gatherer.join(WAIT)


def test_an_interrupt_in_a_callback_keeps_no_other_from_being_called_and_is_raised() -> None:
    future, seen = LazyFuture(), list[str]()

    def interrupted(_: Any) -> None:
        seen.append("interrupted")
        raise KeyboardInterrupt

    future.add_done_callback(interrupted)
    future.add_done_callback(lambda _: seen.append("told"))
    with pytest.raises(KeyboardInterrupt):
        future.cancel()
    assert seen == ["interrupted", "told"]
    assert future.cancel()
    assert seen == ["interrupted", "told"]


def test_a_late_end_is_not_kept() -> None:
    class Kept:
        pass

    for future in (cancelled(), LazyFuture()):
        repr(future)
        future.cancel()
        late = Kept()
        gone = weakref.ref(late)
        assert not future.resolve(late, None)
        del late
        assert gone() is None


def test_who_waits_for_several_is_told_of_each_once_whatever_comes_to_it_afterwards() -> None:
    ended, late = LazyFuture(), LazyFuture()
    # Before a crowd.
    ended.add_done_callback(lambda _: None)
    ended.resolve("first", None)
    told = []
    for future in as_completed([ended, late], 10):
        told.append(future)
        assert not ended.cancel()
        assert not ended.resolve("again", None)
        late.resolve("last", None)
    assert told == [ended, late]
