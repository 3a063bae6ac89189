"""A store's pool of connections: opened at first use, given up when lost, never touched by a forked child."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from turnout.errors import SchemaMismatchError, StorageError
from turnout.postgres_config import PostgresConfig
from turnout.storage.forking import Listeners
from turnout.storage.handle import never_collect
from turnout.storage.postgres_driver import driver_of_postgres
from turnout.storage.postgres_target import Target
from turnout.storage.schema.postgres_shape import validate
from turnout.storage.schema.postgres_use import VERSION_SQL, is_in_use, share

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from turnout.storage.postgres_connection import BoundedConnection, Connecting

T = TypeVar("T")
_THREADS: Final = "turnout-postgres"


class Pool:
    """Connections to ``target``.

    Before a pool is opened, one connection finds out whether the database can be reached and is of this version: what
    is wrong then reaches the caller, whom a pool could only tell that no connection came. With a connection that is
    lost, or that takes no writes, the whole pool goes, so that the next use finds out anew.
    """

    def __init__(self, target: Target, config: PostgresConfig) -> None:
        self._target = target
        self._config = config
        self._pool: ConnectionPool[BoundedConnection] | None = None
        self._closed = False
        self._opening = threading.Lock()
        _pools.add(self)

    def run(self, work: "Callable[[BoundedConnection], T]") -> T:
        """What ``work`` makes of a connection; it must be one statement, or reads alone. Where the connection was lost,
        as happens to those that lay unused while a server was restarted, it is done once more, on a new one.

        Raises ``StorageError`` where there is no connection to be had, and what the driver raises for the work.
        """
        driver, again = driver_of_postgres(), True
        connecting: Connecting = driver.Connecting(self._target, self._config)
        while True:
            pool, connection = self._taken(connecting)
            try:
                with self._using(connecting, connection):
                    return work(connection)
            except SchemaMismatchError:
                self._give_up(pool)
                raise
            except driver.Error as error:
                if isinstance(error, driver.errors.ReadOnlySqlTransaction):
                    # The session may take no writes longer than the server, or lead to what is the primary no more.
                    self._give_up(pool)
                if not connection.closed:
                    raise
                self._give_up(pool)
                if not again or isinstance(error, driver.SilentServerError):
                    raise
                again = False
            finally:
                pool.putconn(connection)

    def release(self) -> None:
        """Close the connections that nobody uses, and those in use as soon as they come back. The next use opens
        others."""
        with self._turn():
            pool = self._pool
        if pool is not None:
            self._give_up(pool)

    def close(self) -> None:
        """Release, and refuse every later use."""
        self._closed = True
        self.release()

    @contextmanager
    def _using(self, connecting: "Connecting", connection: "BoundedConnection") -> Iterator[None]:
        """In here the ledger is of the version in use, which a pool's connection may have been made too early to know,
        or too late; statements are bounded."""
        name = str(self._target)
        if connecting.lasts and not connection.shares:
            share(connection)
            validate(connection, name)
            connection.shares = True
        with connecting.bounded(connection, VERSION_SQL) as versions:
            if not (connection.shares or is_in_use(versions)):
                validate(connection, name)
            yield

    def _taken(
        self, connecting: "Connecting"
    ) -> "tuple[ConnectionPool[BoundedConnection], BoundedConnection]":
        while True:
            pool = self._opened(connecting)
            try:
                return pool, pool.getconn()
            except driver_of_postgres().PoolClosed:
                # Another thread has lost its connection, or released the store, just now.
                self._give_up(pool)

    def _opened(self, connecting: "Connecting") -> "ConnectionPool[BoundedConnection]":
        with self._turn():
            if self._closed:
                raise StorageError(f"the store of {self._target} is closed; build a new one")
            if self._pool is None:
                with closing(connecting.connect()) as first, connecting.bounded(first):
                    validate(first, str(self._target))
                self._pool = connecting.pool(_THREADS)
            return self._pool

    def _give_up(self, pool: "ConnectionPool[BoundedConnection]") -> None:
        with self._turn():
            if self._pool is pool:
                self._pool = None
        pool.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        opening, config = self._opening, self._config
        # As long as whoever opens it may take for connecting, and for each of the few statements after that.
        patience = 2 * config.connect_timeout_seconds + 5 * config.statement_timeout_seconds
        if not opening.acquire(timeout=patience):
            raise StorageError(
                f"{self._target} is still being connected to after {patience:g} s; try again later"
            )
        try:
            yield
        finally:
            opening.release()

    def after_fork_in_child(self) -> None:
        """Leave what was inherited alone for ever: the parent goes on using it."""
        if self._pool is not None:
            never_collect(self._pool)
        self._pool = None
        self._opening = threading.Lock()


_pools: "Listeners[Pool]" = Listeners()


def _in_child() -> None:
    for pool in _pools.alive():
        pool.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
