"""One contract for every place where the ledger keeps rows, and what turnout's own stores promise besides."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnout.errors import ConfigError, StorageError
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore
from turnout.testing.store_conformance import StoreConformance, a_row

AnyStore = DuckDBMetricsStore | SQLiteMetricsStore | MemoryMetricsStore | PostgresMetricsStore
Made = Callable[[], AnyStore]

NOON = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["duckdb", "sqlite", "memory", "postgres"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    stores: dict[str, Made] = {
        "duckdb": lambda: DuckDBMetricsStore(tmp_path / "ledger" / f"{uuid4()}.duckdb"),
        "sqlite": lambda: SQLiteMetricsStore(tmp_path / "ledger" / f"{uuid4()}.sqlite"),
        "memory": MemoryMetricsStore,
        "postgres": lambda: PostgresMetricsStore(request.getfixturevalue("postgres_ledger")),
    }
    return stores[request.param]


@pytest.fixture
def store(made: Made) -> Iterator[AnyStore]:
    with closing(made()) as store:
        yield store


class TestOurStores(StoreConformance):
    @pytest.fixture
    def make(self, made: Made) -> Made:
        return made


def test_times_come_back_in_utc_itself(store: AnyStore) -> None:
    store.record_attempts([a_row(started_at=NOON.astimezone(timezone(timedelta(hours=9))))])
    (found,) = store.query_recent(since=NOON)
    assert found.started_at.tzinfo is UTC


def test_identities_come_back_in_lower_case_and_are_one_in_any_case(store: AnyStore) -> None:
    row = a_row()
    loud = row._replace(attempt_id=row.attempt_id.upper(), invocation_id=row.invocation_id.upper())
    store.record_attempts([loud])
    store.record_attempts([row])
    assert store.query_recent(since=NOON) == [row]


def test_a_since_without_a_time_zone_is_refused(store: AnyStore) -> None:
    with pytest.raises(ConfigError, match="time zone"):
        store.query_recent(since=datetime(2026, 1, 1))


BAD = {
    "the identity is no UUID": {"attempt_id": "seventeen"},
    "a text is no text": {"provider_name": "lone surrogate \ud800"},
    "a small number has no end": {"cost_usd": float("-inf")},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_row_that_no_column_takes_keeps_its_batch_out(store: AnyStore, bad: dict[str, Any]) -> None:
    with pytest.raises(StorageError):
        store.record_attempts([a_row(), a_row(**bad)])
    store.record_attempts([after := a_row()])
    assert store.query_recent(since=LONG_AGO) == [after]


def test_a_batch_of_any_size_arrives_whole(store: AnyStore) -> None:
    kept: dict[str, Row] = {}
    for count in (1, 2, 511, 512, 513):
        rows = [a_row(provider_id=f"p{number % 7}", http_status=number) for number in range(count)]
        store.record_attempts(rows)
        kept |= {row.attempt_id: row for row in rows}
        assert {row.attempt_id: row for row in store.query_recent(since=NOON)} == kept


# Not every database takes a NUL in a text.
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(-(2**63), 2**63 - 1)
any_row = st.builds(
    Row,
    attempt_id=st.uuids().map(str),
    invocation_id=st.uuids().map(str),
    attempt_number=st.integers(1, 2**31 - 1),
    reason=text,
    started_at=st.datetimes(
        datetime(1971, 1, 1),
        datetime(2200, 1, 1),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]),
    ),
    metrics_scope=text,
    provider_id=text,
    provider_name=text,
    model=st.none() | text,
    protocol=st.none() | text,
    call_type=text,
    success=st.none() | st.booleans(),
    outcome=text,
    fault=st.none() | text,
    stream_opened=st.none() | st.booleans(),
    latency_ms=st.none() | numbers,
    total_duration_ms=numbers,
    queue_ms=numbers,
    input_tokens=st.none() | counts,
    cached_tokens=st.none() | counts,
    output_tokens=st.none() | counts,
    cost_usd=st.none() | numbers,
    billing_state=text,
    http_status=st.none() | st.integers(0, 999),
    error_code=st.none() | text,
)


@pytest.fixture
def used(store: AnyStore) -> AnyStore:
    """What connects in the background draws a random number meanwhile, which hypothesis would take for its own."""
    store.query_recent(since=LONG_AGO)
    return store


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(any_row, max_size=9, unique_by=lambda row: row.attempt_id))
def test_whatever_rows_are_recorded_the_same_come_back(used: AnyStore, rows: list[Row]) -> None:
    store, before = used, {row.attempt_id for row in used.query_recent(since=LONG_AGO)}
    store.record_attempts(rows)
    after = {row.attempt_id: row for row in store.query_recent(since=LONG_AGO)}
    for row in rows:
        if row.attempt_id not in before:
            assert after[row.attempt_id] == row


def test_rows_written_from_many_threads_all_arrive(store: AnyStore) -> None:
    with ThreadPoolExecutor(8, thread_name_prefix="writer") as writers:
        for written in [writers.submit(store.record_attempts, [a_row() for _ in range(5)]) for _ in range(8)]:
            written.result(30)
    assert len(store.query_recent(since=NOON)) == 40


def test_a_released_store_opens_again_with_all_its_rows(store: AnyStore) -> None:
    store.release()
    first, second = a_row(), a_row(started_at=NOON + timedelta(seconds=1))
    store.record_attempts([first])
    store.release()
    store.release()
    store.record_attempts([second])
    assert store.query_recent(since=NOON) == [first, second]


def test_a_closed_store_says_so(made: Made) -> None:
    store = made()
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.record_attempts([a_row()])
    with pytest.raises(StorageError, match="closed"):
        store.query_recent(since=NOON)
