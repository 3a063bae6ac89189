"""Who runs a walk: the caller's own thread (also a stream's reader), or the pool's workers in turns."""

import asyncio
import math
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from types import FrameType
from typing import Any, assert_never

from turnout.errors import RouterBusyError
from turnout.runtime.awaiting import NOT_AWAITED, loop_ended, not_to_be_awaited
from turnout.runtime.contract import Alarmed, Runtime
from turnout.runtime.lane import Claim, Token, enrol
from turnout.runtime.once import Once
from turnout.runtime.steps import Ask, Await, Call, HandOver, Hear, Sleep, TakeLane, Walk
from turnout.runtime.waiting_here import give_up, performed_here
from turnout.traces import let_go_of_frames

#: Makes what the caller gets of a step that is handed over and of the walk that goes on behind it.
Handed = Callable[[Walk, HandOver], Any]


def walk_here(runtime: Runtime, walk: Walk, handed: Handed, news: Any = None) -> Any:
    """Run a walk to its end, or to where it is handed over, on the calling thread. ``news`` resumes it.

    An interrupt ends the walk where it stands, and goes on to the caller.
    """
    try:
        step = walk.send(news)
        while True:
            if isinstance(step, HandOver):
                return handed(walk, step)
            try:
                if isinstance(step, Call):
                    value = step.context.run(step.function, step.request, step.limit)
                else:
                    value = performed_here(step, runtime)
            except Exception as error:
                if isinstance(step, Await) and step.limit.reason is NOT_AWAITED:
                    # Not the provider's failure.
                    raise
                step = walk.throw(error)
            else:
                step = walk.send(value)
    except StopIteration as end:
        return end.value
    except BaseException as raised:
        walk.close()
        _let_go(raised)
        raise


def _let_go(raised: BaseException) -> None:
    """Of an interrupt: have its frames drop what they hold, a token of a lane perhaps. A future, or a notebook, keeps
    it for as long as it likes."""
    if not isinstance(raised, Exception):
        let_go_of_frames(raised)


def is_within_another() -> bool:
    """Whether the walk that asks is run by code that another one of its router called, on the same thread: what it
    would wait for may be that one's. Slow; for where a wait is about to begin."""
    runtimes: list[Runtime] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is walk_here.__code__:
            runtimes.append(frame.f_locals["runtime"])
        elif frame.f_code is PooledWalk.__call__.__code__:
            runtimes.append(frame.f_locals["self"].runtime)
        frame = frame.f_back
    return any(other is runtimes[0] for other in runtimes[1:])


