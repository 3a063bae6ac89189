"""A question about providers' sums, and which answers to it can be believed: all of one, or nothing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout import CallType, ConfigError, Partition, ScoreAggregate, ScoreAggregateQuery, StorageError
from turnout.decisions.aggregates import checked_aggregates

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEIGHTS = ["attempt_weight", "success_weight", "successful_latency_weight", "successful_latency_total_ms"]
COUNTS = ["recent_error_count", "rate_limit_count", "timeout_count"]


def a_query(ids: Sequence[str], **asked: Any) -> ScoreAggregateQuery:
    known = {"call_type": CallType.REGULAR, "since": NOON, "reference": NOON}
    return ScoreAggregateQuery(tuple(Partition(one, "m", None) for one in ids), **{**known, **asked})


@st.composite
def sound_aggregates(draw: Callable[[st.SearchStrategy[Any]], Any], provider_id: str) -> ScoreAggregate:
    share = st.floats(0, 1)
    attempts = draw(st.floats(0, 1e9))
    successes = attempts * draw(share)
    timed = successes * draw(share)
    errors = draw(st.integers(0, 10**6))
    rate_limits = draw(st.integers(0, errors))
    return ScoreAggregate(
        provider_id,
        attempts,
        successes,
        timed,
        timed * draw(st.floats(0, 1e6)),
        errors,
        rate_limits,
        draw(st.integers(0, errors - rate_limits)),
    )


@st.composite
def answers(
    draw: Callable[[st.SearchStrategy[Any]], Any],
) -> tuple[ScoreAggregateQuery, list[ScoreAggregate]]:
    """A question about a few providers, and a sound answer in any order."""
    ids = ["a", "b", "'"][: draw(st.integers(1, 3))]
    answer = [draw(sound_aggregates(one)) for one in ids]
    return a_query(ids), answer[:: draw(st.sampled_from([1, -1]))]


def is_refused(query: ScoreAggregateQuery, answer: object) -> bool:
    try:
        checked_aggregates(query, answer)
    except StorageError:
        return True
    return False


@settings(max_examples=40)
@given(answers())
def test_a_sound_answer_is_believed_in_any_order(
    asked: tuple[ScoreAggregateQuery, list[ScoreAggregate]],
) -> None:
    query, answer = asked
    expected = {one.provider_id: one for one in answer}
    assert checked_aggregates(query, answer) == checked_aggregates(query, iter(answer)) == expected


NO_NUMBERS: list[Any] = [None, "1", Decimal(1), math.nan, math.inf, -math.inf, -1]


@settings(max_examples=15)
@given(answers(), st.data())
def test_one_aggregate_that_cannot_be_costs_the_whole_answer(
    asked: tuple[ScoreAggregateQuery, list[ScoreAggregate]], data: st.DataObject
) -> None:
    query, answer = asked
    place = data.draw(st.integers(0, len(answer) - 1))
    one = answer[place]
    changes: list[dict[str, Any]] = [
        {"success_weight": one.attempt_weight * 1.001 + 1e-3},
        {"successful_latency_weight": one.success_weight * 1.001 + 1e-3},
        {"successful_latency_weight": 0.0, "successful_latency_total_ms": 1.0},
        {"rate_limit_count": one.recent_error_count - one.timeout_count + 1},
        {"timeout_count": one.recent_error_count - one.rate_limit_count + 1},
        *({name: 0.5} for name in COUNTS),
        *({name: value} for name in [*WEIGHTS, *COUNTS] for value in NO_NUMBERS),
    ]
    for change in changes:
        changed = [*answer[:place], replace(one, **change), *answer[place + 1 :]]
        assert is_refused(query, changed), change


@settings(max_examples=15)
@given(answers(), st.data())
def test_one_aggregate_too_few_or_too_many_costs_the_whole_answer(
    asked: tuple[ScoreAggregateQuery, list[ScoreAggregate]], data: st.DataObject
) -> None:
    query, answer = asked
    place = data.draw(st.integers(0, len(answer) - 1))
    assert is_refused(query, answer[:place] + answer[place + 1 :])
    assert is_refused(query, [*answer, answer[place]])
    assert is_refused(query, [*answer, replace(answer[place], attempt_weight=1.0)])
    assert is_refused(query, [*answer, ScoreAggregate("nobody asked")])
    assert is_refused(query, [*answer[:place], ScoreAggregate("nobody asked"), *answer[place + 1 :]])


@pytest.mark.parametrize("answer", [None, 7, "a", [None], [("a", 1.0)], {"a": ScoreAggregate("a")}], ids=repr)
def test_what_is_no_list_of_aggregates_is_refused(answer: object) -> None:
    assert is_refused(a_query(["a"]), answer)


def test_sums_may_differ_by_the_order_of_adding() -> None:
    rounded = ScoreAggregate("a", 1e6, 1e6 * (1 + 1e-10), 1e6 * (1 + 2e-10), 5.0)
    assert checked_aggregates(a_query(["a"]), [rounded]) == {"a": rounded}


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ([], "nothing of a, b"),
        ([ScoreAggregate("a"), ScoreAggregate("a")], "'a' twice"),
        ([ScoreAggregate("c")], "'c', which was not asked for"),
        ([ScoreAggregate("a", attempt_weight=-1.0)], "attempt_weight of 'a' cannot be: -1.0"),
        ([ScoreAggregate("a", timeout_count=2)], "recent_error_count of 'a' cannot be: 0"),
    ],
    ids=["missing", "duplicate", "unasked", "negative", "inconsistent"],
)
def test_the_error_says_what_is_wrong_with_whom(broken: list[ScoreAggregate], told: str) -> None:
    with pytest.raises(StorageError, match=told):
        checked_aggregates(a_query(["a", "b"]), broken)


@pytest.mark.parametrize(
    "asked",
    [
        {"ids": ["a", "b", "a"]},
        {"since": datetime(2026, 1, 1)},
        {"reference": datetime(2026, 1, 1)},
        {"half_life_hours": 0.0},
        {"half_life_hours": -1.0},
        {"half_life_hours": math.nan},
        {"half_life_hours": math.inf},
    ],
    ids=str,
)
def test_a_question_that_cannot_be_meant_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        a_query(**{"ids": ["a"], **asked})


def test_the_sums_are_what_their_checks_are_of() -> None:
    assert [field.name for field in fields(ScoreAggregate)] == ["provider_id", *WEIGHTS, *COUNTS]
