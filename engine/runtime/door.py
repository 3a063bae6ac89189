"""The pool's door: places for work that no worker has taken yet."""

import math
from collections.abc import Callable
from typing import Final

from turnout.clock import Clock
from turnout.errors import RouterBusyError
from turnout.runtime.tokens import Tokens

#: How long a wait goes on before it looks whether it may.
_LOOK_SECONDS: Final = 0.1


class Door:
    """``max_queue`` places, each held by a task until a worker begins it."""

    def __init__(self, max_queue: int, clock: Clock) -> None:
        self.places = Tokens(max_queue)
        self._max_queue = max_queue
        self._clock = clock

    @property
    def waiting(self) -> int:
        """Tasks that hold a place."""
        return max(self._max_queue - len(self.places), 0)

    def wait(self, wait_seconds: float | None, may_wait: Callable[[], None]) -> None:
        """Take a place within ``wait_seconds`` (None: as long as it takes). ``may_wait`` raises where none is to be
        waited for. Raises ``RouterBusyError`` when no place came."""
        end = math.inf if wait_seconds is None else self._clock.monotonic() + wait_seconds
        while (left := end - self._clock.monotonic()) > 0.0:
            may_wait()
            if self.places.wait(self._clock, min(left, _LOOK_SECONDS)):
                return
        raise RouterBusyError(
            f"{self._max_queue} calls are waiting already; submit later, pass block=True to wait for a place, "
            "or raise PoolConfig.max_queue"
        )
