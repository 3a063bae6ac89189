"""How the command ends: its exit codes, 0 being success, Ctrl-C, and output that nobody reads."""

import atexit
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

#: Something that was asked for did not come about.
FAILED: Final = 1
#: Nothing was done: the arguments, the configuration or the installation must be put right.
USAGE: Final = 2
#: Another process holds the database.
HELD: Final = 3
#: What is there cannot be worked on, and was left untouched.
REFUSED: Final = 4
#: A database was found to be something else than what this turnout works with.
NOT_CURRENT: Final = 5
#: The database's driver is not installed.
NO_DRIVER: Final = 6
#: The database cannot be reached, or failed.
UNREACHABLE: Final = 7
#: Ctrl-C, as shells count it.
INTERRUPTED: Final = 130
UNREAD: Final = "nobody reads the output any more"
_UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_IMPATIENT_PRESSES: Final = 2


@contextmanager
def ending_at_ctrl_c() -> Iterator[None]:
    """Make an interrupt that nobody else deals with a short word and an exit code."""
    try:
        yield
    except BaseException as error:
        if not comes_of_ctrl_c(error):
            raise
        # Python ends by the signal, not with this code, if the interrupt has come through exec() of a text, as those
        # do that make a dataclass; the next such text lets it forget that.
        exec("")
        _drop_unread()
        _say("Stopped.")
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def ending_unread() -> Iterator[None]:
    """Make the end of a pipe's reader, and other troubles of the system, a short word and an exit code."""
    try:
        yield
    except OSError as error:
        _drop_unread()
        why = str(error)
        if error.errno == errno.EPIPE:
            why = UNREAD
        elif error.errno in _UNWRITABLE:
            why = f"the output cannot be written ({error.strerror})"
        _say(f"Stopped: {why}.")
        raise SystemExit(FAILED) from None


def comes_of_ctrl_c(error: BaseException) -> bool:
    """Whether an exception is the interrupt, or what a library made of it: any that comes after a press is."""
    if isinstance(error, KeyboardInterrupt):
        return True
    taken = _taken()
    return taken is not None and taken.presses > 0 and isinstance(error, Exception)


def stop_if_pressed() -> None:
    """Raise the interrupt again where work goes on after it: what is raised in some callbacks (a weak reference's, say)
    Python drops. Not for the orderly end, which is not to be interrupted."""
    taken = _taken()
    if taken is not None and taken.presses > 0:
        raise KeyboardInterrupt


@contextmanager
def holding_ctrl_c() -> Iterator[None]:
    """Have an interrupt wait for the end of what would come to harm by it."""
    taken = _taken()
    if taken is None:
        yield
        return
    taken.held = True
    try:
        yield
    finally:
        taken.held = False
    stop_if_pressed()


def end_orderly_at_ctrl_c() -> None:
    """Take one Ctrl-C for the end of the work, and a second one for impatience: what is done is kept first, within
    seconds. A third one ends the process where it stands."""
    # Stays until the process ends: the engine's own end at exit is part of what is not to be interrupted.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _CtrlC())
        # After all others. Python takes handlers of its programs away before it has ended: a press would kill it then.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


class _CtrlC:
    """The handler of SIGINT, which counts; it is found again as that handler."""

    def __init__(self) -> None:
        self.presses = 0
        self.held = False

    def __call__(self, signum: int, frame: object) -> None:
        self.presses += 1
        if self.presses == 1 and not self.held:
            raise KeyboardInterrupt
        if self.presses > _IMPATIENT_PRESSES:
            os._exit(INTERRUPTED)


def _taken() -> _CtrlC | None:
    """The handler, where Ctrl-C is taken by this module."""
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, _CtrlC) else None


def _say(text: str) -> None:
    # Where stderr is a pipe too, its reader may have gone as well.
    with suppress(OSError):
        print(text, file=sys.stderr)


def _drop_unread() -> None:
    """Keep Python from trying again, at its exit, what the reader of a pipe no longer takes."""
    if sys.stdout is None:
        return
    # What else keeps it from being written, Python tells at its exit.
    with suppress(OSError):
        try:
            sys.stdout.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
