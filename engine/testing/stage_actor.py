"""An actor without a thread: it handles one message an event."""

from collections import deque
from typing import Any

from loguru import logger

from turnout.errors import ReentrantCallError, RouterBusyError, RouterClosedError, TurnoutError
from turnout.runtime.actor import ASK_SECONDS, Behaviour
from turnout.runtime.later import Later, Reply
from turnout.runtime.timer import Alarm
from turnout.testing.stage_order import Order
from turnout.traces import trace_of


class StageActor:
    """Keeps the promises of ``runtime.actor.Actor``, one message at a time and in the order of their coming."""

    def __init__(
        self, name: str, behaviour: Behaviour, order: Order, *, capacity: int, outlives: bool
    ) -> None:
        self.name = name
        self._behaviour = behaviour
        self._order = order
        self._capacity = capacity
        self._outlives = outlives
        self._mailbox: deque[tuple[Any, Reply | None]] = deque()
        self._expected = False
        self._busy = False
        self._ended = False
        self._alarm: Alarm | None = None
        self._rest()

    def tell(self, message: Any) -> bool:
        return self._put(message, None)

    def ask(self, message: Any, timeout_seconds: float = ASK_SECONDS) -> Any:
        """For code that is no walk: everything else goes on until the reply is there."""
        replies: list[tuple[Any, BaseException | None]] = []
        self.post(message, lambda value, error: replies.append((value, error)))
        self._order.until(lambda: bool(replies))
        value, error = replies[0]
        if error is not None:
            raise error
        return value

    def post(self, message: Any, reply: Reply) -> None:
        """Ask, and be called back; raises what ``ask`` would raise at once."""
        if self._busy:
            raise ReentrantCallError(f"{self.name} was asked from its own thread, where no answer could come")
        if not self._put(message, reply):
            raise RouterBusyError(
                f"the mailbox of {self.name} is full; try again later, or make fewer calls at once"
            )

    def end(self) -> None:
        """The last words, once nothing is left to handle."""
        self._ended = True
        if self._alarm is not None:
            self._alarm.cancel()
        try:
            self._behaviour.ended()
        except Exception as error:
            logger.error("{} failed while ending:\n{}", self.name, trace_of(error))

    def _put(self, message: Any, reply: Reply | None) -> bool:
        if len(self._mailbox) >= self._capacity:
            return False
        self._mailbox.append((message, reply))
        self._expect()
        return True

    def _expect(self) -> None:
        # One event for all that wait: whatever happens during a message, the next is not handled before its end.
        if self._mailbox and not self._expected:
            self._expected = True
            self._order.soon(self.name, self._handle_one)

    def _handle_one(self) -> None:
        message, reply = self._mailbox.popleft()
        self._busy = True
        try:
            value, error = self._received(message, reply is not None)
        finally:
            self._busy = self._expected = False
        self._rest()
        self._expect()
        if isinstance(value, Later) and reply is not None:
            value.go_to(reply)
        elif reply is not None:
            reply(value, error)

    def _received(self, message: Any, asked: bool) -> tuple[Any, Exception | None]:
        if self._ended and not self._outlives:
            return None, RouterClosedError(f"{self.name} has ended; the router is closed")
        try:
            return self._behaviour.receive(message), None
        except Exception as raised:
            if not asked or not isinstance(raised, TurnoutError):
                logger.error("{} could not handle a message:\n{}", self.name, trace_of(raised))
            return None, raised

    def _rest(self) -> None:
        if self._ended or self._busy:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        seconds = self._behaviour.rest()
        self._alarm = (
            None if seconds is None else self._order.at(self._order.clock.monotonic() + seconds, self._rest)
        )
