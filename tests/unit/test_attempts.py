"""Attempts in one flat list are the attempts that were put there."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout import Attempt, CallType, Identity, Outcome, Reason
from turnout.attempts import WIDTH, Attempts

_BY = Identity("one", "One", "m", "openai_chat")


def _attempt(number: int) -> Attempt:
    return Attempt(
        2**100 + number,
        2**100,
        number,
        Reason.PRIMARY,
        _BY,
        CallType.REGULAR,
        1.5e9 + number,
        0.1,
        0.0,
        Outcome.OK,
        0,
    )


def test_what_is_read_is_what_was_put() -> None:
    some = [_attempt(number) for number in range(5)]
    flat = Attempts.of(some)
    assert (len(flat), list(flat), flat[0], flat[-1]) == (5, some, some[0], some[4])
    assert Attempts.of(flat) is flat
    with pytest.raises(IndexError):
        flat[5]


@given(st.slices(6))
def test_a_part_of_it_is_that_part_of_them(part: slice) -> None:
    some = [_attempt(number) for number in range(6)]
    assert list(Attempts.of(some)[part]) == some[part]


def test_a_thousand_that_wait_are_one_object_to_the_collector() -> None:
    values: list[object] = []
    gc.collect()
    before = len(gc.get_objects())
    for number in range(1_000):
        values.extend(_attempt(number))
    assert len(gc.get_objects()) - before < 100
    assert len(values) == 1_000 * WIDTH
