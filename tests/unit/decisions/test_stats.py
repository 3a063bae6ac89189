"""What rows say about providers, held against the words of the rule, one row at a time."""

import math
from collections.abc import Iterable
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout import (
    ApiProtocol,
    CallType,
    ConfigError,
    Partition,
    ProviderConfig,
    ProviderStats,
    ScoreAggregate,
    ScoreAggregateQuery,
    aggregate_stats,
)
from turnout.decisions.stats import aggregates_of, stats_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
A = SimpleNamespace(provider_id="a", name="Provider A", model="m", protocol="openai_chat")


def a_row(**known: Any) -> Any:
    told: dict[str, Any] = {
        "started_at": NOON,
        "metrics_scope": "app",
        "provider_id": "a",
        "model": "m",
        "protocol": "openai_chat",
        "call_type": "regular",
        "success": True,
        "fault": None,
        "latency_ms": 100.0,
    }
    return SimpleNamespace(**{**told, **known})


def of_a(rows: Iterable[Any], call_type: CallType = CallType.REGULAR, **options: Any) -> ProviderStats:
    return aggregate_stats(rows, [A], call_type, **options)["a"]


def test_a_provider_without_history_has_counts_of_zero_and_no_rate_nor_average() -> None:
    assert aggregate_stats([], [A], CallType.REGULAR) == {"a": ProviderStats("a", "Provider A")}
    none = of_a([])
    assert none.regular_attempts == none.regular_successes == none.recent_error_count == 0
    assert none.regular_success_rate is none.regular_latency_ms is None


def test_every_provider_has_an_entry_under_its_id_with_its_name_of_now() -> None:
    providers = [
        ProviderConfig(
            provider_id=one,
            name=f"The {one}",
            protocol=ApiProtocol.OPENAI_CHAT,
            model="m",
            base_url="http://x",
        )
        for one in "abc"
    ]
    stats = aggregate_stats([a_row(provider_id="b")], providers, CallType.REGULAR)
    assert [*stats] == ["a", "b", "c"]
    assert [one.provider_name for one in stats.values()] == ["The a", "The b", "The c"]
    assert [one.regular_attempts for one in stats.values()] == [0, 1, 0]


@pytest.mark.parametrize(
    "other",
    [
        {"provider_id": "A"},
        {"model": "m2"},
        {"model": None},
        {"protocol": "openai_responses"},
        {"protocol": None},
        {"call_type": "streaming"},
        {"success": None},
    ],
    ids=str,
)
def test_a_row_that_differs_or_was_ignored_says_nothing(other: dict[str, Any]) -> None:
    assert of_a([a_row(**other)]) == ProviderStats("a", "Provider A")


def test_a_provider_without_model_and_protocol_has_the_rows_without_them() -> None:
    anything = SimpleNamespace(provider_id="a", name="A", model=None, protocol=None)
    rows = [a_row(model=None, protocol=None), a_row(model=None), a_row(protocol=None), a_row()]
    assert aggregate_stats(rows, [anything], CallType.REGULAR)["a"].regular_attempts == 1


def test_regular_calls_and_streams_are_counted_apart() -> None:
    rows = [a_row(latency_ms=900.0), a_row(call_type="streaming", latency_ms=30.0)]
    assert of_a(rows) == ProviderStats(
        "a",
        "Provider A",
        regular_attempts=1,
        regular_successes=1,
        regular_success_rate=1.0,
        regular_latency_ms=900.0,
    )
    assert of_a(rows, CallType.STREAMING) == ProviderStats(
        "a",
        "Provider A",
        streaming_attempts=1,
        streaming_successes=1,
        streaming_success_rate=1.0,
        streaming_ttft_ms=30.0,
    )


def test_only_successes_whose_latency_is_known_enter_the_average() -> None:
    rows = [
        a_row(latency_ms=500.0),
        a_row(latency_ms=700.0),
        a_row(latency_ms=None),
        a_row(success=False, latency_ms=5.0),
    ]
    stats = of_a(rows)
    assert (stats.regular_attempts, stats.regular_successes, stats.regular_success_rate) == (4, 3, 0.75)
    assert stats.regular_latency_ms == 600.0


def test_failures_are_told_apart_and_never_weighted() -> None:
    faults = ["rate_limit", "rate_limit", "timeout", "server_error", None]
    long_ago = NOON - timedelta(hours=5)
    rows = [a_row(success=False, fault=fault, started_at=long_ago) for fault in faults]
    # What succeeded in the end is no error, whatever it says besides.
    rows.append(a_row(fault="rate_limit"))
    for half_life_hours in (None, 1.0):
        stats = of_a(rows, now=NOON, half_life_hours=half_life_hours)
        assert (stats.recent_error_count, stats.rate_limit_count, stats.timeout_count) == (5, 2, 1)


def test_a_row_weighs_half_after_each_half_life_and_nothing_after_six() -> None:
    def weight(age: timedelta) -> float:
        return of_a([a_row(started_at=NOON - age)], now=NOON, half_life_hours=2.0).regular_attempts

    assert weight(timedelta(0)) == 1.0
    assert weight(timedelta(hours=2)) == 0.5
    assert weight(timedelta(hours=3)) == pytest.approx(0.5**1.5, rel=1e-15)
    assert weight(timedelta(hours=12)) == 1 / 64
    assert weight(timedelta(hours=12, microseconds=1)) == 0.0
    # Clocks differ between machines.
    assert weight(timedelta(hours=-3)) == 1.0


