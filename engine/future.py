"""The future of a submitted invocation."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from turnout.calls import Report
from turnout.errors import ReentrantCallError
from turnout.invocation import Progress
from turnout.runtime.contract import Takeable
from turnout.runtime.once import Once
from turnout.streaming import RouterStream


class InvocationFuture(Future[Any]):
    """A ``concurrent.futures.Future`` that can be cancelled at every stage, and that can say what happened.

    It stays pending, and among ``pending``, until it is resolved. ``cancel`` cuts the attempt in flight; an answer
    that comes all the same is dropped, and a stream among them closed.
    """

    def __init__(
        self, progress: Progress, on_worker: Callable[[], bool], pending: "dict[int, InvocationFuture]"
    ) -> None:
        super().__init__()
        self._progress = progress
        self._on_worker = on_worker
        self._pending = pending
        self._answer: tuple[Any] | None = None
        #: The thread that makes the call itself, if one does.
        self.maker: int | None = None
        #: Set in a forked child: the thread that would resolve it exists in the parent only.
        self.left_behind = False
        self.ticket: Takeable | None = None
        pending[progress.invocation.key] = self

    def report(self) -> Report:
        """Who answered, every attempt so far, who was not tried and why, and the time in the queue."""
        return self._progress.report()

    def result(self, timeout: float | None = None) -> Any:
        """The answer. A thread that waits without a timeout makes the call itself, if no worker has begun it: that
        saves two switches of thread. Ctrl-C then ends that call."""
        try:
            if self._answer is None and (task := self._task_or_refusal(timeout)) is not None:
                task()
            # Once it is there, no lock is needed to see it.
            return super().result(timeout) if self._answer is None else self._answer[0]
        finally:
            # An error raised here keeps this frame, and the future keeps the error: that would be a cycle.
            del self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What was raised, or None; waits as ``result`` does."""
        if (task := self._task_or_refusal(timeout)) is not None:
            task()
        return super().exception(timeout)

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        # setdefault is one step: of several threads that cancel, one finds its own Once there and goes on.
        if self.__dict__.setdefault("_cancelled_once", Once())():
            # Without this, whoever waits in as_completed() or wait() would not be woken.
            self.set_running_or_notify_cancel()
            self._progress.cut("cancelled")
        return True

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Resolve it, once; what comes after a cancel is dropped."""
        self.forget()
        try:
            if error is None:
                self.set_result(value)
                self._answer = (value,)
            else:
                self.set_exception(error)
        except InvalidStateError:
            if isinstance(value, RouterStream):
                value.close()

    def forget(self) -> None:
        """No longer pending: settled, or never queued."""
        self._pending.pop(self._progress.invocation.key, None)

    def _task_or_refusal(self, timeout: float | None) -> Callable[[], None] | None:
        """Before waiting: the call, where it is to be made here. Raises where the wait might never end."""
        if self.left_behind:
            if not self.done():
                raise ReentrantCallError(
                    "this future was submitted before fork() and is resolved in the parent only; submit it here again"
                )
        elif self._on_worker():
            if not self.done():
                raise ReentrantCallError(
                    "a worker of this router cannot wait for a future of the same router: it may be the one that "
                    "should run it; use invoke() there, or add_done_callback()"
                )
        elif timeout is None and self.ticket is not None:
            task = self.ticket.take()
            if task is not None:
                self.maker = threading.get_ident()
            return task
        return None
