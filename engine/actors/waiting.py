"""The calls that wait until a provider may be tried again."""

from typing import Final

from turnout.clock import Clock
from turnout.deadline import Limit
from turnout.errors import RouterBusyError
from turnout.runtime.contract import Alarms

#: The reason of a cut because of which nobody is given up: who waited looks again.
_NEWS: Final = "news of a provider"


class Waiting:
    """Their waits, which the owner of the circuits ends early where it has news for them.

    Who waits enters before it looks a last time, the owner publishes before it ends the waits: neither misses the
    other. Bounded by the invocations in flight.
    """

    def __init__(self, alarms: Alarms, clock: Clock) -> None:
        self._alarms = alarms
        self._clock = clock
        self._alarms_ring = True
        self._limits: dict[Limit, None] = {}

    def __len__(self) -> int:
        return len(self._limits)

    def enter(self, limit: Limit) -> None:
        self._limits[limit] = None

    def leave(self, limit: Limit) -> None:
        self._limits.pop(limit, None)

    def end(self) -> None:
        """End them all, on the timer's thread: where the system gives no worker, who ends a wait goes on with the
        call, which may ask the very owner that has the news."""
        if not self._limits:
            return
        try:
            if self._alarms_ring:
                self._alarms.at(self._clock.monotonic(), self._cut)
                return
        except RouterBusyError:
            # It has no thread, so nobody but callers' own threads can wait.
            pass
        self._cut()

    def end_without_alarms(self) -> None:
        """The timer has ended, with what it was still to ring. Only threads of callers are left to wait."""
        self._alarms_ring = False
        self._cut()

    def _cut(self) -> None:
        for limit in list(self._limits):
            limit.cut(_NEWS)
