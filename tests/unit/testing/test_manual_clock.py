"""Time that only a test moves."""

from queue import Empty, SimpleQueue

import pytest

from turnout.testing import ManualClock


def test_an_advance_between_a_look_and_the_wait_that_follows_counts() -> None:
    clock, queue = ManualClock(), SimpleQueue[int]()
    left = 5.0 - clock.monotonic()
    clock.advance(5.0)
    with pytest.raises(Empty):
        clock.wait(queue, left)


def test_a_wait_counts_from_the_end_of_the_one_before() -> None:
    clock, queue = ManualClock(), SimpleQueue[int]()
    clock.monotonic()
    clock.advance(5.0)
    with pytest.raises(Empty):
        clock.wait(queue, 5.0)
    queue.put(7)
    assert clock.wait(queue, 5.0) == 7
