"""Exact percentiles of numbers that take eight bytes each."""

from array import array
from bisect import bisect_right
from math import inf, nextafter
from typing import Final

#: A list of so many floats, which is what Python sorts, takes two megabytes.
_RUN: Final = 65_536


def sort_by_runs(values: "array[float]") -> None:
    """Sort every 65,536 of ``values`` among themselves, in place, as ``nearest_rank`` needs them. Sorted all at once,
    each would take 32 bytes more for that time."""
    for start in range(0, len(values), _RUN):
        values[start : start + _RUN] = array("d", sorted(values[start : start + _RUN]))


def nearest_rank(values: "array[float]", percent: int) -> float | None:
    """The smallest of ``values`` that at least ``percent`` (1 to 100) of a hundred of them do not exceed; None where
    there are none. They are sorted by runs, finite, and not below 0."""
    if not values:
        return None
    rank = -(-percent * len(values) // 100)
    starts = range(0, len(values), _RUN)
    ends = [min(start + _RUN, len(values)) for start in starts]
    low = min(values[start] for start in starts)
    high = max(values[end - 1] for end in ends)
    # Halving what lies between finds the very number: there are finitely many floats, and only at one of the values
    # does the count of those that are not above it change.
    while low < high:
        middle = min(low + (high - low) / 2, nextafter(high, -inf))
        up_to = sum(
            bisect_right(values, middle, start, end) - start for start, end in zip(starts, ends, strict=True)
        )
        if up_to >= rank:
            high = middle
        else:
            low = nextafter(middle, inf)
    return high
