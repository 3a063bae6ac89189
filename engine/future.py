"""The future of a submitted invocation."""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from turnout.calls import Report
from turnout.errors import ReentrantCallError
from turnout.invocation import Progress
from turnout.runtime.once import Once
from turnout.streaming import RouterStream


class InvocationFuture(Future[Any]):
    """A ``concurrent.futures.Future`` that can be cancelled at every stage, and that can say what happened.

    It stays pending until it is resolved. ``cancel`` cuts the attempt in flight; an answer that comes all the same is
    dropped, and a stream among them closed.
    """

    def __init__(self, progress: Progress, on_worker: Callable[[], bool]) -> None:
        super().__init__()
        self._progress = progress
        self._on_worker = on_worker

    def report(self) -> Report:
        """Who answered, every attempt so far, who was not tried and why, and the time in the queue."""
        return self._progress.report()

    def result(self, timeout: float | None = None) -> Any:
        self._refuse_on_worker()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._refuse_on_worker()
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
        try:
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)
        except InvalidStateError:
            if isinstance(value, RouterStream):
                value.close()

    def _refuse_on_worker(self) -> None:
        if not self.done() and self._on_worker():
            raise ReentrantCallError(
                "a worker of this router cannot wait for a future of the same router: it may be the one that should "
                "run it; use invoke() there, or add_done_callback()"
            )
