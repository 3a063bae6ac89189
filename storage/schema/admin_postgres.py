"""A ledger in PostgreSQL inspected, made and migrated. Only here is its schema ever touched."""

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from turnout.errors import ConfigError, DatabaseExistsError, StorageError, StorageLockedError
from turnout.postgres_config import PostgresConfig
from turnout.settings import settings_of
from turnout.storage import schema
from turnout.storage.postgres_driver import driver_of_postgres
from turnout.storage.postgres_target import target_of
from turnout.storage.schema.facts import SchemaState, StorageBackend, Target
from turnout.storage.schema.migration import Step, migrate, require_step
from turnout.storage.schema.postgres_shape import look
from turnout.storage.schema.postgres_use import took_alone, users
from turnout.storage.schema.verdict import Verdict, next_action

if TYPE_CHECKING:
    from turnout.storage.postgres_connection import BoundedConnection

#: A new index over a long history takes its time.
_STEP_SECONDS: Final = 3600.0
#: For what others hold: routers that write do so for milliseconds.
_LOCK_SECONDS: Final = 5.0
#: "turnout" in ASCII. Whoever administers a schema of this database has this lock.
_ADVISORY_LOCK: Final = 0x7475726E6F7574


class PostgresAdministration:
    """See ``admin.Administration``; of what ``url`` leads to, or ``TURNOUT_POSTGRES_URL`` where that is None."""

    def __init__(self, url: str | None, config: PostgresConfig | Mapping[str, Any] | None) -> None:
        self._config = settings_of(PostgresConfig, config)
        self._reached = target_of(url, self._config)
        self.target = Target(StorageBackend.POSTGRES, str(self._reached), is_default=url is None)

    def inspect(self) -> Verdict:
        with self._transaction(self._config.statement_timeout_seconds, "READ ONLY") as connection:
            return look(connection)

    def create(self) -> None:
        with self._alone_in_transaction() as connection:
            seen = look(connection)
            if seen.state is not SchemaState.ABSENT:
                raise DatabaseExistsError(
                    f"the tables cannot be made in {self.target.name}: it {seen.why}; nothing was changed. "
                    f"{next_action(seen, self.target)}"
                )
            connection.execute(schema.whole(StorageBackend.POSTGRES).encode())
            require_step(Step(schema.VERSION, ""), look(connection))

    def migrate(self, backup_path: str | None) -> tuple[int, str | None]:
        if backup_path is not None:
            raise ConfigError(
                "of PostgreSQL no backup is made here: run pg_dump, which makes one, and then this without a backup"
            )
        return migrate(self.target, self.inspect(), self._alone)

    @contextmanager
    def _alone(self) -> Iterator["PostgresAdministration"]:
        # Each step is a transaction of its own and takes the locks for itself: a pooler may hand on what is in between.
        yield self

    def look(self) -> Verdict:
        """See ``migration.Alone``."""
        return self.inspect()

    def take(self, step: Step) -> None:
        """See ``migration.Alone``."""
        with self._alone_in_transaction() as connection:
            self._take_alone(connection)
            # Between the look and the lock another may have been quicker.
            if look(connection).version < step.version:
                connection.execute(step.script.encode())
                require_step(step, look(connection))

    def _take_alone(self, connection: "BoundedConnection") -> None:
        errors = driver_of_postgres().errors
        try:
            if took_alone(connection):
                return
        except errors.LockNotAvailable:
            # Told below.
            pass
        # Who had it may be gone by now.
        by = users(connection)
        raise StorageLockedError(
            f"the database {self.target.name} is in use{f' by {by}' if by else ''}; stop every program that uses it, "
            "and try again"
        )

    @contextmanager
    def _alone_in_transaction(self) -> Iterator["BoundedConnection"]:
        with self._transaction(_STEP_SECONDS, "READ WRITE") as connection:
            taken = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (_ADVISORY_LOCK,)).fetchall()
            if taken != [(True,)]:
                raise StorageLockedError(
                    f"the schema of {self.target.name} is being made or migrated; try again"
                )
            yield connection

    @contextmanager
    def _transaction(self, seconds: float, mode: str) -> Iterator["BoundedConnection"]:
        """A connection in a transaction whose statements may take so long. Left by an exception, nothing was done."""
        driver = driver_of_postgres()
        try:
            with closing(driver.Connecting(self._reached, self._config).connect()) as connection:
                connection.silence_seconds = seconds + self._config.connect_timeout_seconds
                with connection.transaction():
                    timeouts = (("statement_timeout", seconds), ("lock_timeout", min(seconds, _LOCK_SECONDS)))
                    limits = "".join(
                        f"; SET LOCAL {name} = {math.ceil(limit * 1000)}" for name, limit in timeouts
                    )
                    connection.execute(f"SET TRANSACTION {mode}{limits}".encode())
                    yield connection
        except driver.Error as error:
            raise self._told(error) from driver.cause_of(error, self._reached)

    def _told(self, error: Any) -> StorageError:
        errors = driver_of_postgres().errors
        name, text = self.target.name, self._reached.without_password(error.diag.message_primary or "")
        match error:
            case errors.LockNotAvailable():
                return StorageLockedError(
                    f"the database {name} is in use; stop every program that uses it, and try again"
                )
            case errors.InsufficientPrivilege():
                return StorageError(
                    f"the database {name} refused: {text}; name a role that owns the schema in the URL"
                )
        failed: StorageError = driver_of_postgres().failed(error, self._reached)
        return failed
