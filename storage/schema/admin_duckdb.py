"""A DuckDB ledger inspected, made and migrated."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from turnout.errors import StorageError, StorageLockedError
from turnout.storage.files import touch_private
from turnout.storage.schema.duckdb_file import NO_DATABASE, driver, is_no_database, make, target_of, told
from turnout.storage.schema.duckdb_shape import look, shape_of
from turnout.storage.schema.facts import SchemaState
from turnout.storage.schema.migration import Backup, Step, migrate, require_step
from turnout.storage.schema.place import create_file, found_at
from turnout.storage.schema.quoting import quoted
from turnout.storage.schema.verdict import Verdict

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Stores have none, so that one which has the file open in this process is told of. Nothing is to be downloaded.
_OWN_CONFIG: Final = {"threads": 1, "autoinstall_known_extensions": "false"}
_TABLES_SQL: Final = """
SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database() ORDER BY ALL
"""


class DuckDBAdministration:
    """See ``admin.Administration``; of the file at ``path``, which is absolute."""

    def __init__(self, path: str) -> None:
        self.target = target_of(path)

    def inspect(self) -> Verdict:
        path = self.target.name
        if (found := found_at(path)) is not None:
            return found
        try:
            with closing(driver().connect(path, read_only=True, config=_OWN_CONFIG)) as connection:
                return look(connection)
        except driver().Error as error:
            raised = told(path, error)
            if isinstance(raised, StorageLockedError) or "Cannot open file" in str(error):
                raise raised from error
            if is_no_database(error):
                return NO_DATABASE
            return Verdict(SchemaState.DAMAGED, f"cannot be read ({error})")

    def create(self) -> None:
        try:
            create_file(self.target, make)
        except driver().Error as error:
            raise told(self.target.name, error) from error

    def migrate(self, backup_path: str | None) -> tuple[int, str | None]:
        backup = None if backup_path is None else Backup(backup_path, AloneDuckDB.copy_to)
        return migrate(self.target, self.inspect(), self._alone, backup)

    @contextmanager
    def _alone(self) -> Iterator["AloneDuckDB"]:
        # The driver lets no other process have a file that it may write to.
        path = self.target.name
        try:
            with closing(driver().connect(path, config=_OWN_CONFIG)) as connection:
                yield AloneDuckDB(connection, path)
        except driver().Error as error:
            raise told(path, error) from error


class AloneDuckDB:
    """See ``migration.Alone``."""

    def __init__(self, connection: "DuckDBPyConnection", path: str) -> None:
        self._connection = connection
        self._path = path

    def look(self) -> Verdict:
        return look(self._connection)

    def copy_to(self, path: str) -> None:
        """See ``migration.Backup``."""
        # The driver's own copy. To copy the bytes, the file would be opened beside the driver, whose lock would be lost
        # when that is closed.
        connection = self._connection
        ((name,),) = connection.execute("SELECT current_database()").fetchall()
        original, copy = quoted(name), quoted(f"{name}_copy")
        literal = path.replace("'", "''")
        connection.execute(f"ATTACH '{literal}' AS {copy}")
        try:
            connection.execute(f"COPY FROM DATABASE {original} TO {copy}")
            here = _content(connection)
            connection.execute(f"USE {copy}")
            same = here == _content(connection)
        finally:
            connection.execute(f"USE {original}")
            connection.execute(f"DETACH {copy}")
        if not same:
            raise StorageError(f"the backup of {self._path} is not like it; nothing was changed")

    def take(self, step: Step) -> None:
        connection = self._connection
        # DuckDB would make its log readable by all.
        touch_private(f"{self._path}.wal")
        connection.execute("BEGIN")
        try:
            connection.execute(step.script)
            require_step(step, look(connection))
            connection.execute("COMMIT")
        except BaseException as error:
            with suppress(driver().Error):
                connection.execute("ROLLBACK")
            if isinstance(error, driver().Error):
                raise told(self._path, error) from error
            raise


def _content(connection: "DuckDBPyConnection") -> list[Any]:
    """What a copy must have alike: our relations' shape, all tables, and of each table how many rows and a sum over
    them, in whatever order."""
    content: list[Any] = [shape_of(connection)]
    for schema_name, table in connection.execute(_TABLES_SQL).fetchall():
        name = f"{quoted(schema_name)}.{quoted(table)}"
        rows = connection.execute(f"SELECT count(*), sum(hash(one)::HUGEINT) FROM {name} AS one").fetchall()
        content.append((schema_name, table, rows))
    return content
