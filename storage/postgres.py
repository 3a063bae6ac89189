"""Rows in a PostgreSQL, which any number of processes and machines share."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from turnout.decisions.aggregates import ScoreAggregate, ScoreAggregateQuery
from turnout.errors import StorageError
from turnout.postgres_config import PostgresConfig
from turnout.settings import settings_of
from turnout.storage import postgres_queries as queries
from turnout.storage.filters import Filters
from turnout.storage.postgres_copy import copy_data
from turnout.storage.postgres_driver import driver_of_postgres
from turnout.storage.postgres_pool import Pool
from turnout.storage.postgres_target import target_of
from turnout.storage.rows import Row
from turnout.storage.score_sql import score_aggregates

if TYPE_CHECKING:
    from turnout.storage.postgres_connection import BoundedConnection


class PostgresMetricsStore:
    """Keeps rows in the PostgreSQL that ``url`` (or the environment's ``TURNOUT_POSTGRES_URL``) leads to.

    Nothing is ever made or changed there but rows: its tables come from ``turnout storage create --backend postgres``,
    or from the statements in ``turnout.storage.schema``, and are found by the role's search path. A database of another
    schema is refused with ``SchemaMismatchError``. The role needs USAGE on the schema, INSERT and SELECT on
    ``provider_attempts`` and SELECT on ``turnout_schema_versions``.

    Connections are opened at first use, and by a forked child anew.
    """

    #: A fork needs nothing to be let go of: what the parent has open, the child leaves alone.
    ends_at_fork: Final = True

    def __init__(
        self, url: str | SecretStr | None = None, config: PostgresConfig | Mapping[str, Any] | None = None
    ) -> None:
        self.config = settings_of(PostgresConfig, config)
        self._target = target_of(url, self.config)
        self._pool = Pool(self._target, self.config)
        #: Row level security takes no COPY.
        self._copies = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._target)!r})"

    @property
    def spool_name(self) -> str:
        """Where its rows wait while the server is away: one place for each user of a database, and all passwords."""
        return f"postgres-{sha256(str(self._target).replace(':***@', '@').encode()).hexdigest()[:16]}"

    def record_attempts(self, rows: Sequence[Row]) -> None:
        """Keep all of ``rows`` or none. A row whose ``attempt_id`` is already kept is passed over."""
        if not rows:
            return
        with self._translated():
            if not (self._copies and self._copied(rows)):
                sql, values = queries.insert(rows)
                self._pool.run(lambda connection: connection.execute(sql, values))

    def query_recent(
        self,
        *,
        since: datetime,
        metrics_scope: str | None = None,
        provider_id: str | None = None,
        model: str | None = None,
        protocol: str | None = None,
        call_type: str | None = None,
    ) -> list[Row]:
        """Rows that started at or after ``since`` and match every filter given, oldest first."""
        wanted = Filters(since, metrics_scope, provider_id, model, protocol, call_type)
        return [queries.row_of_values(values) for values in self._read(queries.recent(wanted))]

    def iterate_recent(
        self, *, since: datetime, metrics_scope: str | None = None, until: datetime | None = None
    ) -> Iterator[Row]:
        """The same rows one by one, up to but not including ``until``, in bounded memory. Those that are written
        meanwhile may be among them."""
        return self._iterated(Filters(since, metrics_scope, until=until))

    def _iterated(self, wanted: Filters) -> Iterator[Row]:
        # Page by page, each its own transaction: no connection is held while the reader does something else.
        last: Row | None = None
        while True:
            found = [queries.row_of_values(values) for values in self._read(queries.page(wanted, last))]
            yield from found
            if len(found) < queries.PAGE_ROWS:
                return
            last = found[-1]

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        """One aggregate for each partition asked for, in their order, from one statement."""
        if not query.partitions:
            return []
        return score_aggregates(query.partitions, self._read(queries.score_sums(query)))

    def release(self) -> None:
        """Close the connections; the next use opens others."""
        self._pool.release()

    def close(self) -> None:
        """Close the connections for good. Idempotent."""
        self._pool.close()

    def _copied(self, rows: Sequence[Row]) -> bool:
        """Whether ``rows`` went in by COPY, which refuses them all where one is already kept."""
        driver = driver_of_postgres()

        def copy(connection: "BoundedConnection") -> None:
            with (
                connection.cursor() as cursor,
                cursor.copy(queries.COPY, writer=driver.QuietWriter(cursor)) as into,
            ):
                for chunk in copy_data(rows):
                    into.write(chunk)

        errors = driver.errors
        try:
            self._pool.run(copy)
        except errors.UniqueViolation:
            return False
        except errors.FeatureNotSupported:
            self._copies = False
            return False
        return True

    def _read(self, statement: queries.Statement) -> list[tuple[Any, ...]]:
        with self._translated():
            return self._pool.run(lambda connection: connection.execute(*statement).fetchall())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise StorageError(f"a value does not fit the database {self._target}: {error}") from error
        except driver_of_postgres().Error as error:
            from turnout.storage.postgres_errors import cause_of, failed

            raise failed(error, self._target) from cause_of(error, self._target)
