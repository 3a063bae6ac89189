"""A SQLite database file: how it is opened and made."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from turnout.storage import schema
from turnout.storage.files import create_private, refuse_remains
from turnout.storage.schema.facts import SchemaState, StorageBackend, Target
from turnout.storage.schema.verdict import Verdict

#: How long a store waits for other processes.
BUSY_SECONDS: Final = 10.0
NO_DATABASE: Final = Verdict(SchemaState.FOREIGN, "is not a SQLite database")
AMID_A_WRITE: Final = Verdict(
    SchemaState.DAMAGED,
    "was left amid a write, which only who may write to it can undo",
    then="Open it once with sqlite3, and look again",
)


def target_of(path: str) -> Target:
    """The database at ``path``, which is absolute."""
    return Target(StorageBackend.SQLITE, path)


def connect(path: str, mode: str = "mode=rw", busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection without transactions that Python would begin."""
    return sqlite3.connect(
        f"{Path(path).as_uri()}?{mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )


def make(path: str) -> bool:
    """Make a private database of the version in use where there is nothing. False where something came there first.

    Raises ``StorageError`` where a database that is no more has left its log behind: SQLite would put what is in there
    into the new one, without a word.
    """
    refuse_remains(path, "-wal", "-journal")
    return create_private(path, _build)


def _build(path: str) -> None:
    with closing(connect(path, "mode=rwc")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"BEGIN;\n{schema.whole(StorageBackend.SQLITE)}\nCOMMIT;")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds what was wanted."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
