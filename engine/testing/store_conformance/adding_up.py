"""The sums for scores are those that plain Python makes of the same rows, to a billionth."""

import math
import random
from dataclasses import fields
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest

from turnout.calls import CallType
from turnout.decisions.aggregates import (
    HALF_LIVES,
    Partition,
    ScoreAggregate,
    ScoreAggregateQuery,
    checked_aggregates,
)
from turnout.decisions.stats import aggregate_stats, aggregates_of, stats_of
from turnout.storage.contract import MetricsStore
from turnout.testing.store_conformance.fixtures import OfOneStore
from turnout.testing.store_conformance.histories import (
    APP,
    MICROSECOND,
    NOON,
    PARTITION,
    PARTITIONS,
    SINCE,
    a_history,
    a_success,
    questions,
)

_BILLIONTH: Final = 1e-9
#: Weights under this are of no account, and databases end them where they like.
_NOTHING: Final = 1e-200


def _assert_equal(found: list[ScoreAggregate], expected: list[ScoreAggregate]) -> None:
    assert [one.provider_id for one in found] == [one.provider_id for one in expected]
    for sums, exact in zip(found, expected, strict=True):
        for field in fields(ScoreAggregate)[1:]:
            value, wanted = getattr(sums, field.name), getattr(exact, field.name)
            told = f"{field.name} of {exact.provider_id!r} is {value!r}, not {wanted!r}"
            if field.type is int:
                assert value == wanted, told
            else:
                assert math.isclose(value, wanted, rel_tol=_BILLIONTH, abs_tol=_NOTHING), told


def _ask(store: MetricsStore, **asked: Any) -> ScoreAggregate:
    known = {"partitions": (PARTITION,), "call_type": CallType.REGULAR, "since": SINCE, "reference": NOON}
    (found,) = store.query_score_aggregates(ScoreAggregateQuery(**{**known, **asked}))
    return found


