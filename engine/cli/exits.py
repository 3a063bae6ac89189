"""How the command ends: its exit codes, 0 being success, and Ctrl-C."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Something that was asked for did not come about.
FAILED: Final = 1
#: Nothing was done: the arguments, the configuration or the installation must be put right.
USAGE: Final = 2
#: Ctrl-C, as shells count it.
INTERRUPTED: Final = 130
_IMPATIENT_PRESSES: Final = 2


@contextmanager
def ending_at_ctrl_c() -> Iterator[None]:
    """Make an interrupt that nobody else deals with a short word and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def end_orderly_at_ctrl_c() -> None:
    """Take one Ctrl-C for the end of the work, and a second one for impatience: what is done is kept first, within
    seconds. A third one ends the process where it stands."""
    pressed = 0

    def press(signum: int, frame: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 1:
            raise KeyboardInterrupt
        if pressed > _IMPATIENT_PRESSES:
            os._exit(INTERRUPTED)

    # Stays until the process ends: the engine's own end at exit is part of what is not to be interrupted.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, press)
