"""Totals in memory: what a store would sum up, kept by single attempts, over months and whatever the clock does."""

import math
from collections.abc import Iterable
from dataclasses import astuple
from datetime import datetime
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.calls import EPOCH, MICROSECOND, CallType
from turnout.decisions.aggregates import Partition, ScoreAggregate, ScoreAggregateQuery
from turnout.decisions.stats import aggregates_of
from turnout.decisions.totals import BUCKETS, Evidence, Totals, Window, evidence_of
from turnout.faults import Fault

HOUR = 3600.0
NOW = 1_700_000_000.0
FLAT = Window(336.0 * HOUR)
FADING = Window(6 * 72.0 * HOUR, 72.0 * HOUR)


class Seen(NamedTuple):
    success: bool
    latency_ms: float | None
    fault: Fault | None
    started_at: float


def told_at(seconds: float) -> datetime:
    return EPOCH + round(seconds * 1e6) * MICROSECOND


def summed(seen: Iterable[Seen], window: Window, since: float, at: float) -> ScoreAggregate:
    """What a store would say, by the plain reference."""
    half_life = window.half_life_seconds
    query = ScoreAggregateQuery(
        (Partition("p", None, None),),
        CallType.REGULAR,
        told_at(since),
        told_at(at),
        half_life_hours=None if half_life is None else half_life / HOUR,
    )
    rows = [
        SimpleNamespace(
            **one._asdict() | {"started_at": told_at(one.started_at)},
            provider_id="p",
            model=None,
            protocol=None,
            metrics_scope="here",
            call_type=CallType.REGULAR,
        )
        for one in seen
    ]
    (aggregate,) = aggregates_of(cast(Any, rows), query)
    return aggregate


def same(found: ScoreAggregate, expected: ScoreAggregate) -> bool:
    return astuple(found)[1:] == pytest.approx(astuple(expected)[1:], rel=1e-9, abs=1e-9)


WINDOWS = st.one_of(
    st.floats(HOUR, 5000 * HOUR).map(Window),
    st.floats(HOUR, 5000 * HOUR).map(lambda half_life: Window(6 * half_life, half_life)),
)


def attempts(least: float, most: float, at_most: int = 40) -> st.SearchStrategy[list[Seen]]:
    """Attempts that started within these parts of a window, before (below 0) or after an instant."""
    one = st.builds(
        lambda success, latency_ms, fault, part: Seen(success, latency_ms, None if success else fault, part),
        st.booleans(),
        st.none() | st.floats(0.0, 1e9),
        st.sampled_from([Fault.RATE_LIMIT, Fault.TIMEOUT, Fault.SERVER_ERROR, None]),
        st.floats(least, most),
    )
    return st.lists(one, max_size=at_most)


def placed(parts: Iterable[Seen], window: Window) -> list[Seen]:
    return [one._replace(started_at=NOW + one.started_at * window.seconds) for one in parts]


@given(WINDOWS, attempts(-0.99, 0.0), attempts(-0.01, 0.007), st.floats(0.0, 1.0))
def test_within_a_bucket_of_the_stores_answer_the_totals_are_what_the_store_would_say(
    window: Window, before: list[Seen], since: list[Seen], later: float
) -> None:
    known, new = placed(before, window), placed(since, window)
    at = NOW + (0.007 + later * 0.0008) * window.seconds
    totals = Totals(window, summed(known, window, NOW - window.seconds, NOW), NOW)
    for one in new:
        totals.observe(*one)

    assert same(totals.aggregate(at), summed([*known, *new], window, at - window.seconds, at))
    assert totals.evidence(at) == evidence_of(totals.aggregate(at))


@given(WINDOWS, st.lists(st.tuples(attempts(0.0, 0.0, 1), st.floats(0.0, 0.6)), max_size=60))
def test_an_attempt_counts_until_the_window_has_left_its_bucket(
    window: Window, steps: list[tuple[list[Seen], float]]
) -> None:
    totals, seen, at = Totals.empty(window, "p", NOW), list[Seen](), NOW
    width = window.bucket_seconds
    for new, part in steps:
        at += part * window.seconds
        for one in new:
            # It began a while before it is over.
            seen.append(one._replace(started_at=at - width * part))
            totals.observe(*seen[-1])
        oldest = math.floor((at - window.seconds) / width)
        inside = [one for one in seen if math.floor(one.started_at / width) >= oldest]
        assert same(totals.aggregate(at), summed(inside, window, 0.0, at))