def test_older_rows_count_for_less_in_rate_and_average() -> None:
    rows = [a_row(latency_ms=100.0), a_row(started_at=NOON - timedelta(hours=1), latency_ms=400.0)]
    rows.append(a_row(started_at=NOON - timedelta(hours=2), success=False))
    stats = of_a(rows, now=NOON, half_life_hours=1.0)
    assert stats.regular_success_rate == pytest.approx(1.5 / 1.75)
    assert stats.regular_latency_ms == pytest.approx((100 + 0.5 * 400) / 1.5)


def test_without_a_half_life_the_caller_chooses_the_time() -> None:
    ancient = a_row(started_at=datetime(1971, 1, 1, tzinfo=UTC))
    assert of_a([ancient]).regular_attempts == of_a([ancient], now=NOON).regular_attempts == 1
    assert of_a([ancient], now=NOON, half_life_hours=1e300).regular_attempts == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"half_life_hours": 1.0}, "now="),
        ({"half_life_hours": 0.0, "now": NOON}, "half_life_hours"),
        ({"half_life_hours": 1.0, "now": datetime(2026, 3, 1)}, "time zone"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        of_a([a_row()], **options)


def test_a_provider_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="once"):
        aggregate_stats([], [A, A], CallType.REGULAR)


def test_a_rate_is_never_above_one_by_rounding() -> None:
    rounded = ScoreAggregate(
        "a", attempt_weight=0.1, success_weight=0.1 + 2e-17, successful_latency_weight=0.0
    )
    assert stats_of(rounded, "A", CallType.REGULAR).regular_success_rate == 1.0


def test_sums_do_not_depend_on_the_order_of_rows() -> None:
    rows = [a_row(latency_ms=value) for value in (1e16, 1.0, 3.5, 1e-3, 7.25)]
    assert len({of_a(order).regular_latency_ms for order in permutations(rows)}) == 1


some_rows = st.lists(
    st.builds(
        a_row,
        started_at=st.integers(-(10**10), 4 * 10**10).map(lambda age: NOON - timedelta(microseconds=age)),
        metrics_scope=st.sampled_from(["app", "other"]),
        provider_id=st.sampled_from("ab"),
        model=st.sampled_from(["m", None]),
        protocol=st.sampled_from(["openai_chat", None]),
        call_type=st.sampled_from([*CallType]),
        success=st.sampled_from([True, True, False, None]),
        fault=st.sampled_from([None, "rate_limit", "timeout", "server_error"]),
        latency_ms=st.none() | st.floats(0, 1e6),
    ),
    max_size=12,
)
some_queries = st.builds(
    ScoreAggregateQuery,
    partitions=st.just(
        (Partition("b", None, None), Partition("a", "m", "openai_chat"), Partition("c", "m", None))
    ),
    call_type=st.sampled_from([*CallType]),
    since=st.sampled_from([NOON - timedelta(hours=hours) for hours in (0, 3, 100)]),
    reference=st.just(NOON),
    metrics_scope=st.sampled_from([None, "app", "nowhere"]),
    half_life_hours=st.none() | st.floats(0.01, 1e3),
)


@settings(max_examples=40)
@given(some_rows, some_queries)
def test_sums_are_those_of_exact_arithmetic(rows: list[Any], query: ScoreAggregateQuery) -> None:
    for partition, found in zip(query.partitions, aggregates_of(rows, query), strict=True):
        counted = [
            row
            for row in rows
            if (row.provider_id, row.model, row.protocol) == partition
            and row.call_type == query.call_type
            and row.success is not None
            and row.started_at >= query.since
            and (query.metrics_scope is None or row.metrics_scope == query.metrics_scope)
        ]
        good = [row for row in counted if row.success]
        timed = [row for row in good if row.latency_ms is not None]
        bad = [row.fault for row in counted if not row.success]

        def weight(row: Any) -> Fraction:
            hours = max((NOON - row.started_at) / timedelta(hours=1), 0.0)
            return Fraction(1.0 if query.half_life_hours is None else 2.0 ** -(hours / query.half_life_hours))

        sums = (
            sum(map(weight, counted)),
            sum(map(weight, good)),
            sum(map(weight, timed)),
            sum(weight(row) * Fraction(row.latency_ms) for row in timed),
        )
        counts = (len(bad), bad.count("rate_limit"), bad.count("timeout"))
        assert astuple(found)[1:5] == pytest.approx([float(exact) for exact in sums], rel=1e-12, abs=1e-290)
        assert astuple(found) == (partition.provider_id, *astuple(found)[1:5], *counts)


@settings(max_examples=40)
@given(some_rows, st.sampled_from([*CallType]), st.none() | st.floats(0.1, 1e3))
def test_stats_stay_within_what_they_are_made_of(
    rows: list[Any], call_type: CallType, half_life_hours: float | None
) -> None:
    stats = of_a(rows, call_type, now=NOON, half_life_hours=half_life_hours)
    regular = (
        stats.regular_attempts,
        stats.regular_successes,
        stats.regular_success_rate,
        stats.regular_latency_ms,
    )
    streaming = (
        stats.streaming_attempts,
        stats.streaming_successes,
        stats.streaming_success_rate,
        stats.streaming_ttft_ms,
    )
    filled, empty = (regular, streaming) if call_type is CallType.REGULAR else (streaming, regular)
    assert [*empty] == [0, 0, None, None]
    attempts, successes, rate, latency_ms = filled
    assert 0 <= successes <= attempts <= len(rows)
    assert (rate is None) == (not attempts)
    assert 0 <= (rate or 0) <= 1
    known = [row.latency_ms for row in rows if row.success and row.latency_ms is not None]
    if latency_ms is not None:
        assert math.nextafter(min(known) * (1 - 1e-12), -1) <= latency_ms <= max(known) * (1 + 1e-12)
    assert stats.rate_limit_count + stats.timeout_count <= stats.recent_error_count <= len(rows)
