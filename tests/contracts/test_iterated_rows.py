"""Rows one by one: the same from every store, in order, however they fall into its pages."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from turnout.errors import ConfigError, StorageError
from turnout.storage import duckdb_spans, postgres_queries, sqlite
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.reading import rows_of
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

AnyStore = DuckDBMetricsStore | SQLiteMetricsStore | PostgresMetricsStore | MemoryMetricsStore
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(1960, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(2100, 1, 1, tzinfo=UTC)


def a_row(number: int, started_at: datetime = NOON, scope: str = "scope") -> Row:
    # Spread, so that rows of one moment do not come in the order in which they were made.
    identity = str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))
    return Row(
        identity, identity, 1, "primary", started_at, scope, "p", "P", None, None, "regular", True, "ok", None,
        None, 1.0, 1.0, 0.0, None, None, None, None, "unknown", None, None,
    )  # fmt: skip


@pytest.fixture(params=["duckdb", "sqlite", "memory", "postgres", "postgres behind a transaction pooler"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    def postgres(pool_mode: str) -> PostgresMetricsStore:
        return PostgresMetricsStore(request.getfixturevalue("postgres_ledger"), {"pool_mode": pool_mode})

    made: dict[str, Callable[[], AnyStore]] = {
        "duckdb": lambda: DuckDBMetricsStore(tmp_path / "ledger.duckdb"),
        "sqlite": lambda: SQLiteMetricsStore(tmp_path / "ledger.sqlite"),
        "memory": MemoryMetricsStore,
        "postgres": lambda: postgres("direct"),
        "postgres behind a transaction pooler": lambda: postgres("transaction_pooler"),
    }
    with closing(made[request.param]()) as store:
        yield store


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_spans, "_ROWS", 4)
    monkeypatch.setattr(sqlite, "_PAGE_ROWS", 4)
    monkeypatch.setattr(postgres_queries, "PAGE_ROWS", 4)


def every_moment() -> list[Row]:
    """Rows of one minute, of one second, of one moment, of long before and of times far apart."""
    steps = [timedelta(microseconds=3), timedelta(seconds=2), timedelta(0), timedelta(days=40)]
    moments = [NOON + step * number for step in steps for number in range(30)]
    moments += [datetime(1969, 12, 31, 23, 59, second, tzinfo=UTC) for second in range(40, 60)]
    return [a_row(number, moment) for number, moment in enumerate(moments)]


def test_an_empty_store_gives_none(store: AnyStore) -> None:
    assert list(store.iterate_recent(since=LONG_AGO)) == []


def test_the_rows_are_those_that_a_query_lists_in_the_same_order(store: AnyStore, small_pages: None) -> None:
    rows = every_moment()
    store.record_attempts(rows)
    listed = store.query_recent(since=LONG_AGO)
    assert len(listed) == len(rows)
    assert list(store.iterate_recent(since=LONG_AGO)) == listed


def test_they_begin_with_since_and_end_before_until(store: AnyStore, small_pages: None) -> None:
    rows = [a_row(second, NOON + timedelta(seconds=second)) for second in range(30)]
    store.record_attempts(rows)
    since, until = rows[3].started_at, rows[27].started_at
    assert list(store.iterate_recent(since=since, until=until)) == rows[3:27]
    assert list(store.iterate_recent(since=since, until=since)) == []


def test_they_are_of_the_scope_asked_for(store: AnyStore, small_pages: None) -> None:
    rows = [a_row(n, NOON + timedelta(seconds=n), scope="ab"[n % 2]) for n in range(40)]
    store.record_attempts(rows)
    assert list(store.iterate_recent(since=NOON, metrics_scope="b")) == rows[1::2]


def test_a_time_without_a_zone_is_refused_when_it_is_given(store: AnyStore) -> None:
    with pytest.raises(ConfigError, match="since= has no time zone"):
        store.iterate_recent(since=datetime(2026, 1, 1))
    with pytest.raises(ConfigError, match="until= has no time zone"):
        store.iterate_recent(since=NOON, until=datetime(2026, 1, 1))


def test_a_reader_that_pauses_holds_up_nobody(store: AnyStore, small_pages: None) -> None:
    rows = [a_row(second, NOON + timedelta(seconds=second)) for second in range(30)]
    store.record_attempts(rows)
    reader = store.iterate_recent(since=NOON, until=FAR_AHEAD)
    assert next(reader) == rows[0]
    store.release()
    store.record_attempts([late := a_row(99, NOON + timedelta(hours=1))])
    # What comes meanwhile may be among them.
    assert [row for row in reader if row != late] == rows[1:]


def test_a_store_that_is_closed_meanwhile_says_so(store: AnyStore, small_pages: None) -> None:
    store.record_attempts([a_row(second, NOON + timedelta(seconds=second)) for second in range(30)])
    reader = store.iterate_recent(since=NOON)
    next(reader)
    if isinstance(store, MemoryMetricsStore):
        # All of its rows are in the reader's hands.
        return
    store.close()
    with pytest.raises(StorageError, match="closed"):
        list(reader)


class OwnStore:
    """A store of somebody's own, with what it must have alone."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.asked: dict[str, Any] = {}

    def query_recent(self, **asked: Any) -> list[Row]:
        self.asked = asked
        return self.rows


def test_a_store_that_cannot_iterate_is_queried() -> None:
    rows = [a_row(second, NOON + timedelta(seconds=second)) for second in range(5)]
    store: Any = OwnStore(rows)
    until = rows[3].started_at
    assert list(rows_of(store, since=NOON, until=until, metrics_scope="scope")) == rows[:3]
    assert store.asked == {"since": NOON, "metrics_scope": "scope"}


def test_one_that_can_is_not_queried(store: AnyStore) -> None:
    rows = [a_row(second, NOON + timedelta(seconds=second)) for second in range(5)]
    store.record_attempts(rows)
    assert list(rows_of(store, since=NOON, until=rows[3].started_at)) == rows[:3]
