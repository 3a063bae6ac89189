"""What follows an attempt."""

import pytest

from turnout.calls import Outcome, StreamFailurePolicy
from turnout.decisions.walk import Next, StreamEnd, StreamSoFar, after_attempt, stream_outcome
from turnout.faults import FAULTS, Fault, Then

RESTART, RAISE = StreamFailurePolicy.RESTART, StreamFailurePolicy.RAISE


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_before_a_stream_goes_where_its_table_row_says(fault: Fault) -> None:
    follows = after_attempt(Outcome.FAILED, fault, None)
    assert follows is (Next.FAIL_OVER if FAULTS[fault].then is Then.NEXT else Next.STOP)


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


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (StreamEnd(3, True, True, 0.1), Outcome.OK),
        (StreamEnd(3, False, True, 0.1), Outcome.FAILED),
        (StreamEnd(0, True, False, None), Outcome.FAILED),
        (StreamEnd(3, True, True, 0.1, closed=True), Outcome.OK),
        (StreamEnd(2, False, True, 0.1, closed=True), Outcome.IGNORED),
        (StreamEnd(0, False, False, None, closed=True), Outcome.IGNORED),
        (StreamEnd(3, True, True, 0.1, error=OSError()), Outcome.FAILED),
    ],
)
def test_only_the_providers_end_mark_makes_a_stream_whole(end: StreamEnd, outcome: Outcome) -> None:
    assert stream_outcome(end) is outcome
