"""How many attempts may be in flight at one provider, and the line of those that wait."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from turnout.runtime.once import Once
from turnout.runtime.tokens import Tokens


class Claim:
    """One waiting walk's place in the lines of several lanes: the first token wins, once.

    ``wake`` is told the lane whose token was won, or None where the wait was given up. It must be short.
    """

    __slots__ = ("_once", "_wake")

    def __init__(self, wake: "Callable[[Lane | None], None]") -> None:
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
    can miss the other. Newcomers do not pass those who wait."""

    __slots__ = ("_line", "_sweep_at", "_sweeping", "_tokens", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self._tokens = Tokens(width)
        self._line: deque[Claim] = deque()
        self._sweep_at = _SWEEP_AT
        self._sweeping = Tokens(1)

    @property
    def free(self) -> int:
        return len(self._tokens)

    @property
    def waiting(self) -> int:
        return sum(1 for claim in self._line.copy() if not claim.spent)

    def try_take(self) -> bool:
        """A token at once, unless others are waiting for one."""
        return not self._line and self._tokens.take()

    def give_back(self) -> None:
        self._tokens.give()
        self._match()

    def _enrol(self, claim: Claim) -> None:
        self._line.append(claim)
        if len(self._line) > self._sweep_at:
            self._sweep()

    def _match(self) -> None:
        # Looking again after a token went back closes the gap in which an enroller saw neither token nor wait.
        while self._line and self._tokens.take():
            try:
                claim = self._line.popleft()
            except IndexError:
                self._tokens.give()
                continue
            if not claim.settle(self):
                self._tokens.give()

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
        lane._match()
