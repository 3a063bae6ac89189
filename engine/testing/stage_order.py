"""What happens next on a stage: ready events and alarms, taken in an order that a seed decides."""

import heapq
import random
import threading
from collections.abc import Callable
from enum import Enum
from itertools import count
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from turnout.runtime.timer import Alarm
from turnout.testing.clock import ManualClock

#: How seldom time moves to the next alarm while anything else could happen: one event in so many.
_PATIENCE: Final = 24


class Place(Enum):
    """Whose thread an event would run on: that of a caller's script, one of the workers', or another one."""

    CALLER = "caller"
    WORKER = "worker"
    ELSEWHERE = "elsewhere"


class Event(NamedTuple):
    label: str
    place: Place
    act: Callable[[], None]


class StageClock(ManualClock):
    """Moves when told to, and to the next alarm when it is time's turn. Who waits on it lets the others play."""

    def __init__(self, order: "Order") -> None:
        super().__init__()
        self._order = order

    def move_to(self, instant: float) -> None:
        self._now = max(self._now, instant)

    def wait(self, queue: "SimpleQueue[Any]", timeout_seconds: float | None) -> Any:
        if timeout_seconds is None:
            self._order.until(lambda: not queue.empty())
            return queue.get_nowait()
        end = self._now + timeout_seconds
        alarm = self._order.at(end, lambda: None)
        self._order.until(lambda: not queue.empty() or self._now >= end)
        alarm.cancel()
        return queue.get_nowait()


class Order:
    """One event at a time, whichever chance picks. ``trace`` names all that were, oldest first.

    It is also the stage's timer: alarms ring earliest first.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = StageClock(self)
        self.place = Place.ELSEWHERE
        self.trace: list[str] = []
        self.watchers: list[Callable[[], None]] = []
        self._rng = random.Random(seed)
        self._thread = threading.get_ident()
        self._ready: list[Event] = []
        self._alarms: list[Alarm] = []
        self._numbers = count()

    def soon(self, label: str, act: Callable[[], None], place: Place = Place.ELSEWHERE) -> None:
        """Have ``act`` happen some time from now. Raises ``RuntimeError`` on any thread but the stage's own."""
        if threading.get_ident() != self._thread:
            raise RuntimeError(f"seed {self.seed}: another thread came onto the stage")
        self._ready.append(Event(label, place, act))

    def at(self, instant: float, callback: Callable[[], None]) -> Alarm:
        alarm = Alarm(instant, next(self._numbers), callback)
        heapq.heappush(self._alarms, alarm)
        return alarm

    def chance(self, one_in: int) -> bool:
        return self._rng.randrange(one_in) == 0

    @property
    def idle(self) -> bool:
        """Whether nothing can happen at this instant."""
        alarm = self._next_alarm()
        return not self._ready and (alarm is None or alarm.at > self.clock.monotonic())

    def one(self) -> bool:
        """Let one thing happen; False where there is nothing left to do."""
        alarm = self._next_alarm()
        if alarm is not None and self._is_its_turn(alarm):
            heapq.heappop(self._alarms)
            self.clock.move_to(alarm.at)
            event = Event(f"alarm at {alarm.at:g}", Place.ELSEWHERE, alarm.callback or _nothing)
        elif self._ready:
            picked = self._rng.randrange(len(self._ready))
            self._ready[picked], self._ready[-1] = self._ready[-1], self._ready[picked]
            event = self._ready.pop()
        else:
            return False
        self._happen(event)
        return True

    def until(self, done: Callable[[], bool]) -> None:
        """Let things happen until ``done``. Raises ``AssertionError`` where nothing is left that could."""
        while not done():
            if not self.one():
                raise AssertionError(f"seed {self.seed}: somebody waits for what can no longer happen")

    def _happen(self, event: Event) -> None:
        self.trace.append(event.label)
        before, self.place = self.place, event.place
        try:
            event.act()
        finally:
            self.place = before
        for look in self.watchers:
            look()

    def _next_alarm(self) -> Alarm | None:
        while self._alarms and self._alarms[0].callback is None:
            heapq.heappop(self._alarms)
        return self._alarms[0] if self._alarms else None

    def _is_its_turn(self, alarm: Alarm) -> bool:
        if not self._ready:
            return True
        due = alarm.at <= self.clock.monotonic()
        return self.chance(len(self._ready) + 1 if due else _PATIENCE)


def _nothing() -> None:
    return None
