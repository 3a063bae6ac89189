"""Many attempts side by side."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, overload

from turnout.calls import Attempt

#: How many values one attempt has.
WIDTH: Final = len(Attempt._fields)


class Attempts(Sequence[Attempt]):
    """Attempts as one flat list of their fields; an ``Attempt`` is made when it is asked for.

    A tuple for each would be one more object that the garbage collector looks through as long as it waits, on the time
    of whoever makes calls; numbers, texts and facts that all share are not.
    """

    __slots__ = ("values",)

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> "Attempts":
        if isinstance(attempts, Attempts):
            return attempts
        return cls([value for attempt in attempts for value in attempt])

    def __len__(self) -> int:
        return len(self.values) // WIDTH

    @overload
    def __getitem__(self, place: int) -> Attempt: ...
    @overload
    def __getitem__(self, place: slice) -> "Attempts": ...
    def __getitem__(self, place: int | slice) -> "Attempt | Attempts":
        if not isinstance(place, slice):
            start = range(len(self))[place] * WIDTH
            return Attempt._make(self.values[start : start + WIDTH])
        start, end, step = place.indices(len(self))
        if step == 1:
            return Attempts(self.values[start * WIDTH : end * WIDTH])
        return Attempts.of([self[one] for one in range(start, end, step)])

    def __iter__(self) -> Iterator[Attempt]:
        return map(Attempt._make, zip(*[iter(self.values)] * WIDTH, strict=True))
