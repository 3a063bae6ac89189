"""The open streams, and what becomes of those that nobody reads to their end."""

import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import Final, Protocol

from loguru import logger

from turnout.runtime.strand import Strand, begin
from turnout.runtime.tokens import Tokens


class Closable(Protocol):
    def close(self) -> None: ...


#: How long the reaper is given to end once no stream is open.
_CLOSE_SECONDS: Final = 1.0
_CLOSE: Final = -1
_LOOK: Final = -2


class StreamRegistry:
    """Holds every open stream, so that one let go is still closed: by the reaper, a thread that starts with the first.

    After ``stop`` the reaper stays until the last stream in a caller's hands has ended, then runs ``when_empty``. A
    stream that opens later still, in a call that was in flight, has another reaper, which does the same. Nobody is
    missed: who opens a stream puts it there and then looks for the role of the reaper, who leaves gives the role back
    and then looks at the streams again. Bounded by the streams that callers hold.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._numbers = count()
        self._open: dict[int, Closable] = {}
        self._tickets: SimpleQueue[int] = SimpleQueue()
        self._role = Tokens(1)
        self._closing = False
        self._when_empty: Callable[[], None] = lambda: None
        self._thread: Strand | None = None

    def __len__(self) -> int:
        return len(self._open)

    def ticket(self) -> int:
        """A number to hold a stream under."""
        return next(self._numbers)

    def hold(self, ticket: int, reading: Closable) -> None:
        """Raises ``RouterBusyError`` where the system gives no thread for the reaper: whoever has the stream closes it.
        Handed out without a reaper, one let go would keep its connection, and its room, for good."""
        self._open[ticket] = reading
        if self._role.take():
            self._begin()

    def release(self, ticket: int) -> None:
        if self._open.pop(ticket, None) is not None and self._closing:
            self._tickets.put(_LOOK)

    def abandon(self, ticket: int) -> None:
        """Leave a stream to the reaper. Safe inside garbage collection: one queue put."""
        self._tickets.put(ticket)

    def stop(self, when_empty: Callable[[], None]) -> list[str]:
        """Run ``when_empty`` once no stream is open. Does not wait for that; but the reaper's name is given back where
        it will not end although no stream is in anybody's hands."""
        self._when_empty = when_empty
        self._closing = True
        if not self._role.take():
            self._tickets.put(_CLOSE)
        elif not self._left():
            self._begin()
        return self._unended()

    def dismiss(self) -> list[threading.Thread]:
        """Have the reaper end, where no stream is in anybody's hands. Never waits; safe inside garbage collection."""
        self._closing = True
        self._tickets.put(_CLOSE)
        return [] if self._thread is None else [self._thread]

    def _begin(self) -> None:
        """Start the reaper, with its role in hand."""
        thread: Strand | None = None
        try:
            self._thread = thread = Strand(self.name, self._run)
            begin(thread)
        except BaseException:
            # Interrupted, it may have begun all the same; then the role is its own.
            if thread is None or thread.is_void():
                self._thread = None
                self._role.give()
            raise

    def _left(self) -> bool:
        """Give the role back; False where it was taken again, since a stream came meanwhile."""
        if not self._open:
            self._when_empty()
        self._role.give()
        return not (self._open and self._role.take())

    def _unended(self) -> list[str]:
        thread = self._thread
        if self._open or thread is None:
            return []
        return [] if thread.ends_within(_CLOSE_SECONDS) or self._open else [self.name]

    def _run(self) -> None:
        while True:
            while self._open or not self._closing:
                self._reap(self._open.pop(self._tickets.get(), None))
            if self._left():
                return

    @staticmethod
    def _reap(reading: Closable | None) -> None:
        if reading is None:
            return
        try:
            reading.close()
        except BaseException as error:
            # Whatever it is: the next abandoned stream is to be closed all the same.
            logger.debug("an abandoned stream did not close cleanly: {!r}", error)
