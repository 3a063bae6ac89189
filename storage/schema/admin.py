"""Databases inspected, created and migrated by whoever administers them. No router and no store calls this."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from turnout.errors import ConfigError, StorageError
from turnout.storage import schema
from turnout.storage.files import resolved
from turnout.storage.schema.facts import (
    DatabaseCreated,
    DatabaseMigrated,
    DatabaseState,
    StorageBackend,
    Target,
)
from turnout.storage.schema.verdict import Verdict, next_action

if TYPE_CHECKING:
    from turnout.postgres_config import PostgresConfig

Place = str | os.PathLike[str]
Config: TypeAlias = "PostgresConfig | Mapping[str, Any] | None"


class Administration(Protocol):
    """What can be done about the database at ``target``. What goes wrong is a ``StorageError``, or an ``OSError``."""

    target: Target

    def inspect(self) -> Verdict:
        """What is there. Creates nothing and changes nothing; raises for what cannot be reached alone."""

    def create(self) -> None:
        """Make a database of the version in use where nothing is."""

    def migrate(self, backup_path: str | None) -> tuple[int, str | None]:
        """Bring it to the version in use; the version that it had, and the path of the backup if one was made."""


def inspect_database(
    backend: StorageBackend | str, path_or_url: Place | None = None, *, config: Config = None
) -> DatabaseState:
    """What is at ``path_or_url``, found without creating or changing anything.

    None is the default path of DuckDB, and what ``TURNOUT_POSTGRES_URL`` names for PostgreSQL; SQLite has no default.
    ``config`` is for PostgreSQL: its ``PostgresConfig``, or a dict. Whatever is found is told, not raised. Raises
    ``StorageError`` for what cannot be reached: ``StorageLockedError`` where another process has the DuckDB file, say.
    """
    administration = _administration(backend, path_or_url, config)
    target = administration.target
    with _reaching(target):
        verdict = administration.inspect()
    return DatabaseState(
        backend=target.backend,
        target=target.name,
        is_default=target.is_default,
        state=verdict.state,
        versions=verdict.versions,
        detail=f"{target.name} {verdict.why}",
        next_action=next_action(verdict, target),
    )


def create_database(
    backend: StorageBackend | str, path_or_url: Place | None = None, *, config: Config = None
) -> DatabaseCreated:
    """Make a database of the version in use where nothing is, whole or not at all; a file is private. In PostgreSQL,
    which has to be there, the tables are made.

    Raises ``DatabaseExistsError`` where anything is there, be it empty, and leaves that untouched.
    """
    administration = _administration(backend, path_or_url, config)
    target = administration.target
    with _reaching(target):
        administration.create()
    return DatabaseCreated(target.backend, target.name, target.is_default, schema.VERSION)


def migrate_database(
    backend: StorageBackend | str,
    path_or_url: Place | None = None,
    *,
    backup_path: Place | None = None,
    config: Config = None,
) -> DatabaseMigrated:
    """Bring a database to the version in use, while nobody else has it. One that is of that version is left as it is.

    ``backup_path``, where nothing may be, gets a copy that is compared with the original before anything is changed; it
    is kept whatever happens then. Each step is a transaction. Raises ``StorageLockedError`` where someone has the
    database: a file open, a store's connection to a PostgreSQL (behind a pooler of transactions for as long as a
    transaction alone; its next one is refused), or a table of that for 5 s. Raises ``SchemaMismatchError`` for what
    cannot be migrated, which is left untouched.
    """
    administration = _administration(backend, path_or_url, config)
    target = administration.target
    with _reaching(target):
        version, backup = administration.migrate(None if backup_path is None else resolved(backup_path))
    return DatabaseMigrated(target.backend, target.name, target.is_default, version, schema.VERSION, backup)


def _administration(backend: StorageBackend | str, place: Place | None, config: Config) -> Administration:
    try:
        backend = StorageBackend(backend)
    except ValueError:
        known = ", ".join(member.value for member in StorageBackend)
        raise ConfigError(f"backend must be one of {known}, not {backend!r}") from None
    if config is not None and backend is not StorageBackend.POSTGRES:
        raise ConfigError(f"config= is for postgres; {backend} has nothing to configure")
    match backend:
        case StorageBackend.DUCKDB:
            from turnout.storage.schema.admin_duckdb import DuckDBAdministration
            from turnout.storage.schema.duckdb_file import DEFAULT_PATH

            return DuckDBAdministration(resolved(DEFAULT_PATH if place is None else place))
        case StorageBackend.SQLITE:
            from turnout.storage.schema.admin_sqlite import SQLiteAdministration

            if place is None:
                raise ConfigError("SQLite has no default path: name the file")
            return SQLiteAdministration(resolved(place))
        case StorageBackend.POSTGRES:
            from turnout.storage.schema.admin_postgres import PostgresAdministration

            return PostgresAdministration(None if place is None else os.fspath(place), config)


@contextmanager
def _reaching(target: Target) -> Iterator[None]:
    """What the system says is told as of the database."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the database {target.name} cannot be reached: {error.strerror or error}"
        ) from error
