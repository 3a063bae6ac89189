"""Something that is made known once, to whoever looks."""

import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

#: How long a wait goes on before it looks by itself: an interrupt, or another who waits, may cost it its call, and a
#: signal that comes just before it waits is seen only then.
_LOOK_SECONDS: Final = 0.1


class Beacon:
    """Lit once, by any thread; any number wait for it, as often as they like. What an interrupt of either leaves behind
    stops nobody, where a ``threading.Event`` may keep its lock."""

    __slots__ = ("_bell", "is_lit")

    def __init__(self) -> None:
        self.is_lit = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def light(self) -> None:
        self.is_lit = True
        self._bell.put(None)

    def wait(self, timeout_seconds: float) -> bool:
        """Whether it is lit, within so many seconds of real time."""
        end = time.monotonic() + timeout_seconds
        while not self.is_lit:
            if (left := end - time.monotonic()) <= 0.0:
                return False
            with suppress(Empty):
                self._bell.get(timeout=min(left, _LOOK_SECONDS))
        # For others who wait.
        self._bell.put(None)
        return True
