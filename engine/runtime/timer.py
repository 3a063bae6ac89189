"""One thread that calls back at given times, earliest first."""

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final

from loguru import logger

from turnout.clock import Clock
from turnout.runtime.on_demand import ThreadOnDemand
from turnout.traces import trace_of

#: Cancelled entries are swept out once there are this many entries more than twice what the last sweep left.
_SWEEP_AT: Final = 64


@dataclass(order=True, slots=True)
class Alarm:
    """One entry. ``cancel`` may come from any thread; the entry is dropped when its time comes."""

    at: float
    number: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class Timer:
    """Calls back on its own thread, on the injected clock. Callbacks must be short: they hand work on, they do none.

    Bounded by its users: an invocation that waits holds one entry. The thread starts with the first entry.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._arrivals: SimpleQueue[Alarm | None] = SimpleQueue()
        self._numbers = itertools.count()
        self._thread = ThreadOnDemand(name, self._run)

    def owns_this_thread(self) -> bool:
        return self._thread.is_current()

    def start(self) -> None:
        """Nothing to do: the thread starts with the first entry."""

    def at(self, instant: float, callback: Callable[[], None]) -> Alarm:
        """Call ``callback`` once the clock shows ``instant``; after ``stop``, never.

        Raises ``RouterBusyError`` where the system gives no thread.
        """
        if not self._thread.started:
            self._thread.start()
        alarm = Alarm(instant, next(self._numbers), callback)
        self._arrivals.put(alarm)
        return alarm

    def stop(self, timeout_seconds: float) -> list[str]:
        """End; entries still waiting are dropped."""
        self._thread.end()
        self._arrivals.put(None)
        return self._thread.join(timeout_seconds)

    def dismiss(self) -> list[threading.Thread]:
        """End as after ``stop``, but wait for nothing; safe inside garbage collection."""
        self._arrivals.put(None)
        return self._thread.threads

    def _run(self) -> None:
        waiting: list[Alarm] = []
        sweep_at = _SWEEP_AT
        while True:
            rest = max(waiting[0].at - self._clock.monotonic(), 0.0) if waiting else None
            try:
                alarm = self._clock.wait(self._arrivals, rest)
            except Empty:
                self._ring(waiting)
                continue
            if alarm is None:
                return
            heapq.heappush(waiting, alarm)
            if len(waiting) > sweep_at:
                # Most calls end long before their time: what they left would pile up until it comes.
                waiting = [alarm for alarm in waiting if alarm.callback is not None]
                heapq.heapify(waiting)
                sweep_at = 2 * len(waiting) + _SWEEP_AT

    def _ring(self, waiting: list[Alarm]) -> None:
        now = self._clock.monotonic()
        while waiting and waiting[0].at <= now:
            callback = heapq.heappop(waiting).callback
            if callback is None:
                continue
            try:
                callback()
            except Exception as error:
                logger.error("a callback of {} raised:\n{}", self.name, trace_of(error))
