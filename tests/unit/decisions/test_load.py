"""Two at random, and what each costs: draws without a bias, latencies that rise at once and sink by time."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.decisions.load import MOST_DECAYS, Cost, after_answer, after_failure, comparable, drawn

TICKETS = st.integers(0, 2**63)
LATENCIES = st.floats(0.0, 1e6)
DECAYS = st.floats(0.01, 1e5)


@given(TICKETS, st.integers(2, 10_000))
def test_two_different_ones_are_drawn_of_those_there_are(ticket: int, among: int) -> None:
    one, other = drawn(ticket, among)
    assert one != other
    assert 0 <= min(one, other) <= max(one, other) < among
    assert drawn(ticket, among) == (one, other)


@pytest.mark.parametrize("among", [2, 3, 7, 10])
def test_tickets_in_a_row_draw_every_pair_as_often(among: int) -> None:
    rounds = 20_000
    pairs = Counter(drawn(ticket, among) for ticket in range(rounds))
    expected = rounds / (among * (among - 1))
    assert len(pairs) == among * (among - 1)
    # Six standard deviations.
    assert all(abs(count - expected) < 6 * math.sqrt(expected) for count in pairs.values())


@given(LATENCIES, LATENCIES, st.floats(0.0, 1e6), DECAYS)
def test_a_slower_answer_counts_at_once_and_a_quicker_one_never_below_itself(
    known: float, latency: float, seconds: float, decay: float
) -> None:
    cost = after_answer(Cost(known, 100.0), latency, 100.0 + seconds, decay)
    assert cost.at == 100.0 + seconds
    if latency > known:
        assert cost.latency == latency
    else:
        assert latency * (1 - 1e-12) <= cost.latency <= known * (1 + 1e-12)


def test_the_first_answer_is_all_that_is_known() -> None:
    assert after_answer(None, 0.3, 5.0, 10.0) == Cost(0.3, 5.0)


def test_after_a_decay_time_an_answer_counts_two_thirds() -> None:
    cost = after_answer(Cost(1.0, 0.0), 0.0, 10.0, 10.0)
    assert cost.latency == pytest.approx(math.exp(-1.0))
    assert cost.at == 10.0


@given(st.none() | st.builds(Cost, LATENCIES, st.just(0.0)), LATENCIES, st.floats(0.0, 1e6), DECAYS)
def test_a_failure_makes_nobody_cheaper(
    known: Cost | None, latency: float, seconds: float, decay: float
) -> None:
    after = after_failure(known, latency, seconds, decay)
    if known is None:
        assert after is None
    else:
        assert after is not None
        now = comparable(after, seconds, decay)
        assert now == pytest.approx(max(comparable(known, seconds, decay), latency))


@given(LATENCIES, LATENCIES, st.floats(0, 100), st.floats(0, 100), st.floats(1, 100), st.floats(0, 1e4))
def test_what_compares_one_way_does_so_at_any_time(
    one: float, other: float, one_at: float, other_at: float, decay: float, later: float
) -> None:
    first, second = (Cost(one, one_at), Cost(other, other_at))

    def now(cost: Cost) -> float:
        return cost.latency * math.exp(-(100.0 + later - cost.at) / decay)

    by_reference = comparable(first, 0.0, decay) - comparable(second, 0.0, decay)
    # Alike but for a rounding, and where both have sunk to nothing, no order is left to compare with.
    if abs(by_reference) > 1e-9 * comparable(first, 0.0, decay) and now(first) > 1e-300 < now(second):
        assert (by_reference > 0) == (now(first) > now(second))


def test_the_furthest_reference_is_not_too_far() -> None:
    assert comparable(Cost(1e6, MOST_DECAYS), 0.0, 1.0) < math.inf


def test_a_clock_that_stands_still_or_goes_back_is_no_time_at_all() -> None:
    assert after_answer(Cost(1.0, 10.0), 0.5, 9.0, 10.0) == Cost(1.0, 10.0)
