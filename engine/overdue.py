"""Calls whose time is over though nobody comes back with them: a worker is held up in what cannot be cut, or the queue
does not move."""

from functools import partial
from typing import Final

from turnout.deadline import DEADLINE
from turnout.endings import overdue
from turnout.future import InvocationFuture
from turnout.runtime.contract import Runtime

#: A walk that can be cut says itself, and better, that its time is over. This much later it is said for it.
_GRACE_SECONDS: Final = 0.1


class Overdue:
    """Resolves the futures of such calls, on a worker: callbacks of a future are not the timer's to run.

    Each is given a place beside the pool's own number; where a worker stays held up, the place stands for it until it
    comes back.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def watch(self, future: InvocationFuture) -> None:
        """Look after a future with a deadline until it is resolved; before its call is queued, so that none is made for
        a future that is refused. Raises ``RouterBusyError`` where the system gives no thread for that."""
        at = future.deadline.at + _GRACE_SECONDS
        future.alarm = self._runtime.alarms.at(at, partial(self._lend, future))

    def _lend(self, future: InvocationFuture) -> None:
        if not future.done():
            # On the timer's own thread only where no other can be had: a deadline is worth more than its next alarm.
            self._runtime.workers.lend(partial(self._end, future), or_here=True)

    def _end(self, future: InvocationFuture) -> None:
        workers = self._runtime.workers
        future.lent = [workers.take_back]
        begun = future.take() is None
        error = overdue(future.progress, self._runtime.clock.monotonic(), begun=begun)
        if begun:
            # What can be cut ends now.
            future.progress.cut(DEADLINE)
        if not future.resolve(None, error) or not begun:
            # Nobody is held up: it came back just now, or was never begun.
            future.give_place_back()