class PooledWalk:
    """Runs a walk on whatever worker is free, and on none while it waits for a lane or an awaitable. It is the task
    itself: called, it begins the walk, or goes on with what it waited for. Called ``here``, by a thread that waits for
    it anyway, it has that thread wait for lanes, too.

    ``settle(value, error)`` is called once, with the walk's value or what it raised.
    """

    __slots__ = ("_handed", "_settle", "_walk", "runtime")

    def __init__(
        self,
        runtime: Runtime,
        walk: Walk,
        handed: Handed,
        settle: Callable[[Any, BaseException | None], None],
    ) -> None:
        self._walk = walk
        self.runtime = runtime
        self._handed = handed
        self._settle = settle

    def __call__(self, value: Any = None, error: BaseException | None = None, here: bool = False) -> None:
        walk = self._walk
        try:
            while True:
                step = walk.send(value) if error is None else walk.throw(error)
                value = error = None
                match step:
                    case Call():
                        try:
                            value = step.context.run(step.function, step.request, step.limit)
                        except Exception as raised:
                            error = raised
                    case Ask():
                        try:
                            value = step.actor.ask(step.message)
                        except Exception as raised:
                            error = raised
                    case HandOver():
                        answer = self._handed(walk, step)
                        break
                    case Hear() | TakeLane() if here:
                        value = performed_here(step, self.runtime)
                    case Await() | Hear() | TakeLane() | Sleep():
                        self.park(step)
                        return
                    case _:
                        assert_never(step)
        except StopIteration as end:
            answer = end.value
        except BaseException as raised:
            self._broken(raised)
            return
        # As _broken() does it, without the call.
        settle, self._settle = self._settle, _settled_already
        settle(answer, None)

    def _broken(self, raised: BaseException) -> None:
        """End the walk where it stands: with an interrupt, or an end that is no provider's failure."""
        self._walk.close()
        _let_go(raised)
        # An error keeps the frame that calls this, and so this walk: it must not reach the future any more.
        settle, self._settle = self._settle, _settled_already
        settle(None, raised)

    def park(self, step: Await | Hear | TakeLane | Sleep) -> None:
        """Go on with the walk once what it waits for is there, on whatever worker is free then."""
        match step:
            case Await():
                self._park_for_task(step)
            case Hear():
                self._park_to_hear(step)
            case TakeLane():
                self._park_for_lane(step)
            case Sleep():
                self._park_for_time(step)
            case _:
                assert_never(step)

    def _park_for_task(self, step: Await) -> None:
        task = self.runtime.loop.run(step.awaitable, step.context)
        step.limit.on_cut(task.cancel)
        try:
            alarm = self.runtime.alarms.at(step.limit.until, partial(_cancel, task))
        except BaseException:
            task.cancel()
            raise

        def ended(task: "Future[Any]") -> None:
            alarm.cancel()
            step.limit.on_cut(None)
            self._resume(partial(self._go_on_from, task, step))

        task.add_done_callback(ended)

    def _go_on_from(self, task: "Future[Any]", step: Await) -> None:
        # Asked for, not raised: an error keeps the frames it is raised in, and these keep the task that keeps it.
        if task.cancelled():
            if loop_ended(step, self.runtime):
                self._broken(not_to_be_awaited())
            else:
                self(None, TimeoutError("the call was cancelled"))
            return
        error = task.exception(timeout=0)
        if isinstance(error, asyncio.CancelledError):
            # The adapter's own word for a cancel of its own; asyncio's would pass for ours.
            error = CancelledError(*error.args)
        self(task.result(timeout=0) if error is None else None, error)

    def _resume(self, task: Callable[[], None]) -> None:
        self.runtime.workers.resume(task)

    def _park_for_lane(self, step: TakeLane) -> None:
        alarm: Alarmed | None = None
        once = Once()

        def go_on(token: Token | None) -> None:
            if once():
                self(token)

        def wake(token: Token | None) -> None:
            # First: interrupted before, it would wait for ever. Woken twice it goes on once.
            self._resume(partial(go_on, token))
            step.limit.on_cut(None)
            if alarm is not None:
                alarm.cancel()

        claim = Claim(wake)
        if step.limit.until != math.inf:
            alarm = self.runtime.alarms.at(step.limit.until, partial(give_up, claim))
        # Left before standing in line: once enrolled, another thread may be walking already.
        step.limit.on_cut(lambda: give_up(claim))
        enrol(claim, step.lanes)

    def _park_to_hear(self, step: Hear) -> None:
        once = Once()

        def heard(value: Any) -> None:
            if once():
                alarm.cancel()
                self._resume(partial(self, value))

        try:
            alarm = self.runtime.alarms.at(step.limit.until, partial(heard, None))
        except RouterBusyError:
            # No thread for the timer: it goes on unheard, rather than not at all.
            self._resume(partial(self, None))
            return
        step.begin(heard)

    def _park_for_time(self, step: Sleep) -> None:
        once = Once()
        alarm: Alarmed | None = None
        woken = False

        def go_on() -> None:
            if once():
                self()

        def wake() -> None:
            nonlocal woken
            if woken:
                return
            # As for a lane.
            self._resume(go_on)
            woken = True
            step.limit.on_cut(None)
            if alarm is not None:
                alarm.cancel()

        alarm = self.runtime.alarms.at(step.limit.until, wake)
        step.limit.on_cut(wake)


def _settled_already(value: Any, error: BaseException | None) -> None:
    raise AssertionError("a walk is settled once")


def _cancel(task: "Future[Any]") -> None:
    task.cancel()
