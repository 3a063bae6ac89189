"""For how long rows wait in memory while a store takes its time."""

from typing import Any

import pytest

from turnout.actors.errands import LetGo, Record
from turnout.actors.patience import Patience


def batch(rows: int) -> Record:
    of: Any = range(rows)
    return Record(of)


def test_rows_wait_one_flush_interval_for_a_store_that_was_never_written_to() -> None:
    assert Patience(0.05).seconds(batch(10)) == 0.05


def test_the_opening_of_the_database_says_nothing_of_its_writes() -> None:
    patience = Patience(0.05)
    patience.written(1.9)
    assert patience.seconds(batch(10)) == 0.05


def test_a_large_batch_is_given_its_time() -> None:
    assert Patience(0.05).seconds(batch(5_000)) == pytest.approx(0.25)


def test_a_store_that_always_takes_long_is_given_four_times_as_long_and_two_seconds_at_most() -> None:
    patience = Patience(0.05)
    for _ in range(2):
        patience.written(0.1)
    assert patience.seconds(batch(10)) == pytest.approx(0.4)
    patience.written(9.0)
    assert patience.seconds(batch(10)) == 2.0


def test_what_it_took_once_is_forgotten_by_and_by() -> None:
    patience = Patience(0.05)
    for took in (0.01, 0.4, *[0.01] * 40):
        patience.written(took)
    assert patience.seconds(batch(10)) == 0.05


def test_only_a_write_is_given_more_than_a_flush_interval() -> None:
    patience = Patience(0.05)
    for _ in range(2):
        patience.written(1.0)
    assert patience.seconds(LetGo()) == 0.05


def test_a_flush_interval_of_minutes_is_kept() -> None:
    assert Patience(300.0).seconds(batch(10)) == 300.0
