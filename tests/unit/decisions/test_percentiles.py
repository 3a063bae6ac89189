"""Percentiles by nearest rank, over any number of numbers."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.decisions import percentiles
from turnout.decisions.percentiles import nearest_rank, sort_by_runs


def ranked(values: list[float], percent: int) -> float | None:
    kept = array("d", values)
    sort_by_runs(kept)
    return nearest_rank(kept, percent)


def test_of_none_there_is_no_percentile() -> None:
    assert ranked([], 50) is None


def test_of_one_every_percentile_is_that_one() -> None:
    assert [ranked([3.5], percent) for percent in (1, 50, 95, 100)] == [3.5] * 4


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 15), (30, 20), (40, 20), (50, 35), (95, 50), (100, 50)]
)
def test_it_is_the_smallest_value_that_so_many_do_not_exceed(percent: int, expected: float) -> None:
    assert ranked([35, 20, 15, 50, 40], percent) == expected


def test_numbers_that_come_after_a_look_count_in_the_next() -> None:
    kept = array("d", [3.0, 1.0])
    sort_by_runs(kept)
    assert nearest_rank(kept, 50) == 1.0
    kept.extend([2.0, 0.5, 0.25])
    sort_by_runs(kept)
    assert nearest_rank(kept, 50) == 1.0
    assert nearest_rank(kept, 60) == 1.0
    assert nearest_rank(kept, 100) == 3.0


@given(st.lists(st.floats(0, allow_infinity=False, allow_nan=False), max_size=60), st.integers(1, 100))
def test_runs_of_any_size_give_what_one_sorted_list_gives(values: list[float], percent: int) -> None:
    expected = sorted(values)[-(-percent * len(values) // 100) - 1] if values else None
    assert ranked(values, percent) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(percentiles, "_RUN", 7)
        assert ranked(values, percent) == expected
