"""The open streams, and what becomes of those that nobody reads to their end."""

import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import Final, Protocol

from loguru import logger

from turnout.runtime.once import Once


class Closable(Protocol):
    def close(self) -> None: ...


#: How long the reaper is given to end once no stream is open.
_CLOSE_SECONDS: Final = 1.0
_CLOSE: Final = -1
_LOOK: Final = -2


class StreamRegistry:
    """Holds every open stream, so that one let go is still closed: by the reaper, a thread that starts with the first.

    After ``stop`` the reaper stays until the last stream in a caller's hands has ended, then runs ``when_empty``.
    Bounded by the streams that callers hold.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._numbers = count()
        self._open: dict[int, Closable] = {}
        self._tickets: SimpleQueue[int] = SimpleQueue()
        self._first_use = Once()
        self._closing = False
        self._when_empty: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __len__(self) -> int:
        return len(self._open)

    def ticket(self) -> int:
        """A number to hold a stream under."""
        return next(self._numbers)

    def hold(self, ticket: int, reading: Closable) -> None:
        self._open[ticket] = reading
        if self._first_use():
            self._thread.start()

    def release(self, ticket: int) -> None:
        if self._open.pop(ticket, None) is not None and self._closing:
            self._tickets.put(_LOOK)

    def abandon(self, ticket: int) -> None:
        """Leave a stream to the reaper. Safe inside garbage collection: one queue put."""
        self._tickets.put(ticket)

    def stop(self, when_empty: Callable[[], None]) -> list[str]:
        """Run ``when_empty`` once no stream is open. Does not wait for that; but the reaper's name is given back where
        it will not end although no stream is in anybody's hands."""
        if self._closing:
            return self._unended()
        self._when_empty = when_empty
        if self._first_use():
            self._closing = True
            when_empty()
            return []
        self._closing = True
        self._tickets.put(_CLOSE)
        return self._unended()

    def _unended(self) -> list[str]:
        # An interrupt may have ended the wait for a thread that was still to start; it ends by itself.
        if self._open or self._thread.ident is None:
            return []
        self._thread.join(_CLOSE_SECONDS)
        return [self.name] if self._thread.is_alive() and not self._open else []

    def _run(self) -> None:
        while not (self._closing and not self._open):
            self._reap(self._open.pop(self._tickets.get(), None))
        self._when_empty()

    @staticmethod
    def _reap(reading: Closable | None) -> None:
        if reading is None:
            return
        try:
            reading.close()
        except BaseException as error:
            # Whatever it is: the next abandoned stream is to be closed all the same.
            logger.debug("an abandoned stream did not close cleanly: {!r}", error)
