"""An actor's queue."""

from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from turnout.clock import Clock
from turnout.runtime.tokens import Tokens

T = TypeVar("T")

#: How many messages one drain takes at most, so that an actor keeps its own timetable under any load.
DRAIN = 1_000


class Mailbox(Generic[T]):
    """Bounded; many put, one drains.

    Its places are tokens: a place is taken before a message is put and given back when the message is
    drained, so the bound holds without a lock and without looking at a size that may have changed since.
    """

    __slots__ = ("_clock", "_messages", "_places")

    def __init__(self, capacity: int, clock: Clock) -> None:
        self._clock = clock
        self._messages: SimpleQueue[T] = SimpleQueue()
        self._places = Tokens(capacity)

    def put(self, message: T) -> bool:
        """Whether there was a place. Never waits; safe inside garbage collection and signal handlers."""
        if not self._places.take():
            return False
        self._messages.put(message)
        return True

    def put_last(self, message: T) -> None:
        """Put past the bound, for the one message that must always arrive: the last."""
        self._messages.put(message)

    def drain(self, timeout_seconds: float | None) -> list[T]:
        """What waits, oldest first, up to ``DRAIN``; [] once ``timeout_seconds`` have passed without any."""
        try:
            first = self._clock.wait(self._messages, timeout_seconds)
        except Empty:
            return []
        self._places.give()
        return [first, *self.drain_now(DRAIN - 1)]

    def drain_now(self, most: int = DRAIN) -> list[T]:
        """What waits right now."""
        drained: list[T] = []
        while len(drained) < most:
            try:
                drained.append(self._messages.get_nowait())
            except Empty:
                break
            self._places.give()
        return drained

    def __len__(self) -> int:
        return self._messages.qsize()
