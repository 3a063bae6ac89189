"""A thread that starts at its first use."""

import threading
from collections.abc import Callable
from typing import Final

from turnout.errors import RouterBusyError
from turnout.runtime.once import Once
from turnout.runtime.strand import Strand, begin

#: The longest that one who uses it waits for another who starts it.
_START_SECONDS: Final = 1.0


class ThreadOnDemand:
    """Runs ``run`` once, on a daemon thread. Where the system refuses that thread, the next use tries again.

    An interrupt may leave open whether it has started. Then another is started too, and the first of them runs.
    """

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self.name = name
        #: Looked at before ``start`` is called, to spare its lock.
        self.started = False
        self._run = run
        self._first = Once()
        self._threads: list[Strand] = []
        # Held only at the start and the end. By who holds it it can be taken again: a signal handler may use the thread
        # whose start it interrupts.
        self._starting = threading.RLock()
        self._is_starting = False
        self._ended = False

    @property
    def threads(self) -> list[threading.Thread]:
        """Those that were started: one, but for an interrupt."""
        return [thread for thread in self._threads if thread.ident]

    def is_current(self) -> bool:
        return threading.current_thread() in self._threads

    def start(self) -> None:
        """Start it, unless it has started, or has ended. Raises ``RouterBusyError``."""
        if not self._starting.acquire(timeout=_START_SECONDS):
            # Who starts it is held up, by a signal handler that waits for us perhaps. It goes on after that.
            return
        try:
            if self.started or self._is_starting or self._ended:
                return
            self._is_starting = True
            # A new one each time: one that was refused cannot be started again.
            thread = Strand(self.name, self._live)
            self._threads.append(thread)
            try:
                begin(thread)
                self.started = True
            except RouterBusyError:
                self._threads.remove(thread)
                raise
            finally:
                self._is_starting = False
        finally:
            self._starting.release()

    def may_begin_again(self) -> None:
        """Said by ``run`` where it could not do its work: the next use starts it anew."""
        # After the start that this thread owes its life to has said so.
        with self._starting:
            self._first = Once()
            self.started = False
            self._threads = [thread for thread in self._threads if thread is not threading.current_thread()]

    def end(self) -> None:
        """From now on it is not started; whoever calls this sees to it that ``run`` ends."""
        with self._starting:
            self._ended = True

    def join(self, timeout_seconds: float) -> list[str]:
        """Wait for its end; its name, where it does not come in time."""
        # Interrupted, its start may never have come to anything.
        ended = [thread.is_void() or thread.ends_within(timeout_seconds) for thread in self._threads]
        return [] if all(ended) else [self.name]

    def _live(self) -> None:
        if self._first():
            self._run()
