"""The sole owner of one state, on a thread of its own."""

import threading
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from loguru import logger

from turnout.clock import Clock
from turnout.errors import ReentrantCallError, RouterBusyError, RouterClosedError, TurnoutError
from turnout.runtime.later import Later
from turnout.runtime.mailbox import Mailbox
from turnout.runtime.strand import Strand, begin
from turnout.runtime.tokens import Tokens
from turnout.traces import trace_of

#: How long an ask waits by default. An owner answers in microseconds; this bounds what should never happen.
ASK_SECONDS: Final = 30.0
_DAY_SECONDS: Final = 86_400.0


class Behaviour(Protocol):
    """What an actor does. Only the actor's thread calls these, one at a time."""

    def receive(self, message: Any) -> Any:
        """Act on one message; what is returned, or raised, is the reply. A ``Later`` is one that is to come."""

    def rest(self) -> float | None:
        """Called after each drain: seconds until it wants to be called again, None for until the next message."""

    def ended(self) -> None:
        """Last words, after the last message."""


class Rests:
    """For behaviours that act on messages alone."""

    __slots__ = ()

    def rest(self) -> float | None:
        return None

    def ended(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message and where its reply goes. The reply is (value, error), of which one is None."""

    message: Any
    reply: "SimpleQueue[tuple[Any, BaseException | None]] | None" = None


_STOP: Final = Envelope(None)


class Actor:
    """One named thread, one mailbox, one behaviour.

    After ``stop``, an actor that ``outlives`` its thread still handles what it is sent, on the thread that sends it
    and one message at a time; any other answers everything with ``RouterClosedError``.
    """

    def __init__(
        self, name: str, behaviour: Behaviour, *, clock: Clock, capacity: int = 10_000, outlives: bool = False
    ) -> None:
        self.name = name
        self._behaviour = behaviour
        self._mailbox: Mailbox[Envelope] = Mailbox(capacity, clock)
        self._clock = clock
        self._outlives = outlives
        self.thread = Strand(name, self._run)
        self._ended = False
        # Whoever holds the baton is the state's owner once the thread has ended.
        self._baton = Tokens()

    def start(self) -> None:
        """Raises ``RouterBusyError`` where the system gives no thread."""
        begin(self.thread)

    def tell(self, message: Any) -> bool:
        """Send a message that nobody waits for. False when the mailbox is full and the message was not taken."""
        taken = self._mailbox.put(Envelope(message))
        if self._ended:
            self._serve_late()
        return taken

    def ask(self, message: Any, timeout_seconds: float = ASK_SECONDS) -> Any:
        """Send a message and wait for its reply; raises what handling it raised.

        Raises ``ReentrantCallError`` on the actor's own thread, ``RouterClosedError`` after its end,
        ``RouterBusyError`` when its mailbox is full and ``TimeoutError`` when the reply does not come in time.
        """
        if threading.current_thread() is self.thread:
            raise ReentrantCallError(
                f"{self.name} was asked from its own thread, where no answer could come; "
                "do not call the router from a policy or an event sink"
            )
        reply: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        if not self._mailbox.put(Envelope(message, reply)):
            raise RouterBusyError(
                f"the mailbox of {self.name} is full; try again later, or make fewer calls at once"
            )
        if self._ended:
            self._serve_late()
        try:
            # Real time: the reply comes from a thread that runs in real time, whatever the router's clock says.
            value, error = reply.get(timeout=min(timeout_seconds, _DAY_SECONDS))
        except Empty:
            raise TimeoutError(f"{self.name} did not answer within {timeout_seconds:g} s") from None
        if error is not None:
            raise error
        return value

    def stop(self, timeout_seconds: float) -> list[str]:
        """Handle what is waiting, then end. The names of threads that did not end in time."""
        if self.thread.is_void():
            # It never began, so its last words are this thread's.
            if not self._ended:
                self._end()
            return []
        self._mailbox.put_last(_STOP)
        return [] if self.thread.ends_within(timeout_seconds) else [self.name]

    def dismiss(self) -> list[threading.Thread]:
        """End as after ``stop``, but wait for nothing; safe inside garbage collection."""
        self._mailbox.put_last(_STOP)
        return [self.thread]

    def _run(self) -> None:
        stopping, rest = False, self._next_rest()
        while not stopping:
            for envelope in self._mailbox.drain(rest):
                if envelope is _STOP:
                    stopping = True
                else:
                    self._handle(envelope)
            rest = self._next_rest()
        self._end()

    def _end(self) -> None:
        for envelope in self._all_waiting():
            self._handle(envelope)
        try:
            self._behaviour.ended()
        except BaseException as error:
            logger.error("{} failed while ending:\n{}", self.name, trace_of(error))
        self._ended = True
        self._baton.give()
        # What was put between the drain above and the flag has nobody else to serve it.
        self._serve_late()

    def _handle(self, envelope: Envelope) -> None:
        try:
            value, error = self._behaviour.receive(envelope.message), None
        except BaseException as raised:
            # Whatever a policy or a store raises, its owner lives on; an exit is not theirs to order.
            value, error = None, raised if isinstance(raised, Exception) else _as_error(self.name, raised)
            if envelope.reply is None or not isinstance(raised, TurnoutError):
                logger.error("{} could not handle a message:\n{}", self.name, trace_of(raised))
        if (reply := envelope.reply) is None:
            return
        if isinstance(value, Later):
            value.go_to(lambda value, error: reply.put((value, error)))
        else:
            reply.put((value, error))

    def _next_rest(self) -> float | None:
        try:
            return self._behaviour.rest()
        except BaseException as error:
            logger.error("{} failed between messages; it goes on:\n{}", self.name, trace_of(error))
            return 1.0

    def _all_waiting(self) -> list[Envelope]:
        waiting: list[Envelope] = []
        while batch := self._mailbox.drain_now():
            waiting += [envelope for envelope in batch if envelope is not _STOP]
        return waiting

    def _serve_late(self) -> None:
        """Serve what comes after the end. Looking again after giving the baton back leaves no message unserved."""
        while len(self._mailbox) and self._baton.take():
            try:
                for envelope in self._all_waiting():
                    if self._outlives:
                        self._handle(envelope)
                    elif envelope.reply is not None:
                        envelope.reply.put(
                            (None, RouterClosedError(f"{self.name} has ended; the router is closed"))
                        )
            finally:
                self._baton.give()


def _as_error(who: str, raised: BaseException) -> Exception:
    error = RuntimeError(f"{who}: {type(raised).__name__} was raised")
    error.__cause__ = raised
    return error