class AddingUp(OfOneStore):
    """Tests of ``query_score_aggregates``."""

    @pytest.mark.parametrize("seed", range(2))
    def test_any_history_adds_up_as_plain_python_has_it(self, store: MetricsStore, seed: int) -> None:
        rows = a_history(random.Random(seed), 300)
        store.record_attempts(rows[:100])
        store.record_attempts(rows[100:])
        for query in questions():
            found = store.query_score_aggregates(query)
            checked_aggregates(query, found)
            _assert_equal(found, aggregates_of(rows, query))

    def test_stats_of_its_sums_are_the_stats_of_its_rows(self, store: MetricsStore) -> None:
        store.record_attempts(a_history(random.Random("stats"), 200))
        half_life_hours = 5.0
        since = NOON - timedelta(hours=HALF_LIVES * half_life_hours)
        rows = store.query_recent(since=since, metrics_scope=APP)
        providers = [SimpleNamespace(**one._asdict(), name=one.provider_id.upper()) for one in PARTITIONS]
        for call_type in CallType:
            query = ScoreAggregateQuery(PARTITIONS, call_type, since, NOON, APP, half_life_hours)
            expected = aggregate_stats(rows, providers, call_type, now=NOON, half_life_hours=half_life_hours)
            for sums, (provider_id, exact) in zip(
                store.query_score_aggregates(query), expected.items(), strict=True
            ):
                found = stats_of(sums, provider_id.upper(), call_type)
                for field in fields(exact):
                    value = getattr(exact, field.name)
                    close = pytest.approx(value, rel=_BILLIONTH) if isinstance(value, float) else value
                    assert getattr(found, field.name) == close, field.name

    def test_every_provider_asked_for_gets_one_answer_in_the_order_of_asking(
        self, store: MetricsStore
    ) -> None:
        store.record_attempts([a_success(), a_success(provider_id="b")])
        asked = [Partition("none", None, None), PARTITION._replace(provider_id="b"), PARTITION]
        for partitions in (asked, asked[::-1]):
            found = store.query_score_aggregates(
                ScoreAggregateQuery(tuple(partitions), CallType.REGULAR, SINCE, NOON)
            )
            assert [one.provider_id for one in found] == [one.provider_id for one in partitions]
            assert [one.attempt_weight for one in found] == [one.provider_id != "none" for one in partitions]

    def test_no_history_is_zeros_and_no_question_nothing(self, store: MetricsStore) -> None:
        assert store.query_score_aggregates(ScoreAggregateQuery((), CallType.REGULAR, SINCE, NOON)) == []
        assert _ask(store) == _ask(store, half_life_hours=1.0) == ScoreAggregate(PARTITION.provider_id)

    def test_a_fleet_is_asked_for_at_once(self, store: MetricsStore) -> None:
        fleet = tuple(Partition(f"'; --{number}", f"model {number}", None) for number in range(500))
        store.record_attempts([a_success(**fleet[number]._asdict()) for number in (0, 77, 77, 499)])
        found = store.query_score_aggregates(ScoreAggregateQuery(fleet, CallType.REGULAR, SINCE, NOON))
        assert [one.provider_id for one in found] == [one.provider_id for one in fleet]
        weights = {place: one.attempt_weight for place, one in enumerate(found) if one.attempt_weight}
        assert weights == {0: 1.0, 77: 2.0, 499: 1.0}

    def test_a_row_of_the_very_time_asked_for_counts_and_an_earlier_one_does_not(
        self, store: MetricsStore
    ) -> None:
        store.record_attempts([a_success(started_at=SINCE), a_success(started_at=SINCE - MICROSECOND)])
        assert _ask(store).attempt_weight == 1.0

    def test_what_was_ignored_says_nothing(self, store: MetricsStore) -> None:
        store.record_attempts([a_success(success=None, outcome="ignored", fault="cancelled")])
        assert _ask(store) == ScoreAggregate(PARTITION.provider_id)

    def test_without_a_model_or_protocol_means_rows_without_them_only(self, store: MetricsStore) -> None:
        store.record_attempts([a_success(), a_success(model=None), a_success(model=None, protocol=None)])
        for partition in (PARTITION, Partition("eu-1", None, "openai_chat"), Partition("eu-1", None, None)):
            assert _ask(store, partitions=(partition,)).attempt_weight == 1.0, partition

    def test_only_the_scope_asked_for_counts_and_every_one_where_none_is(self, store: MetricsStore) -> None:
        store.record_attempts([a_success(), a_success(metrics_scope="other")])
        weights = [_ask(store, metrics_scope=scope).attempt_weight for scope in (APP, "none", None)]
        assert weights == [1.0, 0.0, 2.0]

    def test_an_average_knows_only_successes_whose_latency_is_known(self, store: MetricsStore) -> None:
        store.record_attempts(
            [
                a_success(latency_ms=500.0),
                a_success(latency_ms=0.0),
                a_success(latency_ms=None),
                a_success(success=False, outcome="failed", fault="timeout", latency_ms=7.0),
                a_success(success=False, outcome="failed", fault="rate_limit", latency_ms=None),
                a_success(success=False, outcome="invalid", fault=None),
            ]
        )
        assert _ask(store) == ScoreAggregate(PARTITION.provider_id, 6.0, 3.0, 2.0, 500.0, 3, 1, 1)

    def test_a_row_weighs_half_after_each_half_life_and_one_after_the_reference(
        self, store: MetricsStore
    ) -> None:
        for age, weight in ((1, 0.5), (3, 0.125), (0, 1.0), (-5, 1.0)):
            one = PARTITION._replace(provider_id=f"aged {age}")
            store.record_attempts(
                [a_success(provider_id=one.provider_id, started_at=NOON - timedelta(hours=2 * age))]
            )
            found = _ask(store, partitions=(one,), half_life_hours=2.0)
            expected = ScoreAggregate(one.provider_id, weight, weight, weight, weight * 100.0)
            _assert_equal([found], [expected])

    def test_rows_of_thousands_of_half_lives_ago_weigh_nothing_and_are_counted(
        self, store: MetricsStore
    ) -> None:
        failed = {"success": False, "outcome": "failed", "fault": "rate_limit"}
        rows = [a_success(started_at=SINCE, **changed) for changed in ({}, failed, failed)]
        store.record_attempts(rows)
        found = _ask(store, half_life_hours=0.01)
        _assert_equal([found], [ScoreAggregate(PARTITION.provider_id, 0.0, 0.0, 0.0, 0.0, 2, 2)])

    def test_a_replayed_row_is_counted_once(self, store: MetricsStore) -> None:
        row = a_success()
        for _ in range(3):
            store.record_attempts([row, row])
        assert _ask(store).attempt_weight == 1.0
