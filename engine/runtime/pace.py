"""How soon after one another attempts at one provider may begin."""

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from weakref import ref

from turnout.clock import Clock
from turnout.errors import RouterBusyError
from turnout.runtime.contract import Alarms
from turnout.runtime.lane import Lane, Token, nowhere


class Slot:
    """Leave to begin an attempt now. Dropped by whoever held it, it is made up for, as a token is."""

    __slots__ = ("_pace",)

    def __init__(self, pace: "Pace") -> None:
        self._pace: Callable[[], Pace | None] = pace.weakly

    def put_back(self) -> None:
        """It may be taken again; whoever calls this matches."""
        pace = self._pace()
        if pace is not None:
            pace.free.append(self)

    def retire(self) -> None:
        """It is made up for already."""
        self._pace = nowhere

    def __del__(self) -> None:
        pace = self._pace()
        if pace is not None:
            pace.lost(self)


class Pace:
    """One slot, for all callers together: whoever has taken it begins an attempt, and ``interval_seconds`` after that
    began it can be taken again. It is taken once it is time, never ahead, so that nobody holds what others could use.
    """

    def __init__(self, interval_seconds: float, clock: Clock, alarms: Alarms) -> None:
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._alarms = alarms
        #: As a lane is referred to by its tokens.
        self.weakly = ref(self)
        #: Holds the slot where nobody does.
        self.free = deque([Slot(self)])
        #: Written by whoever has the slot.
        self._from = -math.inf
        self._alarm_at = -math.inf
        self._lanes: list[PacedLane] = []

    @property
    def rest_seconds(self) -> float:
        """Seconds until the slot may be taken; infinite where it may be now, or is with somebody who will begin."""
        rest = self._from - self._clock.monotonic()
        return rest if rest > 0.0 else math.inf

    def add(self, lane: "PacedLane") -> None:
        """From now on the slot serves ``lane`` too; before any call."""
        self._lanes.append(lane)

    def take(self) -> Slot | None:
        """The slot, if it is time for it."""
        # Looked at before, to spare the slot; looked at after, since only then nobody else moves it.
        if self._clock.monotonic() < self._from or not self.free:
            return None
        try:
            slot = self.free.popleft()
        except IndexError:
            return None
        if self._clock.monotonic() >= self._from:
            return slot
        slot.put_back()
        return None

    def is_free(self) -> bool:
        return bool(self.free) and self._clock.monotonic() >= self._from

    def begun(self, at: float, token: Token) -> None:
        """The attempt that ``token`` and its slot were taken for began at that instant."""
        self._from = at + self._interval_seconds
        slot, token.slot = token.slot, None
        if slot is not None:
            slot.put_back()
        if self.is_waited_for():
            self.match()

    def lost(self, slot: Slot) -> None:
        """``slot`` was dropped, as a lane's token may be."""
        with suppress(ValueError):
            self.free.remove(slot)
        slot.retire()
        self.free.append(Slot(self))
        self.match()

    def is_waited_for(self) -> bool:
        return any(lane.has_line for lane in self._lanes)

    def match(self) -> None:
        """Serve whom there is room for, the oldest first; where time is lacking, have it done when it comes."""
        now = self._clock.monotonic()
        # Again after something came back: who looked at another line meanwhile missed it.
        while any(lane._serve() for lane in sorted(self._lanes, key=_oldest)):
            continue
        at = self._from
        # Held against the time before: what has become due since may have been missed just so.
        if at > now and at != self._alarm_at and self.is_waited_for():
            # Where the system gives the timer no thread, whoever matches next tries again; here others are served.
            with suppress(RouterBusyError):
                self._alarms.at(at, partial(self._ring, at))
                self._alarm_at = at

    def _ring(self, at: float) -> None:
        if self._alarm_at == at:
            self._alarm_at = -math.inf
        self.match()


def _oldest(lane: "PacedLane") -> float:
    return lane.oldest


class _Boundless(Token):
    """One of as many as anyone takes."""

    __slots__ = ()

    def __del__(self) -> None:
        return


class PacedLane(Lane):
    """A lane whose attempts also wait for a slot: both are taken, or neither. ``width`` None is boundless."""

    __slots__ = ("_boundless", "_pace")

    def __init__(self, width: int | None, pace: Pace) -> None:
        super().__init__(0 if width is None else width)
        self._boundless = width is None
        self._pace = pace
        pace.add(self)

    @property
    def has_line(self) -> bool:
        return bool(self._line)

    @property
    def oldest(self) -> float:
        """The number of who waits longest; infinite where nobody waits."""
        try:
            return self._line[0].number
        except IndexError:
            return math.inf

    @property
    def rest_seconds(self) -> float:
        return self._pace.rest_seconds

    def try_take(self) -> Token | None:
        if self._pace.is_waited_for():
            # Of another line, somebody may be next.
            self._pace.match()
        return None if self._line else self._take()

    def back(self, token: Token) -> None:
        if token.slot is not None:
            # Interrupted before it began.
            self.unused(token)
        elif not self._boundless:
            super().back(token)

    def unused(self, token: Token) -> None:
        self._untake(token)
        self.match()

    def match(self) -> None:
        self._pace.match()

    def _take(self) -> Token | None:
        while (token := _Boundless(self) if self._boundless else super()._take()) is not None:
            token.slot = self._pace.take()
            if token.slot is not None:
                return token
            self._room(token)
            # Whoever brings the slot matches, unless it saw the room in this hand.
            if not self._pace.is_free():
                return None
        return None

    def _untake(self, token: Token) -> None:
        slot, token.slot = token.slot, None
        self._room(token)
        if slot is not None:
            slot.put_back()

    def _room(self, token: Token) -> None:
        if not self._boundless:
            super()._untake(token)
