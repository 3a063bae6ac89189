"""Rows of any store, one by one."""

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol, runtime_checkable

from turnout.storage.contract import MetricsStore
from turnout.storage.rows import Row


@runtime_checkable
class IteratesRows(Protocol):
    """What a store has besides that can give many rows in little memory; see ``MetricsStore``."""

    def iterate_recent(
        self, *, since: datetime, metrics_scope: str | None = None, until: datetime | None = None
    ) -> Iterator[Row]: ...


def rows_of(
    store: MetricsStore, *, since: datetime, until: datetime, metrics_scope: str | None = None
) -> Iterator[Row]:
    """Rows that started from ``since`` up to but not including ``until``, oldest first: in bounded memory where the
    store can do that. Raises ``StorageError``."""
    if isinstance(store, IteratesRows):
        yield from store.iterate_recent(since=since, metrics_scope=metrics_scope, until=until)
        return
    for row in store.query_recent(since=since, metrics_scope=metrics_scope):
        if row.started_at < until:
            yield row
