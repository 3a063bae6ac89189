"""What is found at the place of a metrics database, and what was done there: frozen facts."""

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class StorageBackend(StrEnum):
    """The database systems that turnout can keep its ledger in."""

    DUCKDB = "duckdb"
    SQLITE = "sqlite"
    POSTGRES = "postgres"


class SchemaState(StrEnum):
    """What a place holds, as far as turnout is concerned."""

    ABSENT = "absent"
    """Nothing. Of PostgreSQL: neither of the tables."""
    EMPTY = "empty"
    """A file without tables."""
    CURRENT = "current"
    OUTDATED = "outdated"
    """A ledger of an earlier version, which can be migrated."""
    NEWER = "newer"
    """A ledger of a version that this turnout does not know."""
    FOREIGN = "foreign"
    """Something else than a ledger."""
    DAMAGED = "damaged"
    """A ledger that is not as its version says, or that cannot be read."""


class ComponentVersion(NamedTuple):
    """One row of ``turnout_schema_versions``."""

    component: str
    version: int


@dataclass(frozen=True, slots=True)
class Target:
    """Where a database is: a path, or a URL with its password hidden. ``is_default`` says that it is the one taken
    where none is named."""

    backend: StorageBackend
    name: str
    is_default: bool = False

    @property
    def options(self) -> str:
        """How ``turnout storage`` is pointed to it."""
        backend = f"--backend {self.backend.value}"
        if self.backend is StorageBackend.POSTGRES:
            # With the URL in its variable: no password is told here, nor wanted in anyone's shell history.
            return backend
        return f"{backend} --default" if self.is_default else f"{backend} --path {shlex.quote(self.name)}"


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """What ``inspect_database`` found. ``detail`` is the finding in words, ``next_action`` what to do about it."""

    backend: StorageBackend
    target: str
    is_default: bool
    state: SchemaState
    versions: tuple[ComponentVersion, ...]
    detail: str
    next_action: str

    @property
    def compatible(self) -> bool:
        """Whether a store of this turnout takes it as it is."""
        return self.state is SchemaState.CURRENT


@dataclass(frozen=True, slots=True)
class DatabaseCreated:
    """What ``create_database`` made: a database of ``version``."""

    backend: StorageBackend
    target: str
    is_default: bool
    version: int


@dataclass(frozen=True, slots=True)
class DatabaseMigrated:
    """What ``migrate_database`` did: nothing, without a backup, where the versions are the same."""

    backend: StorageBackend
    target: str
    is_default: bool
    from_version: int
    to_version: int
    backup_path: str | None = None

    @property
    def changed(self) -> bool:
        return self.from_version != self.to_version
