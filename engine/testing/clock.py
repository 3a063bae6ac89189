"""Time that moves only when it is told to."""

import threading
from queue import Empty, SimpleQueue
from typing import Any, Final

#: How often, in real seconds, a wait on manual time looks whether time was moved on. Waking the waiter through its own
#: queue would leave strange items in it for others to find.
_LOOK_SECONDS: Final = 0.002


class ManualClock:
    """A clock for tests: only ``advance`` moves it. ``wall`` moves in step with ``monotonic``, from the epoch given."""

    def __init__(self, now: float = 0.0, wall: float = 1_700_000_000.0) -> None:
        self._now = now
        self._wall_offset = wall - now
        self._advancing = threading.Lock()
        #: When each thread last looked. Who waits has looked before, and waits from then: an advance in between counts.
        self._looked = threading.local()

    def monotonic(self) -> float:
        self._looked.at = now = self._now
        return now

    def wall(self) -> float:
        return self._now + self._wall_offset

    def advance(self, seconds: float) -> None:
        """Move time on; who waits for an instant that has come sees it."""
        if seconds < 0:
            raise ValueError("time does not go back")
        with self._advancing:
            self._now += seconds

    def wait(self, queue: "SimpleQueue[Any]", timeout_seconds: float | None) -> Any:
        """The next item, or ``queue.Empty`` once this clock has moved on by ``timeout_seconds``."""
        if timeout_seconds is None:
            return queue.get()
        end = getattr(self._looked, "at", self._now) + timeout_seconds
        try:
            while self._now < end:
                try:
                    return queue.get(timeout=_LOOK_SECONDS)
                except Empty:
                    continue
            return queue.get_nowait()
        finally:
            self._looked.at = self._now
