"""What follows an attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.calls import Outcome, StreamFailurePolicy
from turnout.decisions.walk import (
    Next,
    Size,
    StreamEnd,
    StreamSoFar,
    after_attempt,
    fault_for_circuit,
    may_hold_more,
    stream_outcome,
)
from turnout.faults import FAULTS, Failure, Fault, Then

RESTART, RAISE, HOLD = StreamFailurePolicy.RESTART, StreamFailurePolicy.RAISE, StreamFailurePolicy.HOLD


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_before_a_stream_goes_where_its_table_row_says(fault: Fault) -> None:
    follows = after_attempt(Outcome.FAILED, fault, None)
    after = {Then.NEXT: Next.FAIL_OVER, Then.LARGER: Next.FAIL_OVER_LARGER, Then.STOP: Next.STOP}
    assert follows is after[FAULTS[fault].then]


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.DEGRADED])
def test_an_answer_ends_the_walk(outcome: Outcome) -> None:
    assert after_attempt(outcome, None, None) is Next.ANSWER


def test_what_nobody_wants_any_more_stops_the_walk() -> None:
    assert after_attempt(Outcome.IGNORED, Fault.CANCELLED, None) is Next.STOP


@pytest.mark.parametrize(
    ("content", "policy", "announced", "follows"),
    [
        (False, RESTART, False, Next.FAIL_OVER),
        (True, RESTART, False, Next.RAISE),
        (True, RESTART, True, Next.FAIL_OVER),
        (False, RAISE, True, Next.RAISE),
        (True, RAISE, True, Next.RAISE),
        (False, HOLD, False, Next.FAIL_OVER),
        (False, HOLD, True, Next.FAIL_OVER),
        (True, HOLD, True, Next.RAISE),
    ],
)
def test_a_broken_stream_restarts_only_where_nothing_can_be_joined(
    content: bool, policy: StreamFailurePolicy, announced: bool, follows: Next
) -> None:
    so_far = StreamSoFar(content, policy, announced)
    assert after_attempt(Outcome.FAILED, Fault.STREAM_INTERRUPTED, so_far) is follows


def test_a_malformed_call_found_in_a_stream_is_never_hidden_behind_another_provider() -> None:
    so_far = StreamSoFar(False, RESTART, True)
    assert after_attempt(Outcome.FAILED, Fault.BAD_REQUEST, so_far) is Next.RAISE
    assert after_attempt(Outcome.FAILED, Fault.CONTENT_FILTER, so_far) is Next.RAISE


def test_a_request_that_is_found_too_long_in_a_stream_goes_to_a_larger_one_while_that_joins_nothing() -> None:
    before, after = StreamSoFar(False, RESTART, False), StreamSoFar(True, RESTART, False)
    assert after_attempt(Outcome.FAILED, Fault.CONTEXT_LENGTH, before) is Next.FAIL_OVER_LARGER
    assert after_attempt(Outcome.FAILED, Fault.CONTEXT_LENGTH, after) is Next.RAISE


@pytest.mark.parametrize(
    ("failed", "other", "may"),
    [
        (Size("m", 8_000), Size("n", 16_000), True),
        (Size("m", 8_000), Size("m", 16_000), True),
        (Size("m", 8_000), Size("n", 8_000), False),
        (Size("m", 16_000), Size("n", 8_000), False),
        (Size("m", 8_000), Size("n", None), True),
        (Size("m", 8_000), Size("m", None), False),
        (Size("m", None), Size("n", 8_000), True),
        (Size("m", None), Size("m", 8_000), False),
        (Size("m", None), Size("n", None), True),
        (Size("m", None), Size("m", None), False),
        (Size(None, None), Size(None, None), False),
    ],
)
def test_what_was_too_long_goes_to_a_larger_window_or_to_another_model_where_one_is_unknown(
    failed: Size, other: Size, may: bool
) -> None:
    assert may_hold_more(other, failed) is may


SIZES = st.builds(Size, st.sampled_from(["m", "n", "o"]), st.none() | st.sampled_from([4_000, 8_000, 16_000]))


@given(st.lists(SIZES, max_size=8))
def test_what_is_too_long_for_everyone_never_meets_the_same_size_twice(sizes: list[Size]) -> None:
    tried: list[Size] = []
    remaining = list(sizes)
    while remaining:
        failed = remaining.pop(0)
        tried.append(failed)
        remaining = [one for one in remaining if may_hold_more(one, failed)]
    assert len(set(tried)) == len(tried)
    capacities = [size.capacity for size in tried if size.capacity is not None]
    assert capacities == sorted(set(capacities))


@given(st.sampled_from(Fault), st.floats(0, 1e6), st.floats(0.001, 1e6))
def test_only_a_deadline_after_most_of_the_providers_own_time_is_told_as_its_timeout(
    fault: Fault, waited: float, timeout: float
) -> None:
    late = fault is Fault.DEADLINE and waited >= 0.8 * timeout
    assert fault_for_circuit(Failure(fault), waited, timeout) is (Fault.TIMEOUT if late else fault)


@given(st.floats(0, 1e6), st.floats(0.001, 1e6))
def test_a_timeout_that_the_caller_gave_is_the_providers_only_after_most_of_its_own_time(
    waited: float, timeout: float
) -> None:
    told = fault_for_circuit(Failure(Fault.TIMEOUT, by_caller=True), waited, timeout)
    assert told is (Fault.TIMEOUT if waited >= 0.8 * timeout else Fault.DEADLINE)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (StreamEnd(3, True, 3, 0.1), Outcome.OK),
        (StreamEnd(3, True, 0, 0.1), Outcome.OK),
        (StreamEnd(3, False, 3, 0.1), Outcome.FAILED),
        (StreamEnd(0, True, 0, None), Outcome.FAILED),
        (StreamEnd(3, True, 3, 0.1, closed=True), Outcome.OK),
        (StreamEnd(2, False, 2, 0.1, closed=True), Outcome.IGNORED),
        (StreamEnd(0, False, 0, None, closed=True), Outcome.IGNORED),
        (StreamEnd(3, True, 3, 0.1, error=OSError()), Outcome.FAILED),
    ],
)
def test_only_the_providers_end_mark_makes_a_stream_whole(end: StreamEnd, outcome: Outcome) -> None:
    assert stream_outcome(end) is outcome