def test_a_huge_latency_leaves_no_trace_once_it_is_out_of_the_window() -> None:
    with_it, without = (Totals.empty(FLAT, "p", NOW) for _ in range(2))
    with_it.observe(True, 1e300, None, NOW)
    for day in range(1, 40):
        for totals in (with_it, without):
            totals.observe(True, 0.1 * day, None, NOW + day * 24 * HOUR)
    at = NOW + 39 * 24 * HOUR
    assert with_it.aggregate(at) == without.aggregate(at)
    assert with_it.evidence(at).latency_ms == pytest.approx(0.1 * sum(range(25, 40)) / 15)


@pytest.mark.parametrize("between", [0.5, 300.0, 1e7])
def test_fading_weights_stay_sound_over_any_number_of_half_lives(between: float) -> None:
    half_life, share = 72.0 * HOUR, 0.5**between
    steady = sum(share**age for age in range(13) if age * between <= 6.0)
    totals = Totals.empty(FADING, "p", NOW)
    for step in range(1200):
        at = NOW + step * between * half_life
        totals.observe(True, 100.0, None, at)
        if step > 12:
            assert totals.evidence(at) == pytest.approx(Evidence(steady, steady, 100.0), rel=1e-9)


def test_what_the_store_knew_goes_evenly_while_it_is_not_heard_of() -> None:
    known = ScoreAggregate("p", 256.0, 128.0, 128.0, 12_800.0, 128, 64, 32)
    totals = Totals(FLAT, known, NOW)
    half = totals.aggregate(NOW + FLAT.seconds / 2)
    assert half == ScoreAggregate("p", 128.0, 64.0, 64.0, 6_400.0, 64, 32, 16)
    # However it goes, what is left is as good as it was.
    assert totals.evidence(NOW + FLAT.seconds / 2).latency_ms == 100.0
    assert totals.aggregate(NOW + FLAT.seconds) == ScoreAggregate("p")


def test_what_the_store_knew_fades_by_its_half_life_and_ends_after_six() -> None:
    totals = Totals(FADING, ScoreAggregate("p", 64.0, 32.0, 32.0, 3_200.0, 10, 5, 5), NOW)
    assert totals.evidence(NOW + 72 * HOUR) == pytest.approx(Evidence(32.0, 16.0, 100.0))
    assert totals.evidence(NOW + 5 * 72 * HOUR) == pytest.approx(Evidence(2.0, 1.0, 100.0))
    assert totals.aggregate(NOW + 6 * 72 * HOUR) == ScoreAggregate("p")


@pytest.mark.parametrize("window", [FLAT, FADING])
@pytest.mark.parametrize("back", [60.0, 100 * FLAT.seconds])
def test_a_clock_that_is_set_back_takes_what_was_learnt_along(window: Window, back: float) -> None:
    totals = Totals.empty(window, "p", NOW)
    totals.observe(True, 100.0, None, NOW)
    before = totals.evidence(NOW + HOUR)

    assert totals.evidence(NOW + HOUR - back) == before
    # From there on it ages as ever, and learns.
    later = totals.evidence(NOW + 2 * HOUR - back)
    assert later.attempts == (1.0 if window is FLAT else pytest.approx(0.5 ** (2 / 72)))
    totals.observe(False, None, Fault.TIMEOUT, NOW + 2 * HOUR - back)
    assert totals.evidence(NOW + 2 * HOUR - back).attempts == pytest.approx(later.attempts + 1.0)
    assert totals.evidence(NOW + 2 * HOUR - back + 1.01 * window.seconds).attempts == 0.0


def test_one_that_began_before_the_window_teaches_nothing() -> None:
    totals = Totals.empty(FLAT, "p", NOW)
    totals.observe(True, 100.0, None, NOW - 1.01 * FLAT.seconds)
    assert totals.aggregate(NOW) == ScoreAggregate("p")


@pytest.mark.parametrize("window", [FLAT, FADING])
@pytest.mark.parametrize("buckets", [0.3, 1.0, 1000.0])
def test_what_is_kept_has_a_bound(window: Window, buckets: float) -> None:
    totals: Any = Totals.empty(window, "p", NOW)
    for step in range(1000):
        totals.observe(True, 1.0, None, NOW + step * buckets * window.bucket_seconds)
    assert len(totals._buckets) <= BUCKETS + 1


def test_successes_are_never_more_than_attempts() -> None:
    # By a rounding, as sums of weights in another order may differ.
    assert evidence_of(ScoreAggregate("p", 1.0, 1.0 + 1e-12)).successes == 1.0
