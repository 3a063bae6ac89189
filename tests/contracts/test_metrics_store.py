"""One contract for every place where the ledger keeps rows."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnout.errors import ConfigError, StorageError
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

AnyStore = DuckDBMetricsStore | SQLiteMetricsStore | MemoryMetricsStore | PostgresMetricsStore
Made = Callable[[], AnyStore]

NOON = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def a_row(**known: Any) -> Row:
    full = Row(
        attempt_id=str(uuid4()),
        invocation_id=str(uuid4()),
        attempt_number=2,
        reason="failover",
        started_at=NOON,
        metrics_scope="my-app:production",
        provider_id="eu-1",
        provider_name="Zürich 東京 🚉",
        model="gpt-x",
        protocol="openai_chat",
        call_type="streaming",
        success=False,
        outcome="failed",
        fault="server_error",
        stream_opened=True,
        latency_ms=12.25,
        total_duration_ms=1 / 3,
        queue_ms=1e-9,
        input_tokens=9_007_199_254_740_993,
        cached_tokens=0,
        output_tokens=7,
        cost_usd=0.1,
        billing_state="calculated",
        http_status=503,
        error_code="overloaded",
    )
    return full._replace(**known)


NULLS: dict[str, Any] = dict.fromkeys(
    (
        "model",
        "protocol",
        "success",
        "fault",
        "stream_opened",
        "latency_ms",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "cost_usd",
        "http_status",
        "error_code",
    )
)


@pytest.fixture(params=["duckdb", "sqlite", "memory", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    made: dict[str, Made] = {
        "duckdb": lambda: DuckDBMetricsStore(tmp_path / "ledger" / f"{uuid4()}.duckdb"),
        "sqlite": lambda: SQLiteMetricsStore(tmp_path / "ledger" / f"{uuid4()}.sqlite"),
        "memory": MemoryMetricsStore,
        "postgres": lambda: PostgresMetricsStore(request.getfixturevalue("postgres_ledger")),
    }
    return made[request.param]


@pytest.fixture
def store(make: Made) -> Iterator[AnyStore]:
    with closing(make()) as store:
        yield store


def ids(rows: list[Row]) -> list[str]:
    return [row.attempt_id for row in rows]


def test_every_column_comes_back_as_it_went_in(store: AnyStore) -> None:
    row = a_row()
    store.record_attempts([row])
    assert store.query_recent(since=NOON) == [row]


def test_what_is_unknown_comes_back_unknown_beside_rows_that_know(
    store: AnyStore,
) -> None:
    known, unknown = a_row(), a_row(**NULLS, started_at=NOON + timedelta(seconds=1))
    store.record_attempts([unknown])
    store.record_attempts([known])
    assert store.query_recent(since=NOON) == [known, unknown]


def test_false_and_zero_and_empty_are_not_unknown(store: AnyStore) -> None:
    row = a_row(
        success=False,
        stream_opened=False,
        latency_ms=0.0,
        cost_usd=0.0,
        input_tokens=0,
        error_code="",
    )
    store.record_attempts([a_row(**NULLS), row])
    found = {kept.attempt_id: kept for kept in store.query_recent(since=NOON)}
    assert found[row.attempt_id] == row
    assert found[row.attempt_id].success is False


def test_times_are_exact_to_the_microsecond_and_come_back_in_utc(
    store: AnyStore,
) -> None:
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    store.record_attempts([a_row(started_at=tokyo)])
    (found,) = store.query_recent(since=tokyo)
    assert found.started_at == NOON
    assert found.started_at.tzinfo is UTC
    assert store.query_recent(since=NOON + timedelta(microseconds=1)) == []


def test_identities_come_back_in_lower_case_and_are_one_in_any_case(
    store: AnyStore,
) -> None:
    row = a_row()
    store.record_attempts(
        [
            row._replace(
                attempt_id=row.attempt_id.upper(),
                invocation_id=row.invocation_id.upper(),
            )
        ]
    )
    store.record_attempts([row])
    assert store.query_recent(since=NOON) == [row]


def test_rows_come_back_oldest_first(store: AnyStore) -> None:
    rows = [a_row(started_at=NOON + timedelta(seconds=second)) for second in (3, 1, 2)]
    store.record_attempts(rows)
    assert [row.started_at.second for row in store.query_recent(since=NOON)] == [
        1,
        2,
        3,
    ]


@pytest.mark.parametrize("name", ["metrics_scope", "provider_id", "model", "protocol", "call_type"])
def test_a_filter_lets_only_its_own_value_through(store: AnyStore, name: str) -> None:
    wanted, other, unknown = (
        a_row(),
        a_row(**{name: "' OR 1=1 --"}),
        a_row(model=None, protocol=None),
    )
    store.record_attempts([wanted, other, unknown])
    assert ids(store.query_recent(since=NOON, **{name: "' OR 1=1 --"})) == [other.attempt_id]
    assert store.query_recent(since=NOON, **{name: "nowhere"}) == []


def test_filters_given_together_must_all_match(store: AnyStore) -> None:
    rows = [a_row(provider_id=provider, model=model) for provider in "ab" for model in "xy"]
    store.record_attempts(rows)
    assert ids(store.query_recent(since=NOON, provider_id="b", model="x")) == [rows[2].attempt_id]


def test_a_since_without_a_time_zone_is_refused(store: AnyStore) -> None:
    with pytest.raises(ConfigError, match="time zone"):
        store.query_recent(since=datetime(2026, 1, 1))


def test_recording_nothing_is_nothing(store: AnyStore) -> None:
    store.record_attempts([])
    assert store.query_recent(since=LONG_AGO) == []


def test_a_replayed_batch_changes_nothing(store: AnyStore) -> None:
    rows = [a_row(started_at=NOON + timedelta(seconds=second)) for second in range(5)]
    store.record_attempts(rows)
    store.record_attempts([rows[0]._replace(provider_id="changed"), *rows[1:], late := a_row()])
    assert len(found := store.query_recent(since=NOON)) == 6
    assert {row.attempt_id: row for row in found} == {row.attempt_id: row for row in [*rows, late]}


def test_the_first_of_two_rows_with_one_identity_in_a_batch_is_kept(
    store: AnyStore,
) -> None:
    row = a_row()
    store.record_attempts([row, row._replace(provider_id="second"), row._replace(provider_id="third")])
    assert store.query_recent(since=NOON) == [row]


BAD = {
    "a required value is missing": {"provider_id": None},
    "a number is not one": {"total_duration_ms": float("nan")},
    "a number has no end": {"cost_usd": float("inf")},
    "the identity is no UUID": {"attempt_id": "seventeen"},
    "the time has no time zone": {"started_at": datetime(2026, 1, 1)},
    "a text is no text": {"provider_name": "lone surrogate \ud800"},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_one_bad_row_keeps_its_whole_batch_out_and_no_other(store: AnyStore, bad: dict[str, Any]) -> None:
    before, after = a_row(), a_row()
    store.record_attempts([before])
    with pytest.raises(StorageError):
        store.record_attempts([a_row(), before, a_row(**bad), a_row()])
    store.record_attempts([after])
    assert sorted(ids(store.query_recent(since=LONG_AGO))) == sorted(ids([before, after]))


@pytest.mark.parametrize("count", [1, 2, 511, 512, 513, 1300])
def test_a_batch_of_any_size_arrives_whole(store: AnyStore, count: int) -> None:
    rows = [a_row(provider_id=f"p{number % 7}", http_status=number) for number in range(count)]
    store.record_attempts(rows)
    found = {row.attempt_id: row for row in store.query_recent(since=NOON)}
    assert found == {row.attempt_id: row for row in rows}


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


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(any_row, max_size=9, unique_by=lambda row: row.attempt_id))
def test_whatever_rows_are_recorded_the_same_come_back(store: AnyStore, rows: list[Row]) -> None:
    before = {row.attempt_id for row in store.query_recent(since=LONG_AGO)}
    store.record_attempts(rows)
    after = {row.attempt_id: row for row in store.query_recent(since=LONG_AGO)}
    for row in rows:
        if row.attempt_id not in before:
            assert after[row.attempt_id] == row


def test_readers_see_whole_batches_while_a_writer_writes(store: AnyStore) -> None:
    done = threading.Event()

    def read() -> list[int]:
        seen = [len(store.query_recent(since=NOON))]
        while not done.is_set():
            seen.append(len(store.query_recent(since=NOON)))
        return seen

    with ThreadPoolExecutor(3, thread_name_prefix="reader") as readers:
        reads = [readers.submit(read) for _ in range(3)]
        try:
            for _ in range(20):
                store.record_attempts([a_row() for _ in range(10)])
        finally:
            done.set()
        for seen in reads:
            counts_seen = seen.result(30)
            assert counts_seen == sorted(counts_seen)
            assert all(count % 10 == 0 for count in counts_seen)
    assert len(store.query_recent(since=NOON)) == 200


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


def test_a_closed_store_may_be_closed_again_and_refuses_every_use(make: Made) -> None:
    store = make()
    store.record_attempts([a_row()])
    store.close()
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.record_attempts([a_row()])
    with pytest.raises(StorageError, match="closed"):
        store.query_recent(since=NOON)


def test_a_store_never_used_may_be_closed(make: Made) -> None:
    store = make()
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.record_attempts([a_row()])


def test_identities_are_uuids(store: AnyStore) -> None:
    store.record_attempts([a_row()])
    (found,) = store.query_recent(since=NOON)
    assert str(UUID(found.attempt_id)) == found.attempt_id
