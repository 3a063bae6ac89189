"""What the ledger asks of a place where rows are kept."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from turnout.decisions.aggregates import ScoreAggregate, ScoreAggregateQuery
from turnout.storage.rows import Row


class MetricsStore(Protocol):
    """Keeps rows. The ledger calls it from one thread; people may read it from theirs.

    Every method raises ``StorageError`` for what goes wrong. A call may block: no invocation waits for it.

    Three methods more are called where a store has them. ``release()`` before a fork, to let go of the database;
    ``make_durable()`` before its first use by a ledger whose commits must outlast a crash of the machine; and
    ``iterate_recent(*, since, metrics_scope=None, until=None)``, an iterator over the rows that ``query_recent`` would
    list, up to but not including ``until``: it needs little memory however many there are, and holds nothing while the
    reader does something else.

    Two attributes decide where rows wait in files while the store cannot take them: ``path``, the absolute path of a
    database file, has them wait beside it; ``spool_name``, a plain file name that tells one database from another, in
    ``~/.turnout/spool``. Rows of a store without either wait in memory alone, unless ``LedgerConfig.spool_dir`` names a
    folder.
    """

    def record_attempts(self, rows: Sequence[Row]) -> None:
        """Keep all of ``rows`` or none. A row whose ``attempt_id`` is already kept is passed over."""

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
        """Rows that started at or after ``since`` (with a time zone) and match every filter given, oldest first."""

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        """The sums that scores are made from: exactly one for each partition asked for, all zeros where it has no
        rows. One bounded operation of the database, at the one ``reference`` time that the query gives."""

    def close(self) -> None:
        """Release the database. Idempotent."""
