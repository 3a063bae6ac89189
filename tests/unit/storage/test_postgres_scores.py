"""What PostgreSQL adds up for scores."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnout.calls import ApiProtocol, CallType
from turnout.decisions.aggregates import Partition, ScoreAggregate, ScoreAggregateQuery
from turnout.decisions.stats import aggregates_of
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.postgres_queries import score_sums
from turnout.storage.rows import Row

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
MODELS: Final = ("m", None)
PROTOCOLS: Final = (ApiProtocol.OPENAI_CHAT.value, None)
EXTREME: Final = [0.0, 5e-324, 1e-300, 250.0, 1e300]


def rows_of(seeds: list[tuple[Any, ...]]) -> list[Row]:
    nothing = (None,) * 4
    return [
        Row(
            str(UUID(int=number)), str(UUID(int=number)), 1, "primary", NOON + timedelta(microseconds=age), scope,
            provider, provider, model, protocol, call_type, success, "ok", fault, None, latency_ms, 1.0, 0.0, *nothing,
            "unknown", None, None,
        )
        for number, (age, scope, provider, model, protocol, call_type, success, fault, latency_ms) in enumerate(seeds)
    ]  # fmt: skip


seeds = st.tuples(
    st.integers(-4 * 10**11, 10**9),
    st.sampled_from(["app", "other"]),
    st.sampled_from("abc"),
    st.sampled_from(MODELS),
    st.sampled_from(PROTOCOLS),
    st.sampled_from(["regular", "streaming"]),
    st.sampled_from([True, True, False, None]),
    st.sampled_from([None, "rate_limit", "timeout", "server_error"]),
    st.none() | st.floats(0.001, 1e6),
)
queries = st.builds(
    ScoreAggregateQuery,
    st.lists(
        st.builds(Partition, st.sampled_from("abcd"), st.sampled_from(MODELS), st.sampled_from(PROTOCOLS)),
        unique_by=lambda partition: partition.provider_id,
    ).map(tuple),
    st.sampled_from(CallType),
    since=st.sampled_from([NOON - timedelta(days=9), NOON - timedelta(days=2), NOON + timedelta(days=1)]),
    reference=st.just(NOON),
    metrics_scope=st.sampled_from([None, "app"]),
    half_life_hours=st.none() | st.floats(0.1, 1000.0),
)


@pytest.fixture
def store(postgres_ledger: str) -> Iterator[PostgresMetricsStore]:
    with closing(PostgresMetricsStore(postgres_ledger)) as store:
        yield store


def assert_alike(found: list[ScoreAggregate], expected: list[ScoreAggregate]) -> None:
    assert [one.provider_id for one in found] == [one.provider_id for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert astuple(one)[1:] == pytest.approx(astuple(other)[1:], rel=1e-9, abs=1e-290)
        assert [type(value) for value in astuple(one)] == [str, *[float] * 4, *[int] * 3]


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(seeds=st.lists(seeds, max_size=25), query=queries)
def test_sums_are_those_of_the_plain_reference(
    store: PostgresMetricsStore,
    postgres_ledger: str,
    seeds: list[tuple[Any, ...]],
    query: ScoreAggregateQuery,
) -> None:
    rows = rows_of(seeds)
    with psycopg.connect(postgres_ledger, autocommit=True) as connection:
        connection.execute("DELETE FROM provider_attempts")
    store.record_attempts(rows)
    assert_alike(store.query_score_aggregates(query), [*aggregates_of(rows, query)])


@pytest.mark.parametrize("half_life_hours", [1e-300, 1e-3, 40.0, 1e300, 1.7e308])
def test_numbers_at_the_ends_of_their_range_are_no_error(
    store: PostgresMetricsStore, half_life_hours: float
) -> None:
    ages = [0, -1, -7200_000_000, -(10**15)]
    rows = rows_of(
        [
            (age, "app", "a", None, None, "regular", True, None, latency)
            for age, latency in product(ages, EXTREME[:4])
        ]
    )
    store.record_attempts(rows)
    query = ScoreAggregateQuery(
        (Partition("a", None, None),), CallType.REGULAR, NOON - timedelta(days=20_000), NOON,
        half_life_hours=half_life_hours,
    )  # fmt: skip
    assert_alike(store.query_score_aggregates(query), [*aggregates_of(rows, query)])


def test_rows_are_read_once_and_added_up_as_they_come(
    store: PostgresMetricsStore, postgres_ledger: str
) -> None:
    store.record_attempts(
        rows_of([(-n, "app", f"p{n % 50}", None, None, "regular", True, None, 1.0) for n in range(5000)])
    )
    partitions = tuple(Partition(f"p{number}", None, None) for number in range(10))
    query = ScoreAggregateQuery(
        partitions, CallType.REGULAR, NOON - timedelta(days=9), NOON, half_life_hours=3.0
    )
    sql, parameters = score_sums(query)
    with psycopg.connect(postgres_ledger, autocommit=True) as connection:
        connection.execute("ANALYZE provider_attempts; SET enable_bitmapscan = off")
        plan = [line for (line,) in connection.execute(b"EXPLAIN " + sql, parameters).fetchall()]
    (reading,) = [place for place, line in enumerate(plan) if "Scan on provider_attempts" in line]
    (adding,) = [place for place, line in enumerate(plan) if "HashAggregate" in line]
    assert not any("Sort" in line for line in plan[adding:reading])
    assert adding < reading


def test_nothing_asked_is_nothing_found_without_a_connection() -> None:
    with closing(PostgresMetricsStore("postgresql://nobody@nowhere.invalid/d")) as store:
        assert store.query_score_aggregates(ScoreAggregateQuery((), CallType.REGULAR, NOON, NOON)) == []
