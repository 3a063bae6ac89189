"""A DuckDB database file: its driver, how it is made, and what its driver's errors mean."""

from contextlib import closing
from typing import Any, Final

from turnout.errors import StorageDriverMissingError, StorageError, StorageLockedError
from turnout.storage import schema
from turnout.storage.files import create_private, refuse_remains, resolved
from turnout.storage.schema.facts import SchemaState, StorageBackend, Target
from turnout.storage.schema.verdict import Verdict, refusal

DEFAULT_PATH: Final = "~/.turnout/metrics.duckdb"
NO_DATABASE: Final = Verdict(SchemaState.FOREIGN, "is not a DuckDB database")


def target_of(path: str) -> Target:
    """The database at ``path``, which is absolute."""
    return Target(StorageBackend.DUCKDB, path, path == resolved(DEFAULT_PATH))


def driver() -> Any:
    """The driver's module; raises ``StorageDriverMissingError``."""
    try:
        import duckdb
    except ImportError as error:
        raise StorageDriverMissingError(
            'the DuckDB driver is not installed; pip install "turnout[duckdb]", or pass metrics_store=None'
        ) from error
    return duckdb


def make(path: str) -> bool:
    """Make a private database of the version in use where there is nothing. False where something came there first.

    Raises ``StorageError`` where a database that is no more has left its log behind.
    """
    refuse_remains(path, ".wal")
    return create_private(path, _build)


def _build(path: str) -> None:
    with closing(driver().connect(path)) as connection:
        connection.execute(f"BEGIN;\n{schema.whole(StorageBackend.DUCKDB)}\nCOMMIT;")


def is_no_database(error: Exception) -> bool:
    """Whether the driver found something else; where that is SQLite's, it looks for its extension for those."""
    return any(words in str(error) for words in ("not a valid DuckDB database", "sqlite_scanner"))


def told(path: str, error: Exception) -> StorageError:
    """What an error of the driver means for whoever wanted the database at ``path``."""
    text = str(error)
    if "set lock on file" in text:
        return StorageLockedError(
            f"the database {path} is held by another process; stop that one, name another path, or keep the ledger "
            "in SQLite, which several processes can share"
        )
    if "different configuration than existing connections" in text:
        return StorageLockedError(
            f"the database {path} is open in this process; close what holds it (a store has release() for that)"
        )
    if is_no_database(error):
        return refusal(target_of(path), NO_DATABASE)
    return StorageError(f"the database {path} failed: {text}")
