"""`turnout storage inspect`, `create` and `migrate`: what they tell, and with which exit code they end."""

import json as json_text
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, assert_never

from turnout.cli.exits import HELD, NO_DRIVER, NOT_CURRENT, REFUSED, UNREACHABLE, stop_if_pressed
from turnout.cli.lines import in_one_line, write_line
from turnout.cli.sdk import load_duckdb
from turnout.errors import (
    ConfigError,
    DatabaseExistsError,
    SchemaMismatchError,
    StorageDriverMissingError,
    StorageError,
    StorageLockedError,
)
from turnout.storage.schema.admin import create_database, inspect_database, migrate_database
from turnout.storage.schema.facts import DatabaseCreated, DatabaseMigrated, DatabaseState, StorageBackend

T = TypeVar("T", DatabaseState, DatabaseCreated, DatabaseMigrated)
_DRIVERS: Final = {StorageBackend.DUCKDB: "duckdb", StorageBackend.POSTGRES: "psycopg and psycopg-pool"}


class Place(NamedTuple):
    """A database as the options name it; None is the one that its backend takes where none is named."""

    backend: StorageBackend
    where: str | Path | None
    config: dict[str, Any] | None


def place_of(
    backend: StorageBackend, path: Path | None, url: str | None, *, default: bool, allow_unencrypted: bool
) -> Place:
    """Raises ``ConfigError`` unless the options name one database of ``backend``."""
    given = [name for name, there in (("--default", default), ("--path", path), ("--url", url)) if there]
    match backend:
        case StorageBackend.DUCKDB:
            takes = ["--default", "--path"]
        case StorageBackend.SQLITE:
            takes = ["--path"]
        case StorageBackend.POSTGRES:
            # It need not be said that its URL is in the environment.
            takes, given = ["--default", "--url"], given or ["--default"]
        case _:
            assert_never(backend)
    if len(given) != 1 or given[0] not in takes:
        names = f", not {' and '.join(given)}" if given else ""
        raise ConfigError(f"--backend {backend} takes {' or '.join(takes)}{names}")
    if not allow_unencrypted:
        return Place(backend, path or url, None)
    if backend is not StorageBackend.POSTGRES:
        raise ConfigError("--allow-unencrypted is for --backend postgres")
    return Place(backend, url, {"allow_unencrypted": True})


def run_inspect(place: Place, *, json: bool) -> int:
    """Tell what is there; 0 where it can be used as it is."""

    def told(found: DatabaseState) -> str:
        versions = ", ".join(f"{component} {version}" for component, version in found.versions)
        lines = [
            f"{found.detail}.",
            f"  backend   {found.backend}{', the default' if found.is_default else ''}",
            f"  state     {found.state}",
            f"  versions  {versions or 'none'}",
            f"  next      {found.next_action}",
        ]
        return "\n".join(lines)

    found = _ended("inspect", place, lambda: inspect_database(*place[:2], config=place.config))
    if isinstance(found, int):
        return found
    known = asdict(found) | {"versions": dict(found.versions), "compatible": found.compatible}
    _tell(told(found), known, json=json)
    return 0 if found.compatible else NOT_CURRENT


def run_create(place: Place, *, json: bool) -> int:
    """Make a database, and say so."""
    made = _ended("create", place, lambda: create_database(*place[:2], config=place.config))
    if isinstance(made, int):
        return made
    _tell(f"Created {made.target}, of version {made.version}.", asdict(made), json=json)
    return 0


def run_migrate(place: Place, backup: Path | None, *, json: bool) -> int:
    """Bring a database to the version in use, and say what was done."""
    done = _ended(
        "migrate",
        place,
        lambda: migrate_database(*place[:2], backup_path=backup, config=place.config),
    )
    if isinstance(done, int):
        return done
    text = f"{done.target} is of version {done.to_version} already; nothing was changed, and no backup made."
    if done.changed:
        text = f"Migrated {done.target} from version {done.from_version} to {done.to_version}."
        if done.backup_path is not None:
            text += f"\nThe backup, of version {done.from_version}, is {done.backup_path}."
    _tell(text, asdict(done) | {"changed": done.changed}, json=json)
    return 0


def _tell(text: str, known: dict[str, Any], *, json: bool) -> None:
    write_line(sys.stdout, json_text.dumps(known, indent=2) if json else text)


def _ended(command: str, place: Place, act: Callable[[], T]) -> T | int:
    """What ``act`` gives, or the exit code of its failure, which is told."""
    try:
        if place.backend is StorageBackend.DUCKDB:
            load_duckdb()
        return act()
    except StorageError as error:
        # The interrupt may be what it failed of.
        stop_if_pressed()
        code, text = _failure(place, error)
        write_line(sys.stderr, f"turnout storage {command}: {in_one_line(text)}")
        return code


def _failure(place: Place, error: StorageError) -> tuple[int, str]:
    match error:
        case StorageDriverMissingError():
            missing = f"needs its driver ({_DRIVERS[place.backend]}), and that is not installed"
            return NO_DRIVER, f'--backend {place.backend} {missing}: pip install "turnout[{place.backend}]"'
        case StorageLockedError():
            return HELD, str(error)
        case SchemaMismatchError() | DatabaseExistsError():
            return REFUSED, str(error)
        case _:
            return UNREACHABLE, str(error)
