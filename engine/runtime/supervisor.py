"""The owner of every thread: what starts first ends last, and what will not end is named."""

import time
from threading import Thread
from typing import Final, Protocol

from turnout.errors import ThreadsStillRunningError

_LEAST_SECONDS: Final = 3.0


class Owned(Protocol):
    """Something with threads of its own."""

    def start(self) -> None:
        """Start, or be ready to start at first use. Interrupted, it may have started or not: ``stop`` ends it."""

    def stop(self, timeout_seconds: float) -> list[str]:
        """End within about ``timeout_seconds``; the names of threads that did not."""

    def dismiss(self) -> list[Thread]:
        """Begin to end, where nobody has work for it any more; the threads that are to end. Never waits, nor takes a
        lock: it is called inside garbage collection."""


class Supervisor:
    """Starts parts in the order given and stops them in reverse. Used by one thread."""

    def __init__(self) -> None:
        self._parts: list[Owned] = []
        self._stopped = False

    def own(self, part: Owned) -> None:
        """Answer for ``part`` from now on, and start it: in this order an interrupt leaves none running unowned. After
        a stop it is ended instead, without having started."""
        if self._stopped:
            part.stop(0.0)
            return
        self._parts.append(part)
        try:
            part.start()
        except Exception:
            # Refused, it has nothing to end.
            self._parts.remove(part)
            raise

    def dismiss(self) -> list[Thread]:
        """Have everything end by itself; the threads that will. Safe inside garbage collection."""
        return [thread for part in self._parts[::-1] for thread in part.dismiss()]

    def stop(self, timeout_seconds: float) -> None:
        """Stop everything, sharing ``timeout_seconds`` (real time: threads end in real time). One that uses it all up
        leaves each of the others three seconds of its own: a worker that hangs must not cost the ledger its last rows.

        Raises ``ThreadsStillRunningError`` naming the threads that did not end; the others did.
        """
        self._stopped = True
        end = time.monotonic() + timeout_seconds
        unended: list[str] = []
        # What did not end, or was interrupted while ending, is kept: another stop waits for it again.
        for part in self._parts[::-1]:
            names = part.stop(max(end - time.monotonic(), _LEAST_SECONDS))
            if not names:
                self._parts.remove(part)
            unended += names
        if unended:
            raise ThreadsStillRunningError(unended)
