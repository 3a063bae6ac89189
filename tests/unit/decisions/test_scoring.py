"""Scores: what they are made from, their bounds, and what moves them which way."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout import CallType, ConfigError
from turnout.decisions.scoring import ProviderScore, ScoreWeights, score_of

DEFAULT = ScoreWeights()
SHARES = st.floats(0.0, 1.0)
LATENCIES = st.floats(0.0, 1e9)
WEIGHTS = st.builds(
    ScoreWeights,
    success_weight=st.floats(0.0, 1e6),
    speed_weight=st.floats(1e-6, 1e6),
    regular_latency_reference_ms=st.floats(1e-3, 1e6),
    streaming_ttft_reference_ms=st.floats(1e-3, 1e6),
    optimistic_start=SHARES,
    optimistic_start_pretend_attempts=st.floats(1e-6, 1e6),
)
ATTEMPTS = st.floats(0.0, 1e9)
CALL_TYPES = st.sampled_from(CallType)


def test_the_defaults_are_those_of_the_source() -> None:
    assert ScoreWeights(1.0, 1.0, 2000.0, 500.0, 0.75, 5.0) == DEFAULT


def test_who_was_never_tried_has_the_optimistic_start() -> None:
    assert score_of(0, 0, None, DEFAULT, CallType.REGULAR) == ProviderScore(0.75, 0.75, 0.75)


def test_attempts_outweigh_the_start_bit_by_bit() -> None:
    successes = [score_of(n, 0, None, DEFAULT, CallType.REGULAR).success_quality for n in (0, 5, 1_000_000)]
    assert successes == pytest.approx([0.75, 0.375, 0.0], abs=1e-5)


def test_streams_are_measured_against_a_reference_of_their_own() -> None:
    whole = score_of(1e12, 1e12, 2000.0, DEFAULT, CallType.REGULAR)
    stream = score_of(1e12, 1e12, 500.0, DEFAULT, CallType.STREAMING)
    assert whole.speed_quality == pytest.approx(0.5)
    assert stream.speed_quality == pytest.approx(0.5)


def test_successes_of_unknown_latency_are_no_speed() -> None:
    assert score_of(5, 5, None, DEFAULT, CallType.REGULAR).speed_quality == 0.375


@given(WEIGHTS, ATTEMPTS, SHARES, st.none() | LATENCIES, CALL_TYPES)
def test_every_score_is_between_0_and_1(
    weights: ScoreWeights, attempts: float, share: float, latency_ms: float | None, call_type: CallType
) -> None:
    score = score_of(attempts, attempts * share, latency_ms, weights, call_type)
    assert all(0.0 <= part <= 1.0 for part in score)


@given(WEIGHTS, ATTEMPTS, SHARES, st.none() | LATENCIES, CALL_TYPES)
def test_the_total_lies_between_what_it_is_made_from(
    weights: ScoreWeights, attempts: float, share: float, latency_ms: float | None, call_type: CallType
) -> None:
    score = score_of(attempts, attempts * share, latency_ms, weights, call_type)
    parts = (score.success_quality, score.speed_quality)
    assert min(parts) - 1e-12 <= score.total <= max(parts) + 1e-12


@given(WEIGHTS, ATTEMPTS, SHARES, LATENCIES, LATENCIES, CALL_TYPES)
def test_a_longer_latency_never_scores_higher(
    weights: ScoreWeights, attempts: float, share: float, one: float, other: float, call_type: CallType
) -> None:
    sooner, later = (
        score_of(attempts, attempts * share, latency_ms, weights, call_type)
        for latency_ms in sorted((one, other))
    )
    assert sooner.speed_quality >= later.speed_quality
    assert sooner.total >= later.total


@given(WEIGHTS, ATTEMPTS, SHARES, SHARES, st.none() | LATENCIES, CALL_TYPES)
def test_more_successes_of_as_many_attempts_are_a_better_success_quality(
    weights: ScoreWeights,
    attempts: float,
    one: float,
    other: float,
    latency_ms: float | None,
    call_type: CallType,
) -> None:
    fewer, more = (
        score_of(attempts, attempts * share, latency_ms, weights, call_type) for share in sorted((one, other))
    )
    assert fewer.success_quality <= more.success_quality


@given(WEIGHTS, ATTEMPTS, SHARES, SHARES, SHARES, CALL_TYPES)
def test_more_successes_never_lower_the_total_of_one_as_fast_as_the_start_or_faster(
    weights: ScoreWeights, attempts: float, one: float, other: float, lead: float, call_type: CallType
) -> None:
    speed = weights.optimistic_start + lead * (1.0 - weights.optimistic_start)
    latency_ms = weights.reference_ms(call_type) * (1.0 / speed - 1.0) if speed > 1e-9 else None
    fewer, more = (
        score_of(attempts, attempts * share, latency_ms, weights, call_type) for share in sorted((one, other))
    )
    assert more.total >= fewer.total - 1e-9


def test_more_successes_make_it_surer_that_a_slow_one_is_slow() -> None:
    once, often = (score_of(n, n, 60_000.0, DEFAULT, CallType.REGULAR) for n in (1, 100))
    assert once.speed_quality > often.speed_quality
    assert once.total > often.total


@pytest.mark.parametrize("field", ScoreWeights.__dataclass_fields__)
@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf, 10**400, True, "1", None])
def test_a_weight_that_is_no_number_within_its_range_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be a number"):
        ScoreWeights(**{field: wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"success_weight": 0.0, "speed_weight": 0},
        {"optimistic_start": 1.01},
        {"optimistic_start_pretend_attempts": 0.0},
        {"regular_latency_reference_ms": 0.0},
        {"streaming_ttft_reference_ms": 0},
    ],
)
def test_weights_of_which_no_score_can_be_made_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ScoreWeights(**wrong)


@pytest.mark.parametrize("edge", [{"success_weight": 0.0}, {"speed_weight": 0}, {"optimistic_start": 1}])
def test_weights_at_the_edge_of_their_range_are_taken(edge: dict[str, Any]) -> None:
    score = score_of(10, 7, 900.0, ScoreWeights(**edge), CallType.REGULAR)
    assert 0.0 < score.total < 1.0
