"""A SQLite database read without making or changing anything beside it."""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar
from weakref import finalize

from turnout.errors import StorageError, StorageLockedError
from turnout.storage.schema.sqlite_file import connect

T = TypeVar("T")
#: What is different after a write: of the database, its log and its journal where they are.
Traces = list[tuple[int, int, int]]
_LOOKS: Final = 5
_COPY: Final = "import shutil, sys; shutil.copyfile(*sys.argv[1:])"


class Reader:
    """Reads the database at ``path``, and has nothing open from one time to the next.

    Of a database with a write-ahead log SQLite makes log and index where they are not, even for who only reads: they
    are that reader's then, who may shut out the database's owner so. Hence one that has no log is read as a file that
    does not change, and read again where it did; and one whose log has lost its index from a copy in the system's
    folder for such, which lasts until ``close``.
    """

    def __init__(self, path: str, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._copied: tuple[Path, Traces] | None = None
        self._removing: finalize[[Path], Reader] | None = None

    def read(self, look: Callable[[sqlite3.Connection], T]) -> T:
        """What ``look`` makes of a connection; it is called again where someone wrote meanwhile.

        Raises ``StorageLockedError`` where someone always does, and what SQLite raises.
        """
        # Beside what a link leads to lie its log, the log's index and its journal.
        file = Path(self._path).resolve()
        for _ in range(_LOOKS):
            before = _traces(file)
            log, index, journal = (_beside(file, ending).exists() for ending in ("-wal", "-shm", "-journal"))
            shared = journal or (log and index)
            place = self._copy_of(file, before) if log and not shared else file
            try:
                with closing(connect(str(place), _mode(log, journal), self._busy_seconds)) as connection:
                    found = look(connection)
            except sqlite3.Error:
                if shared or _traces(file) == before:
                    raise
            else:
                # Beside writers SQLite itself sees to it that all is of one moment.
                if shared or _traces(file) == before:
                    return found
        raise StorageLockedError(f"the database {self._path} is being written; try again")

    def close(self) -> None:
        """Remove the copy, if there was to be one."""
        self._copied = None
        if self._removing is not None:
            self._removing()

    def _copy_of(self, file: Path, traces: Traces) -> Path:
        if self._copied is not None and self._copied[1] == traces and self._copied[0].exists():
            return self._copied[0]
        self.close()
        folder = Path(tempfile.mkdtemp(prefix="turnout-"))
        self._removing = finalize(self, shutil.rmtree, folder, ignore_errors=True)
        there = folder / "ledger"
        for ending in ("", "-wal"):
            _copy(_beside(file, ending), _beside(there, ending))
        self._copied = there, traces
        return there


def _mode(log: bool, journal: bool) -> str:
    return "mode=ro" if log or journal else "immutable=1"


def _copy(file: Path, to: Path) -> None:
    # By a process of its own: where this one closes the file, it loses all locks that its connections have on it.
    command = [sys.executable, "-ISc", _COPY, str(file), str(to)]
    copied = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if copied.returncode:
        why = (copied.stderr.splitlines() or [f"exit code {copied.returncode}"])[-1]
        raise StorageError(
            f"{file} has to be read from a copy, which cannot be made in {to.parent.parent} ({why}); make room there, "
            "or name another folder as TMPDIR"
        )


def _traces(file: Path) -> Traces:
    found = []
    for one in (file, _beside(file, "-wal"), _beside(file, "-journal")):
        with suppress(OSError):
            status = one.stat()
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return found


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(file.name + ending)
