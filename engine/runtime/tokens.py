"""Tokens: leave to do something, taken by one and given back."""

from functools import partial
from queue import Empty, SimpleQueue

from turnout.clock import Clock


class Tokens:
    """So many tokens in a queue. Taking one is one step, which no other thread can come between: where something is
    to be done by so many at most, this takes the place of a lock and a count."""

    __slots__ = ("_queue", "empty", "give")

    def __init__(self, count: int = 0) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()
        #: One more, or one back. (With ``empty`` the queue's own: they are called at every call.)
        self.give = partial(self._queue.put, None)
        #: Whether there is none at this moment.
        self.empty = self._queue.empty
        for _ in range(count):
            self._queue.put(None)

    def take(self) -> bool:
        """Whether there was one. Never waits; safe inside garbage collection and signal handlers."""
        if self._queue.empty():
            # A look saves the cost of an exception, where others have most often taken it.
            return False
        try:
            self._queue.get_nowait()
        except Empty:
            return False
        return True

    def wait(self, clock: Clock, timeout_seconds: float | None) -> bool:
        """Whether there was one within so many seconds of ``clock``; None waits as long as it takes."""
        try:
            clock.wait(self._queue, timeout_seconds)
        except Empty:
            return False
        return True

    def __len__(self) -> int:
        return self._queue.qsize()
