"""A thread that may be started and waited for where an interrupt comes."""

import threading
from collections.abc import Callable
from typing import Final

from turnout.errors import RouterBusyError
from turnout.runtime.beacon import Beacon
from turnout.runtime.undisturbed import undisturbed

#: How long Python is given for its own last steps of a thread that has said that it ended.
_LAST_STEPS_SECONDS: Final = 1.0


class Strand(threading.Thread):
    """A daemon thread that says itself when it has ended, and that need not have begun.

    Ctrl-C is raised on the main thread, wherever in the standard library that is. Interrupted, ``Thread.join`` takes a
    thread that still runs for one that has ended (Python 3.11 and 3.12), and ``Thread.start`` may leave the new thread
    waiting for a lock for good.
    """

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        super().__init__(target=run, name=name, daemon=True)
        #: The first decides: True of the thread, False of who does without it. Said again, it changes nothing, so who
        #: is interrupted asks again.
        self._said: list[bool] = []
        self._end = Beacon()
        self._made_by = threading.get_ident()

    def start(self) -> None:
        """Raises ``RuntimeError`` where the system gives no thread. Interrupted, it may start all the same, a little
        later: ``is_void`` decides."""
        undisturbed(super().start)

    def is_void(self) -> bool:
        """Whether it has not begun. From now on it does not: where it is started, it ends at once."""
        self._said.append(False)
        return not self._said[0]

    def is_held_up(self) -> bool:
        """Whether its start may have been interrupted by who asks, a signal handler, and cannot go on before that
        ends. Then it is void."""
        return self._made_by == threading.get_ident() and self.is_void()

    def ends_within(self, timeout_seconds: float) -> bool:
        """Whether it ends, or has ended, or is void, within so many seconds."""
        if self._said and not self._said[0]:
            return True
        if not self._end.wait(timeout_seconds):
            return False
        # By now it does no harm to be interrupted there.
        self.join(_LAST_STEPS_SECONDS)
        return True

    def run(self) -> None:
        self._said.append(True)
        if not self._said[0]:
            return
        try:
            super().run()
        finally:
            self._end.light()


def begin(thread: Strand) -> None:
    """Start it. Raises ``RouterBusyError`` where the system gives no thread."""
    try:
        thread.start()
    except RuntimeError as refused:
        raise RouterBusyError(
            f"the system gives no thread for {thread.name}; try again later, or have this process run fewer threads"
        ) from refused
