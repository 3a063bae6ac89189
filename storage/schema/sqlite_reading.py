"""A SQLite database read without leaving anything behind."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from turnout.storage.schema.sqlite_file import connect


@contextmanager
def read_only(path: Path, busy_seconds: float) -> Iterator[sqlite3.Connection]:
    """A connection to the file at ``path``, which is no link.

    Of one with a write-ahead log SQLite makes log and index where they are not, even for who only reads, and leaves
    them there. So a file without a log is read as one that does not change; see ``traces`` for whether that was so.
    """
    log, index, journal = (_beside(path, ending).exists() for ending in ("-wal", "-shm", "-journal"))
    if log and not index:
        # Someone copied the one without the other. The index is made beside another name of the same files.
        with TemporaryDirectory(prefix=".turnout-", dir=path.parent) as aside:
            there = Path(aside, "ledger")
            there.hardlink_to(path)
            _beside(there, "-wal").hardlink_to(_beside(path, "-wal"))
            with closing(connect(str(there), "mode=ro", busy_seconds)) as connection:
                yield connection
        return
    mode = "mode=ro" if log or journal else "immutable=1"
    with closing(connect(str(path), mode, busy_seconds)) as connection:
        yield connection


def traces(path: Path) -> list[tuple[int, int, int]]:
    """What is different after a write."""
    found = []
    for file in (path, _beside(path, "-wal"), _beside(path, "-journal")):
        with suppress(OSError):
            status = file.stat()
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return found


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
