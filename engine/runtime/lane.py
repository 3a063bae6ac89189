"""How many attempts may be in flight at one provider, and the line of those that wait."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from turnout.runtime.once import Once
from turnout.runtime.tokens import Tokens

_numbers = count()


class Claim:
    """One waiting walk's place in the lines of several lanes: the first token wins, once.

    ``wake`` is told the lane whose token was won, or None where the wait was given up. It must be short.
    """

    __slots__ = ("_once", "_wake", "number")

    def __init__(self, wake: "Callable[[Lane | None], None]") -> None:
        #: Who came first has the lowest.
        self.number = next(_numbers)
        self._once = Once()
        self._wake = wake

    @property
    def spent(self) -> bool:
        return self._once.spent

    def settle(self, lane: "Lane | None") -> bool:
        """Whether ``lane`` (or giving up) is what ends the wait."""
        if not self._once():
            return False
        self._wake(lane)
        return True


#: A line is swept of claims that were served elsewhere once it is this much longer than after the last sweep.
_SWEEP_AT: Final = 64


class Lane:
    """``width`` tokens and a line. Enrol first, then match; whoever gives a token back matches too, so that neither
    can miss the other. Newcomers do not pass those who wait. ``resize`` is for one thread at a time."""

    __slots__ = ("_line", "_owed", "_sweep_at", "_sweeping", "_tokens", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self._tokens = Tokens(width)
        #: What a lane that has become narrower is still to get back.
        self._owed = Tokens()
        self._line: deque[Claim] = deque()
        self._sweep_at = _SWEEP_AT
        self._sweeping = Tokens(1)

    @property
    def free(self) -> int:
        return len(self._tokens)

    @property
    def waiting(self) -> list[Claim]:
        """Who stands in line, first come first."""
        return [claim for claim in self._line.copy() if not claim.spent]

    def try_take(self) -> bool:
        """A token at once, unless others are waiting for one."""
        return not self._line and self._tokens.take()

    def give_back(self) -> None:
        """The attempt that it was taken for is over."""
        self._tokens.give()
        if not self._owed.empty():
            self._retire()
        if self._line:
            self.match()

    def put_back(self) -> None:
        """The attempt that it was taken for is not made."""
        self.give_back()

    def resize(self, width: int) -> None:
        """Growing gives tokens at once; shrinking retires those that are free, the others as they come back."""
        change, self.width = width - self.width, width
        for _ in range(change):
            if not self._owed.take():
                self._tokens.give()
        for _ in range(-change):
            self._owed.give()
        self._retire()
        self.match()

    def match(self) -> None:
        """Serve whom there is a token for."""
        self._serve()

    @property
    def rest_seconds(self) -> float:
        """Seconds until time alone lets the next attempt begin; infinite where time is not what it waits for."""
        return math.inf

    def _serve(self) -> bool:
        """Give the line what there is; whether any of it came back at once."""
        came_back = False
        # Looking again after a token went back closes the gap in which an enroller saw neither token nor wait.
        while self._line and self._take():
            try:
                claim = self._line.popleft()
            except IndexError:
                self._unuse()
                came_back = True
                continue
            if not claim.settle(self):
                self._unuse()
                came_back = True
        return came_back

    def _take(self) -> bool:
        return self._tokens.take()

    def _unuse(self) -> None:
        """Undo ``_take``; whoever calls this looks at the line again."""
        self._tokens.give()
        if not self._owed.empty():
            self._retire()

    def _retire(self) -> None:
        # As with the line: who owes writes that first and then looks for tokens, who gives one looks then at what is
        # owed.
        while not self._owed.empty() and self._tokens.take():
            if not self._owed.take():
                self._tokens.give()

    def _enrol(self, claim: Claim) -> None:
        self._line.append(claim)
        if len(self._line) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """Take out the claims that other lanes served: a hanging provider's line would grow with every call."""
        if not self._sweeping.take():
            return
        try:
            # remove() finds by identity, keeps order, and tells when a match was quicker.
            for claim in [claim for claim in self._line.copy() if claim.spent]:
                try:
                    self._line.remove(claim)
                except ValueError:
                    continue
            self._sweep_at = 2 * len(self._line) + _SWEEP_AT
        finally:
            self._sweeping.give()


def enrol(claim: Claim, lanes: Sequence[Lane]) -> None:
    """Stand in every line at once."""
    for lane in lanes:
        lane._enrol(claim)
    for lane in lanes:
        lane.match()
