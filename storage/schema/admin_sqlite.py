"""A SQLite ledger inspected, made and migrated."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from turnout.errors import StorageError, StorageLockedError
from turnout.storage.schema.facts import SchemaState
from turnout.storage.schema.migration import Backup, Step, migrate, require_step
from turnout.storage.schema.place import create_file, found_at
from turnout.storage.schema.quoting import quoted
from turnout.storage.schema.sqlite_file import AMID_A_WRITE, NO_DATABASE, connect, is_busy, make, target_of
from turnout.storage.schema.sqlite_reading import Reader
from turnout.storage.schema.sqlite_shape import look
from turnout.storage.schema.verdict import Verdict

#: Who has the database open holds it as long as it is open, so there is nothing to be waited for.
_BUSY_SECONDS: Final = 1.0


class SQLiteAdministration:
    """See ``admin.Administration``; of the file at ``path``, which is absolute."""

    def __init__(self, path: str) -> None:
        self.target = target_of(path)

    def inspect(self) -> Verdict:
        if (found := found_at(self.target.name)) is not None:
            return found
        try:
            with closing(Reader(self.target.name, _BUSY_SECONDS)) as reader:
                return reader.read(look)
        except sqlite3.Error as error:
            match error.sqlite_errorcode & 0xFF:
                case sqlite3.SQLITE_NOTADB:
                    return NO_DATABASE
                case sqlite3.SQLITE_READONLY:
                    return AMID_A_WRITE
                case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR:
                    return Verdict(SchemaState.DAMAGED, f"cannot be read ({error})")
            raise _told(self.target.name, error) from error

    def create(self) -> None:
        try:
            create_file(self.target, make)
        except sqlite3.Error as error:
            raise _told(self.target.name, error) from error

    def migrate(self, backup_path: str | None) -> tuple[int, str | None]:
        backup = None if backup_path is None else Backup(backup_path, AloneSQLite.copy_to)
        return migrate(self.target, self.inspect(), self._alone, backup)

    @contextmanager
    def _alone(self) -> Iterator["AloneSQLite"]:
        path = self.target.name
        try:
            with closing(connect(path, busy_seconds=_BUSY_SECONDS)) as connection:
                # Until it is closed; a transaction alone would let those be who have it open and are at rest.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                connection.execute("BEGIN EXCLUSIVE")
                connection.execute("COMMIT")
                yield AloneSQLite(connection, path)
        except sqlite3.Error as error:
            raise _told(path, error) from error


class AloneSQLite:
    """See ``migration.Alone``."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path

    def look(self) -> Verdict:
        return look(self._connection)

    def copy_to(self, path: str) -> None:
        """See ``migration.Backup``."""
        connection = self._connection
        with closing(connect(path, "mode=rwc")) as copy:
            connection.backup(copy)
        connection.execute("ATTACH ? AS copy", (path,))
        try:
            same = all(_alike(connection, name) for name in ("sqlite_master", *_tables(connection)))
        finally:
            connection.execute("DETACH copy")
        if not same:
            raise StorageError(f"the backup of {self._path} is not like it; nothing was changed")

    def take(self, step: Step) -> None:
        connection = self._connection
        try:
            connection.executescript(f"BEGIN IMMEDIATE;\n{step.script}")
            require_step(step, look(connection))
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise _told(self._path, error) from error
            raise


def _tables(connection: sqlite3.Connection) -> list[str]:
    """All that hold rows: what a virtual table shows is in others, and may need a module that is not here."""
    sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL %' ORDER BY name"
    return [name for (name,) in connection.execute(sql)]


def _alike(connection: sqlite3.Connection, table: str) -> bool:
    """Whether the copy has the same rows."""
    name = quoted(table)
    known = connection.execute(f"PRAGMA main.table_info({name})").fetchall()
    columns = [column for _, column, *_ in known]
    keys = _row_id(connection, name, columns) or [column for _, column, *_, rank in known if rank]
    same_row = " AND ".join(f"here.{quoted(key)} = there.{quoted(key)}" for key in keys)
    # A column's own collation may take for the same what is not.
    same_values = " AND ".join(
        f"here.{column} COLLATE BINARY IS there.{column}" for column in map(quoted, columns)
    )
    both = f"main.{name} AS here JOIN copy.{name} AS there ON {same_row}"
    counts = [
        connection.execute(f"SELECT count(*) FROM {counted}").fetchone()
        for counted in (f"main.{name}", f"copy.{name}", f"{both} WHERE {same_values}")
    ]
    return len({*counts}) == 1


def _row_id(connection: sqlite3.Connection, table: str, columns: list[str]) -> list[str]:
    """By which name, of three that columns may have taken, each row is found; none in a table WITHOUT ROWID."""
    free = {"rowid", "oid", "_rowid_"} - {column.lower() for column in columns}
    for name in sorted(free):
        # In double quotes, what is no column would be a text.
        with suppress(sqlite3.OperationalError):
            connection.execute(f"SELECT {name} FROM main.{table} LIMIT 0")
            return [name]
    return []


def _told(path: str, error: sqlite3.Error) -> StorageError:
    if is_busy(error):
        return StorageLockedError(
            f"the database {path} is open elsewhere; stop every program that uses it, and try again"
        )
    return StorageError(f"the database {path} failed: {error}")
