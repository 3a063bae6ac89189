"""How many attempts may be in flight at one provider, and the line of those that wait."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, Protocol
from weakref import ref

from turnout.runtime.once import Once
from turnout.runtime.tokens import Tokens

_numbers = count()


class Unused(Protocol):
    """What goes back with a token whose attempt is not made."""

    def put_back(self) -> None: ...


class Token:
    """Leave for one attempt, taken from a lane and given back to it.

    Exactly once cannot be had against ``KeyboardInterrupt``, which comes between any two steps: a token that whoever
    held it has dropped is made up for by its lane, as soon as nobody refers to it any more.
    """

    __slots__ = ("_lane", "slot")

    def __init__(self, lane: "Lane") -> None:
        self._lane: Callable[[], Lane | None] = lane.weakly
        #: Leave to begin now, where the lane's attempts are held to an interval.
        self.slot: Unused | None = None

    @property
    def lane(self) -> "Lane | None":
        return self._lane()

    def give_back(self) -> None:
        """The attempt that it was taken for is over."""
        lane = self._lane()
        if lane is not None:
            lane.back(self)

    def put_back(self) -> None:
        """The attempt that it was taken for is not made."""
        lane = self._lane()
        if lane is not None:
            lane.unused(self)

    def retire(self) -> None:
        """There is to be one less."""
        self._lane = nowhere

    def __del__(self) -> None:
        lane = self._lane()
        if lane is not None:
            lane.lost(self)


def nowhere() -> None:
    """In place of a weak reference to a lane: what refers so has none any more."""


class Claim:
    """One waiting walk's place in the lines of several lanes: the first token wins, once.

    ``wake`` is told the token that was won, or None where the wait was given up. It must be short, and bear being
    called twice with the same.
    """

    __slots__ = ("_once", "_wake", "number")

    def __init__(self, wake: Callable[[Token | None], object]) -> None:
        #: Who came first has the lowest.
        self.number = next(_numbers)
        self._once = Once()
        self._wake = wake

    @property
    def spent(self) -> bool:
        return self._once.spent

    def settle(self, token: Token | None) -> bool:
        """Whether ``token`` (or giving up) is what ends the wait."""
        if not self._once():
            return False
        try:
            self._wake(token)
        except BaseException:
            # An interrupt of a thread that serves others. Nobody else will wake them.
            self._wake(token)
            raise
        return True


#: A line is swept of claims that were served elsewhere once it is this much longer than after the last sweep.
_SWEEP_AT: Final = 64


class Lane:
    """``width`` tokens and a line. Enrol first, then match; whoever gives a token back matches too, so that neither
    can miss the other. Newcomers do not pass those who wait. ``resize`` is for one thread at a time."""

    __slots__ = ("__weakref__", "_free", "_line", "_owed", "_sweep_at", "_sweeping", "weakly", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        #: How tokens refer to it: a router that nobody refers to ends at once. Kept here, since the collector clears
        #: what weak references it collects before a token among them can use its own.
        self.weakly = ref(self)
        self._free: deque[Token] = deque()
        #: What a lane that has become narrower is still to get back.
        self._owed = Tokens()
        self._line: deque[Claim] = deque()
        self._sweep_at = _SWEEP_AT
        self._sweeping = Tokens(1)
        self._free.extend(Token(self) for _ in range(width))

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def waiting(self) -> list[Claim]:
        """Who stands in line, first come first."""
        return [claim for claim in self._line.copy() if not claim.spent]

    def try_take(self) -> Token | None:
        """A token at once, unless others are waiting for one."""
        return None if self._line else self._take()

    def back(self, token: Token) -> None:
        """The attempt that ``token`` was taken for is over."""
        self._free.append(token)
        if not self._owed.empty():
            self._retire()
        if self._line:
            self.match()

    def unused(self, token: Token) -> None:
        """The attempt that ``token`` was taken for is not made."""
        self.back(token)

    def lost(self, token: Token) -> None:
        """``token`` was dropped. Where the collector dropped it together with a walk that it ended, that may have given
        it back already: one that has been found lost is never used again."""
        with suppress(ValueError):
            self._free.remove(token)
        token.retire()
        self.back(Token(self))

    def resize(self, width: int) -> None:
        """Growing gives tokens at once; shrinking retires those that are free, the others as they come back."""
        change, self.width = width - self.width, width
        for _ in range(change):
            if not self._owed.take():
                self._free.append(Token(self))
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
        while self._line and (token := self._take()) is not None:
            if not self._given(token):
                self._untake(token)
                came_back = True
        return came_back

    def _given(self, token: Token) -> bool:
        """Whether somebody in line got it."""
        while True:
            try:
                claim = self._line[0]
            except IndexError:
                return False
            # Out of the line once it is served, so that no interrupt takes it out before.
            won = claim.settle(token)
            self._leave(claim)
            if won:
                return True

    def _leave(self, claim: Claim) -> None:
        # remove() finds by identity, keeps order, and tells when another was quicker.
        try:
            self._line.remove(claim)
        except ValueError:
            return

    def _take(self) -> Token | None:
        if not self._free:
            # A look saves the cost of an exception.
            return None
        try:
            return self._free.popleft()
        except IndexError:
            return None

    def _untake(self, token: Token) -> None:
        """Undo ``_take``; whoever calls this looks at the line again."""
        self._free.append(token)
        if not self._owed.empty():
            self._retire()

    def _retire(self) -> None:
        # As with the line: who owes writes that first and then looks for tokens, who gives one looks then at what is
        # owed.
        while not self._owed.empty() and (token := Lane._take(self)) is not None:
            if self._owed.take():
                token.retire()
            else:
                self._free.append(token)

    def _enrol(self, claim: Claim) -> None:
        self._line.append(claim)
        if len(self._line) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """Take out the claims that other lanes served: a hanging provider's line would grow with every call."""
        if not self._sweeping.take():
            return
        try:
            for claim in [claim for claim in self._line.copy() if claim.spent]:
                self._leave(claim)
            self._sweep_at = 2 * len(self._line) + _SWEEP_AT
        finally:
            self._sweeping.give()


def enrol(claim: Claim, lanes: Sequence[Lane]) -> None:
    """Stand in every line at once."""
    for lane in lanes:
        lane._enrol(claim)
    for lane in lanes:
        lane.match()
