"""One event loop on one thread, for providers whose ``invoke`` is async."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import CoroutineType
from typing import Any, Final, NamedTuple

from turnout.errors import RouterBusyError, RouterClosedError
from turnout.runtime.beacon import Beacon
from turnout.runtime.on_demand import ThreadOnDemand

#: How long the first awaitables wait for the thread to begin.
_START_SECONDS: Final = 5.0


class _Arrival(NamedTuple):
    """An awaitable on its way to the loop, and the future that its caller has."""

    awaitable: Awaitable[Any]
    context: contextvars.Context
    future: "Future[Any]"

    def turn_away(self) -> None:
        closed(self.awaitable)
        if self.future.cancel():
            self.future.set_running_or_notify_cancel()


class EventLoop:
    """Runs awaitables for threads that cannot. The thread starts with the first one.

    None is lost at the end: a caller puts its awaitable in the queue and then looks whether the loop has ended, the
    loop ends and then looks at the queue. Whoever sees the other turns away what waits.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        #: Whether the loop takes nothing more; what it had in hand is cancelled.
        self.ended = False
        self._stopping = False
        self._ready = Beacon()
        #: Why the thread could not make a loop, the last time that it was to.
        self._refused: OSError | None = None
        self._thread = ThreadOnDemand(name, self._run)
        self._arrivals: SimpleQueue[_Arrival] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    def owns_this_thread(self) -> bool:
        return self._thread.is_current()

    def start(self) -> None:
        """Nothing to do: the thread starts with the first awaitable."""

    def run(self, awaitable: Awaitable[Any], context: contextvars.Context) -> "Future[Any]":
        """Await on the loop, in ``context``. Cancelling the future that is given back cancels the task; where the loop
        ends first, it is cancelled.

        Raises ``RouterClosedError`` after ``stop``, ``RouterBusyError`` where the system gives no thread; the awaitable
        is closed then.
        """
        arrival = _Arrival(awaitable, context.copy(), Future())
        try:
            loop = self._begun()
            self._arrivals.put(arrival)
            # Closed, it has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._take_in)
            if self.ended:
                self._turn_away()
        except BaseException:
            arrival.turn_away()
            raise
        return arrival.future

    def stop(self, timeout_seconds: float) -> list[str]:
        """Cancel what still runs, and end."""
        self._stopping = True
        self._thread.end()
        self._ready.light()
        self.dismiss()
        return self._thread.join(timeout_seconds)

    def dismiss(self) -> list[threading.Thread]:
        """End as after ``stop``, but wait for nothing; safe inside garbage collection."""
        self._stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
        return self._thread.threads

    def _begun(self) -> asyncio.AbstractEventLoop:
        if self._stopping:
            raise _closed()
        if self._loop is None:
            ready = self._ready
            self._thread.start()
            ready.wait(_START_SECONDS)
        loop = self._loop
        if loop is None:
            if self._stopping:
                raise _closed()
            why = "did not start" if self._refused is None else f"could not start ({self._refused.strerror})"
            raise RouterBusyError(f"{self.name} {why}; try again later")
        return loop

    def _run(self) -> None:
        runner = asyncio.Runner()
        try:
            loop = runner.get_loop()
        except OSError as error:
            # No file descriptors, perhaps. Who waits is told, and the next use tries again.
            self._refused = error.with_traceback(None)
            self._thread.may_begin_again()
            ready, self._ready = self._ready, Beacon()
            ready.light()
            return
        # The runner cancels and awaits what is left, then closes the loop.
        with runner:
            self._loop = loop
            self._ready.light()
            try:
                # Also after a provider's coroutine stopped it: others run there.
                while not self._stopping:
                    loop.run_forever()
            finally:
                self.ended = True
                self._turn_away()

    def _next(self) -> _Arrival | None:
        try:
            return self._arrivals.get_nowait()
        except Empty:
            return None

    def _take_in(self) -> None:
        """On the loop: begin what has arrived."""
        while not self.ended and (arrival := self._next()) is not None:
            if arrival.future.cancelled():
                arrival.turn_away()
                continue
            loop = asyncio.get_running_loop()
            task = loop.create_task(_awaited(arrival.awaitable), context=arrival.context)
            task.add_done_callback(partial(_told, arrival))
            arrival.future.add_done_callback(partial(_cancelled_too, loop, task))

    def _turn_away(self) -> None:
        while (arrival := self._next()) is not None:
            arrival.turn_away()


def closed(awaitable: Awaitable[Any]) -> None:
    """See to it that an awaitable that nobody awaits is not missed."""
    if isinstance(awaitable, CoroutineType):
        awaitable.close()


def _closed() -> RouterClosedError:
    return RouterClosedError("the router was closed before an async call could begin; build a new one")


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except (SystemExit, KeyboardInterrupt) as raised:
        # asyncio would end the loop with it, and every other call of this router.
        raise RuntimeError(f"{type(raised).__name__} was raised by an async call") from raised


def _told(arrival: _Arrival, task: "asyncio.Task[Any]") -> None:
    """Resolve the caller's future as the task ended."""
    future = arrival.future
    if task.cancelled():
        # Cancelled before its first step, it has not awaited anything.
        arrival.turn_away()
    elif future.set_running_or_notify_cancel():
        error = task.exception()
        if error is None:
            future.set_result(task.result())
        elif isinstance(error, CancelledError):
            # Its own word, not ours.
            future.set_exception(asyncio.CancelledError(*error.args))
        else:
            future.set_exception(error)


def _cancelled_too(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]", future: "Future[Any]") -> None:
    if future.cancelled():
        # Closed, it has cancelled everything.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(task.cancel)
