"""Time that moves only when it is told to."""

import threading
from queue import Empty, SimpleQueue
from typing import Any, Final

#: How long, in real seconds, a wait on manual time goes on before it is taken for a test that forgot to advance.
_PATIENCE_SECONDS: Final = 60.0
_WAKE: Final = object()


class ManualClock:
    """A clock for tests: ``advance`` moves it and wakes whoever waits on it.

    ``wall`` moves in step with ``monotonic``, from the epoch given.
    """

    def __init__(self, now: float = 0.0, wall: float = 1_700_000_000.0) -> None:
        self._now = now
        self._wall_offset = wall - now
        self._lock = threading.Lock()
        self._waiting: list[SimpleQueue[Any]] = []

    def monotonic(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now + self._wall_offset

    def advance(self, seconds: float) -> None:
        """Move time on, and have every waiter look at it."""
        if seconds < 0:
            raise ValueError("time does not go back")
        with self._lock:
            self._now += seconds
            waiting = self._waiting.copy()
        for queue in waiting:
            queue.put(_WAKE)

    def wait(self, queue: "SimpleQueue[Any]", timeout_seconds: float | None) -> Any:
        """The next item, or ``queue.Empty`` once this clock has moved on by ``timeout_seconds``."""
        with self._lock:
            end = None if timeout_seconds is None else self._now + timeout_seconds
            self._waiting.append(queue)
        try:
            return self._next(queue, end)
        finally:
            with self._lock:
                self._waiting.remove(queue)

    def _next(self, queue: "SimpleQueue[Any]", end: float | None) -> Any:
        while True:
            try:
                item = queue.get_nowait()
            except Empty:
                if end is not None and self._now >= end:
                    raise
                item = queue.get() if end is None else queue.get(timeout=_PATIENCE_SECONDS)
            if item is not _WAKE:
                return item
