"""Connections to PostgreSQL that never wait for ever. Imported with the driver, at a store's first use."""

import logging
import math
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import Error as Error
from psycopg import errors as errors
from psycopg.copy import LibpqWriter
from psycopg_pool import ConnectionPool
from psycopg_pool import PoolClosed as PoolClosed

from turnout.postgres_config import PostgresConfig
from turnout.storage.postgres_errors import SilentServerError as SilentServerError
from turnout.storage.postgres_errors import cause_of as cause_of
from turnout.storage.postgres_errors import failed as failed
from turnout.storage.postgres_errors import unreachable
from turnout.storage.postgres_target import Target

#: One connects and mends for the few connections that there are.
_WORKERS: Final = 1
T = TypeVar("T")

# What it warns of reaches the caller as an error, or mends itself; without a handler it would go to stderr.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is given up where the server says nothing for ``silence_seconds``.

    The server's own statement timeout ends what it works on. It ends nothing where the server is stopped, or the
    network swallows what is sent.
    """

    silence_seconds: float = 60.0
    #: Whether it keeps the ledger, which is of the version in use, from being migrated.
    shares: bool = False

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **named: Any) -> T:
        try:
            return super().wait(_until(time.monotonic() + self.silence_seconds, gen), *args, **named)
        except SilentServerError:
            self.close()
            raise


def _until(deadline: float, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    try:
        wait = next(gen)
        while True:
            ready = yield wait
            # Nothing is ready where the driver has only looked for a Ctrl-C.
            if not ready and time.monotonic() > deadline:
                raise SilentServerError("the server says nothing")
            wait = gen.send(ready)
    except StopIteration as ended:
        result: T = ended.value
        return result


class QuietWriter(LibpqWriter):
    """Ends a COPY. Where it failed, and the connection with it, the driver would log that it cannot be ended either."""

    def finish(self, exc: BaseException | None = None) -> None:
        if exc is None:
            super().finish()
            return
        with suppress(psycopg.Error):
            super().finish(exc)


class Connecting:
    """Makes connections to ``target`` as ``config`` has it, and bounds what is done on them."""

    def __init__(self, target: Target, config: PostgresConfig) -> None:
        self._target = target
        self._config = config
        milliseconds = math.ceil(config.statement_timeout_seconds * 1000)
        # What waits for another's lock, a migration's say, is to be told so before it is told that its time was over.
        timeouts = {"statement_timeout": milliseconds, "lock_timeout": math.ceil(milliseconds / 2)}
        # A transaction pooler would hand what is set for a session to the next client.
        self.lasts = config.pool_mode != "transaction_pooler"
        # Each statement is to see what was committed before it: a migration that was waited for.
        begin, scope = ("", "SET") if self.lasts else ("BEGIN ISOLATION LEVEL READ COMMITTED; ", "SET LOCAL")
        self._set = begin + "; ".join(f"{scope} {name} = {value}" for name, value in timeouts.items())

    def connect(self) -> BoundedConnection:
        """One connection. Raises ``StorageError`` where none comes about."""
        try:
            connection = BoundedConnection.connect(self._target.url.get_secret_value(), **self._named())
        except psycopg.Error as error:
            raise unreachable(error, self._target) from cause_of(error, self._target)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def pool(self, name: str) -> "ConnectionPool[BoundedConnection]":
        """A pool, open, with its least connections. Its threads are called ``name`` and what they do."""
        config = self._config
        pool = ConnectionPool(
            self._target.url.get_secret_value(),
            connection_class=BoundedConnection,
            kwargs=self._named(),
            configure=self._configure,
            min_size=config.min_pool_size,
            max_size=config.max_pool_size,
            timeout=config.checkout_timeout_seconds,
            num_workers=_WORKERS,
            name=name,
            open=False,
        )
        # Whoever came before the first connection would have it make a second.
        pool.open(wait=True, timeout=config.checkout_timeout_seconds)
        return pool

    @contextmanager
    def bounded(self, connection: BoundedConnection, asked: str = "") -> Iterator[list[tuple[Any, ...]]]:
        """In here every statement has its timeout. It must be one statement, or reads: where the timeout lasts with the
        session, each is a transaction of its own. Where it does not, the rows of what is ``asked`` come by the same
        round trip."""
        if self.lasts:
            yield []
            return
        try:
            cursor = connection.execute("; ".join([self._set, asked] if asked else [self._set]).encode())
            while cursor.nextset():
                pass
            yield cursor.fetchall() if asked else []
        except BaseException:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _named(self) -> dict[str, Any]:
        prepares = {} if self.lasts else {"prepare_threshold": None}
        return {**self._target.parameters, **prepares, "autocommit": True}

    def _configure(self, connection: BoundedConnection) -> None:
        config = self._config
        connection.silence_seconds = config.connect_timeout_seconds + config.statement_timeout_seconds
        if self.lasts:
            connection.execute(self._set.encode())
