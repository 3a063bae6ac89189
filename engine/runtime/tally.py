"""A number that many threads count up."""

from itertools import count


class Tally:
    """Counts without a lock: ``next`` of an ``itertools.count`` is one step that no thread can split."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = count()

    def add(self) -> None:
        next(self._count)

    @property
    def value(self) -> int:
        # Its repr, "count(n)", is the one way to look at a count without counting.
        return int(repr(self._count)[6:-1])
