"""Database files that only their owner can read, at every moment of their life."""

import os
from collections.abc import Callable
from pathlib import Path

from turnout.errors import ConfigError, StorageError
from turnout.storage.workshop import workshop

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def resolved(path: str | os.PathLike[str]) -> str:
    """``path`` as it will stay, wherever the process goes: ``~`` expanded, absolute."""
    given = os.fspath(path)
    if not given or given.startswith(":"):
        raise ConfigError(f"{given!r} is not a file path; to keep rows in memory, use MemoryMetricsStore()")
    return os.path.abspath(os.path.expanduser(given))


def create_private(path: str, build: Callable[[str], None]) -> bool:
    """Have ``build`` make a file in a folder closed to others, then show it whole at ``path``.

    Missing parent folders are made private. What appears at ``path`` meanwhile is kept and ours is dropped: whether it
    was ours that came there is given back.
    """
    target = Path(path)
    for folder in reversed([folder for folder in target.parents if not folder.exists()]):
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    with workshop(target.parent) as making:
        built = os.path.join(making, target.name)
        build(built)
        os.chmod(built, PRIVATE_FILE)
        try:
            os.link(built, path)
        except FileExistsError:
            return False
        except OSError:
            # A file system without hard links; a rename could replace a rival's file, so look once more.
            if os.path.lexists(path):
                return False
            os.rename(built, path)
        return True


def touch_private(path: str) -> None:
    """Make sure that ``path`` exists and, where it had to be made, is private."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE))


def missing(path: str) -> StorageError:
    """The error for a database that was only to be read, and is not there."""
    return StorageError(f"there is no database {path}; a router that keeps its ledger there makes it")


def refuse_remains(path: str, *endings: str) -> None:
    """Raise ``StorageError`` where there is nothing at ``path``, but a log beside it with one of ``endings``."""
    for beside in (path + ending for ending in endings):
        try:
            remains = os.stat(beside).st_size > 0
        except OSError:
            continue
        # Looked for last: a database that was made just now has a log of its own.
        if remains and not os.path.lexists(path):
            raise StorageError(
                f"{beside} is the log of a database that is no longer at {path}; put that back, or move the log away"
            )
