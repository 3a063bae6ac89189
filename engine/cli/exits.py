"""How the command ends: its exit codes, 0 being success, and Ctrl-C."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Something that was asked for did not come about.
FAILED: Final = 1
#: Nothing was done: the arguments, the configuration or the installation must be put right.
USAGE: Final = 2
#: Ctrl-C, as shells count it.
INTERRUPTED: Final = 130


@contextmanager
def ending_at_ctrl_c() -> Iterator[None]:
    """Make an interrupt that nobody else deals with a short word and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
