"""The future of a submitted invocation."""

import threading
import time
from collections.abc import Callable
from concurrent.futures._base import FINISHED
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from turnout.calls import Report
from turnout.deadline import Deadline
from turnout.errors import ReentrantCallError
from turnout.invocation import Progress
from turnout.runtime.contract import Alarmed, Runtime, Takeable
from turnout.runtime.lazy_future import CANCELLED, LazyFuture
from turnout.streaming import RouterStream

#: How long a wait for calls goes on before it looks by itself: an interrupt may cost it the word of an end.
_LOOK_SECONDS: Final = 0.1


class InvocationFuture(LazyFuture):
    """A ``concurrent.futures.Future`` that can be cancelled at every stage, and that can say what happened.

    It stays pending, and among ``pending`` once it was put there by its ``key``, until it is resolved. ``cancel`` cuts
    the attempt in flight; an answer that comes all the same is dropped, and a stream among them closed.
    """

    #: The thread that makes the call itself, if one does.
    maker: int | None = None
    #: Set in a forked child: the thread that would resolve it exists in the parent only.
    left_behind = False
    ticket: Takeable | None = None
    #: The thread that submits it: until it has a ticket, nothing may be queued yet.
    at_the_door: int | None = None
    #: Whether it is a worker's to make the call, whoever waits.
    worker_only = False
    alarm: Alarmed | None = None
    #: Gives back the place that stands for a worker held up in this call; at most one, popped by who gives it back.
    lent: list[Callable[[], None]] | None = None

    def __init__(self, progress: Progress, runtime: Runtime, pending: "dict[int, InvocationFuture]") -> None:
        # Written out, as are the rest of its parts: every call makes one, and super() costs as much as all of them.
        self._standing = []
        self._progress = progress
        self._runtime = runtime
        self._pending = pending
        self.key = progress.invocation.key

    def report(self) -> Report:
        """Who answered, every attempt so far, who was not tried and why, and the time in the queue."""
        return self._progress.report()

    def cancel(self) -> bool:
        # In a forked child the call is the parent's, and so is its socket.
        if self.left_behind:
            return False
        try:
            return self._cancel()
        except BaseException:
            # Interrupted between two steps: each may be made again.
            self._cancel()
            raise

    def _cancel(self) -> bool:
        cancelled = self._end(CANCELLED)
        if cancelled:
            if self.take() is None:
                self._progress.cut("cancelled")
            if self.alarm is not None:
                # Where nobody comes to settle it the alarm would keep it to its deadline.
                self.alarm.cancel()
        self._pending.pop(self.key, None)
        return cancelled

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Resolve it, once; what comes after a cancel is dropped."""
        try:
            # As resolve() does it, without the call.
            if not self._end((FINISHED, value, error)) and isinstance(value, RouterStream):
                value.close()
        finally:
            self._pending.pop(self.key, None)
            if self.alarm is not None:
                self.alarm.cancel()
                self.give_place_back()

    def give_place_back(self) -> None:
        """A worker that was held up in this call is not any more, or there was none."""
        try:
            give_back = self.lent.pop() if self.lent else None
        except IndexError:
            return
        if give_back is not None:
            give_back()

    @property
    def progress(self) -> Progress:
        return self._progress

    @property
    def deadline(self) -> Deadline:
        return self._progress.invocation.deadline

    def take(self) -> Callable[..., None] | None:
        """The call itself, if nobody has begun it: whoever has it makes it, or sees to it that it is not made."""
        return None if self.ticket is None else self.ticket.take()

    def forget(self) -> None:
        """It was never queued, or nobody is to settle it any more."""
        self._end(CANCELLED)
        self._pending.pop(self.key, None)
        if self.alarm is not None:
            self.alarm.cancel()
            self.give_place_back()

    def resolve(self, value: Any, error: BaseException | None) -> bool:
        try:
            return self._end((FINISHED, value, error))
        finally:
            self._pending.pop(self.key, None)

    def _before_waiting(self, timeout: float | None) -> None:
        """A thread that waits without a timeout makes the call itself, if no worker has begun it: that saves two
        switches of thread. Ctrl-C then ends that call. Raises where the wait might never end."""
        if self.left_behind:
            raise ReentrantCallError(
                "this future was submitted before fork() and is resolved in the parent only; submit it here again"
            )
        runtime = self._runtime
        if runtime.owns_this_thread():
            raise ReentrantCallError(
                "a worker of this router cannot wait for a future of the same router: it may be the one that "
                "should run it; use invoke() there, or add_done_callback()"
            )
        try:
            task = None if timeout is not None or self.worker_only else self.take()
            if task is not None:
                self.maker = threading.get_ident()
                task(here=True)
                if self._standing and isinstance(self._standing[0], tuple):
                    return
        except BaseException as raised:
            # An interrupt where nobody else looks for one, be it between two steps of the end. Who waits for this
            # elsewhere is told.
            self._end((FINISHED, None, raised))
            self.forget()
            raise
        finally:
            self.maker = None
            # The frames of the call keep this one: an error in them would be in a cycle with this future.
            del self
        runtime.workers.send_another()
        if runtime.is_run_by_this_thread():
            raise ReentrantCallError(
                "a policy, or async code of a provider, cannot wait for a future of the router that runs it; "
                "await ainvoke() there, or use add_done_callback()"
            )


def wait_for_all(pending: dict[int, InvocationFuture], end: float | None) -> None:
    """Until it is known how each ends, or the monotonic clock shows ``end``. Takes the lock of none, unlike
    ``concurrent.futures.wait``: one that an interrupt left taken would stop the worker that resolves it."""
    ended: SimpleQueue[object] = SimpleQueue()
    here = threading.get_ident()
    # One that this very thread is about to submit, in the frame that a signal handler interrupted, is not waited for.
    while undecided := [
        future
        for future in list(pending.values())
        if not future.is_decided and (future.at_the_door != here or future.ticket is not None)
    ]:
        for future in undecided:
            future.watch(ended.put)
            while not future.is_decided:
                left = _LOOK_SECONDS if end is None else min(end - time.monotonic(), _LOOK_SECONDS)
                if left <= 0.0:
                    return
                with suppress(Empty):
                    ended.get(timeout=left)
