"""What must be done to its end where an interrupt may come."""

import math
import threading
from _thread import start_new_thread
from collections.abc import Callable

from turnout.runtime.beacon import Beacon


def undisturbed(act: Callable[[], None]) -> None:
    """Do what the standard library has no safe place for an interrupt in: on the main thread, which alone Ctrl-C comes
    to, by having another do it. Raises what it raises, and ``RuntimeError`` where the system gives no thread.

    Interrupted, this is; the act is done all the same, a little later.
    """
    if threading.get_ident() != threading.main_thread().ident:
        act()
        return
    raised: list[BaseException] = []
    done = Beacon()
    start_new_thread(_done, (act, raised, done))
    done.wait(math.inf)
    if raised:
        # Kept by nobody: it keeps this frame.
        raise raised.pop()


def _done(act: Callable[[], None], raised: list[BaseException], done: Beacon) -> None:
    try:
        act()
    except BaseException as error:
        raised.append(error)
    done.light()
