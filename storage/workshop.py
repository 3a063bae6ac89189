"""Folders that files are made in before they are shown.

Who makes one holds the system's lock on it, which ends with the process however it ends: one without a lock was left by
a process that was killed, and the next one removes it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

#: None on Windows: there what was left stays.
_system: Any = None
with suppress(ImportError):
    import fcntl as _system

_PREFIX: Final = ".turnout-unfinished-"
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def workshop(parent: Path) -> Iterator[str]:
    """A private folder in ``parent``, which is gone afterwards."""
    _sweep(parent)
    folder, descriptor = _made(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _made(parent: Path) -> tuple[str, int | None]:
    while True:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        if _system is None:
            return folder, None
        # Between its making and its locking another may take it for one left behind.
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, _FOLDER)
            if _lock(descriptor) is not False and Path(folder).exists():
                return folder, descriptor
            os.close(descriptor)


def _sweep(parent: Path) -> None:
    if _system is None:
        return
    for folder in parent.glob(f"{_PREFIX}*"):
        # It may be another user's, or gone by now.
        with suppress(OSError):
            descriptor = os.open(folder, _FOLDER)
            try:
                if _lock(descriptor):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether the folder is ours now: False where another has it, None where the file system has no locks."""
    try:
        _system.flock(descriptor, _system.LOCK_EX | _system.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
