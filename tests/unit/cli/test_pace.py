"""The rate and the time left, by a clock that stands still until it is told."""

from turnout.cli.pace import Pace
from turnout.testing import ManualClock


def test_there_is_no_rate_before_anything_was_done() -> None:
    clock = ManualClock()
    pace = Pace(clock.monotonic)
    clock.advance(10)
    assert pace.per_second() is None
    assert pace.told(100) == ""


def test_the_rate_and_the_time_left_follow_from_what_was_done() -> None:
    clock = ManualClock()
    pace = Pace(clock.monotonic)
    for _ in range(20):
        clock.advance(0.5)
        pace.step()
    assert pace.elapsed_seconds == 10.0
    assert pace.per_second() == 2.0
    assert pace.told(7322) == "2.0/s, 1:01:01 left"
    assert pace.told(None) == "2.0/s"


def test_only_the_last_half_minute_counts() -> None:
    clock = ManualClock()
    pace = Pace(clock.monotonic)
    for _ in range(100):
        clock.advance(1)
        pace.step()
    for _ in range(40):
        clock.advance(1)
        for _ in range(5):
            pace.step()
    rate = pace.per_second()
    assert rate is not None
    assert 4.8 < rate < 5.2


def test_a_standstill_lowers_the_rate() -> None:
    clock = ManualClock()
    pace = Pace(clock.monotonic)
    for _ in range(10):
        clock.advance(1)
        pace.step()
    clock.advance(10)
    assert pace.per_second() == 0.5


def test_a_burst_in_no_time_has_no_rate_yet() -> None:
    pace = Pace(ManualClock().monotonic)
    pace.step()
    assert pace.per_second() is None
