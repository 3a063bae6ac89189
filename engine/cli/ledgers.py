"""Which ledger is meant, opened so that nothing is made or changed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, assert_never

from turnout.cli.sdk import load_duckdb
from turnout.config import StoreConfig
from turnout.errors import ConfigError
from turnout.postgres_config import PostgresConfig
from turnout.storage.contract import MetricsStore
from turnout.storage.postgres_target import URL_VARIABLE, target_of, url_in
from turnout.storage.spool_files import OPEN, SEALED
from turnout.storage.spool_place import spool_folder
from turnout.toml import settings_from_toml

Backend = Literal["duckdb", "sqlite", "postgres"]
#: A page of a scope that has few of very many rows takes more than the time that a router would give it.
_STATEMENT_SECONDS: Final = 60.0


class Place(NamedTuple):
    """Where a ledger is, and the folder that its router's file names for the rows that wait for it."""

    store: StoreConfig
    spool_dir: str | None = None


class Ledger(NamedTuple):
    """An open store, and how people call it."""

    store: MetricsStore
    name: str


def place_of(
    config: Path | None, backend: Backend | None, path: Path | None, *, allow_unencrypted: bool = False
) -> Place:
    """What the options name: a router's own ledger, a database, or else the default one. Raises ``ConfigError``."""
    if config is not None:
        if backend is not None or path is not None:
            raise ConfigError("--config names the ledger already; leave --backend and --path out")
        if allow_unencrypted:
            raise ConfigError("--config says how its ledger is reached; write allow_unencrypted = true there")
        settings = settings_from_toml(config)
        store, ledger = settings["metrics_store"], settings["ledger"]
        if store.backend == "none":
            raise ConfigError(f"{config}: its router keeps no ledger (metrics_store.backend is none)")
        return Place(store, ledger.spool_dir)
    if allow_unencrypted and backend != "postgres":
        raise ConfigError("--allow-unencrypted is for --backend postgres")
    match backend:
        case None | "duckdb":
            return Place(StoreConfig(backend="duckdb", path=None if path is None else str(path)))
        case "sqlite":
            if path is None:
                raise ConfigError("--backend sqlite needs a --path")
            return Place(StoreConfig(backend="sqlite", path=str(path)))
        case "postgres":
            if path is not None:
                raise ConfigError(f"--backend postgres has no --path: {URL_VARIABLE} is its URL")
            reached = PostgresConfig(allow_unencrypted=allow_unencrypted)
            return Place(StoreConfig(backend="postgres", postgres=reached))
        case _:
            assert_never(backend)


@contextmanager
def opened(place: Place) -> Iterator[Ledger]:
    """The ledger at ``place``, to be read. Raises ``ConfigError`` where there is none."""
    ledger = _ledger(place.store)
    try:
        yield ledger
    finally:
        ledger.store.close()


def _ledger(config: StoreConfig) -> Ledger:
    match config.backend:
        case "duckdb":
            from turnout.storage.duckdb import DuckDBMetricsStore

            load_duckdb()
            duckdb = DuckDBMetricsStore(config.path, read_only=True)
            return Ledger(duckdb, _there(duckdb.path))
        case "sqlite":
            from turnout.storage.sqlite import SQLiteMetricsStore

            sqlite = SQLiteMetricsStore(str(config.path), read_only=True)
            return Ledger(sqlite, _there(sqlite.path))
        case "postgres":
            return _postgres(config)
        case "none":
            raise ConfigError("there is no ledger to read")
        case _:
            assert_never(config.backend)


def _postgres(store: StoreConfig) -> Ledger:
    from turnout.storage.postgres import PostgresMetricsStore

    url, config = url_in(store.url_env), store.postgres or PostgresConfig()
    seconds = max(config.statement_timeout_seconds, _STATEMENT_SECONDS)
    patient = config.model_copy(update={"statement_timeout_seconds": seconds})
    return Ledger(PostgresMetricsStore(url, patient), str(target_of(url, patient)))


def _there(path: str) -> str:
    if not os.path.lexists(path):
        raise ConfigError(
            f"there is no database {path}; a router that keeps its ledger there makes it. Name another one with "
            "--config, or with --backend and --path"
        )
    return path


def waiting_files(ledger: Ledger, place: Place) -> tuple[int, str]:
    """How many files of rows wait for a router to take them in, and where."""
    folder = spool_folder(ledger.store, place.spool_dir)
    if folder is None:
        return 0, ""
    count = 0
    with suppress(OSError):
        count = sum(entry.suffix in (OPEN, SEALED) for entry in Path(folder).iterdir())
    return count, folder
