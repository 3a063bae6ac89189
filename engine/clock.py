"""Time, as it is handed to everything that needs it."""

import time
from queue import SimpleQueue
from typing import Any, Final, Protocol

_DAY_SECONDS: Final = 86_400.0


class Clock(Protocol):
    """What turnout asks of time. ``turnout.testing.ManualClock`` is the other one."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps back; only differences mean anything."""

    def wall(self) -> float:
        """Seconds since the epoch, UTC."""

    def wait(self, queue: "SimpleQueue[Any]", timeout_seconds: float | None) -> Any:
        """The next item of ``queue``; raises ``queue.Empty`` once ``timeout_seconds`` of this clock have passed."""


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def wait(self, queue: "SimpleQueue[Any]", timeout_seconds: float | None) -> Any:
        # Waits are asked for in a loop; one of more than a day would overflow the system's own clock.
        return queue.get(
            timeout=None if timeout_seconds is None else min(max(timeout_seconds, 0.0), _DAY_SECONDS)
        )
