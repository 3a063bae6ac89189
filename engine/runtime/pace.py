"""How soon after one another attempts at one provider may begin."""

import math
from functools import partial

from turnout.clock import Clock
from turnout.runtime.contract import Alarms
from turnout.runtime.lane import Lane
from turnout.runtime.tokens import Tokens


class Pace:
    """One slot, for all callers together: whoever has taken it begins an attempt, and ``interval_seconds`` after that
    began it can be taken again. It is taken once it is time, never ahead, so that nobody holds what others could use.
    """

    def __init__(self, interval_seconds: float, clock: Clock, alarms: Alarms) -> None:
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._alarms = alarms
        self._slot = Tokens(1)
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

    def take(self) -> bool:
        """The slot, if it is time for it."""
        # Looked at before, to spare the slot; looked at after, since only then nobody else moves it.
        if self._clock.monotonic() < self._from or not self._slot.take():
            return False
        if self._clock.monotonic() >= self._from:
            return True
        self._slot.give()
        return False

    def is_free(self) -> bool:
        return not self._slot.empty() and self._clock.monotonic() >= self._from

    def begun(self, at: float) -> None:
        """Whoever has the slot began its attempt at that instant."""
        self._from = at + self._interval_seconds
        self._slot.give()
        if self.is_waited_for():
            self.match()

    def unused(self) -> None:
        """Whoever has the slot begins nothing; who calls this matches."""
        self._slot.give()

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
            self._alarms.at(at, partial(self._ring, at))
            self._alarm_at = at

    def _ring(self, at: float) -> None:
        if self._alarm_at == at:
            self._alarm_at = -math.inf
        self.match()


def _oldest(lane: "PacedLane") -> float:
    return lane.oldest


class _Boundless(Tokens):
    """As many as anyone takes."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.give = partial(_nothing)

    def take(self) -> bool:
        return True


def _nothing() -> None:
    return None


class PacedLane(Lane):
    """A lane whose attempts also wait for a slot: both are taken, or neither. ``width`` None is boundless."""

    __slots__ = ("_pace",)

    def __init__(self, width: int | None, pace: Pace) -> None:
        super().__init__(0 if width is None else width)
        if width is None:
            self._tokens = _Boundless()
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

    def try_take(self) -> bool:
        if self._pace.is_waited_for():
            # Of another line, somebody may be next.
            self._pace.match()
        return not self._line and self._take()

    def put_back(self) -> None:
        self._unuse()
        self.match()

    def match(self) -> None:
        self._pace.match()

    def _take(self) -> bool:
        while self._tokens.take():
            if self._pace.take():
                return True
            super()._unuse()
            # Whoever brings the slot matches, unless it saw the room in this hand.
            if not self._pace.is_free():
                return False
        return False

    def _unuse(self) -> None:
        super()._unuse()
        self._pace.unused()
