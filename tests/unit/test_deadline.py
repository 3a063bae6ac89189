"""When an attempt must end."""

import math

from hypothesis import given
from hypothesis import strategies as st

from turnout.deadline import FOREVER_SECONDS, Limit
from turnout.testing import ManualClock

seconds = st.floats(min_value=0.0, max_value=1e6)


@given(seconds, st.lists(st.tuples(seconds, seconds), max_size=5))
def test_a_limit_is_moved_as_often_as_wanted_and_never_past_its_deadline(
    latest: float, moves: list[tuple[float, float]]
) -> None:
    clock = ManualClock()
    limit = Limit(0.0, clock, latest)
    for passed, more in moves:
        clock.advance(passed)
        limit.extend(more)
        assert limit.until == min(clock.monotonic() + more, latest)
        assert 0.0 <= limit.remaining() <= FOREVER_SECONDS


def test_a_limit_without_a_deadline_goes_where_it_is_moved() -> None:
    clock = ManualClock()
    limit = Limit(1.0, clock)
    assert limit.latest == math.inf
    clock.advance(5.0)
    assert limit.expired()
    limit.extend(3.0)
    assert limit.until == clock.monotonic() + 3.0


def test_a_reason_is_kept_whichever_comes_first_the_cut_or_its_hook() -> None:
    heard: list[str] = []
    early, late = Limit(1.0, ManualClock()), Limit(1.0, ManualClock())
    early.cut("cancelled")
    early.on_cut(lambda: heard.append("early"))
    late.on_cut(lambda: heard.append("late"))
    late.cut("deadline")
    late.cut("cancelled")
    assert (early.reason, late.reason, heard) == ("cancelled", "deadline", ["early", "late", "late"])
