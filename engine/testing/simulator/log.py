"""The request log: what came in, on which connection, and how each request ended."""

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from turnout.testing.simulator.behaviours import Behaviour
from turnout.testing.simulator.steps import Ending

_SECRET_HEADERS = frozenset({"authorization", "api-key", "x-api-key"})
_T = TypeVar("_T")


def key_mark(key: str) -> str:
    """What the log shows of an API key: a stable prefix of its SHA-256."""
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()[:12]


def redacted(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers for the log: lower-case names, keys replaced by their mark (`Bearer sha256:...`)."""
    return {name: _redacted(value) if name in _SECRET_HEADERS else value for name, value in headers}


def _redacted(value: str) -> str:
    scheme, blank, key = value.partition(" ")
    return f"{scheme} {key_mark(key)}" if blank else key_mark(value)


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request as the provider saw it.

    `number` counts the provider's requests from 1. `at` and `closed_at` are monotonic seconds (`closed_at`
    is None while the request runs). `connection` identifies the TCP connection. `status` is the HTTP status
    sent, None before any. `chunks_sent` counts pieces of text. `behaviour` is what the script said, None
    for a request refused before. `body` is None if it was no JSON object.
    """

    number: int
    provider: str
    path: str
    method: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] | None = field(repr=False)
    at: float
    connection: int
    behaviour: Behaviour | None = None
    status: int | None = None
    chunks_sent: int = 0
    outcome: Ending = Ending.OPEN
    closed_at: float | None = None


class Ticket:
    """A request that is being served: its entry, and what has changed since anyone looked."""

    __slots__ = ("_changes", "_entry", "chunks_sent", "number", "provider")

    def __init__(self, entry: LoggedRequest) -> None:
        self.provider = entry.provider
        self.number = entry.number
        self.chunks_sent = 0
        self._entry = entry
        self._changes: dict[str, Any] = {}

    def change(self, changes: Mapping[str, Any]) -> None:
        self._changes.update(changes)

    def entry(self) -> LoggedRequest:
        # made when asked for: a copy at every change is a tenth of the server's time
        if self._changes:
            self._entry = replace(self._entry, **self._changes)
            self._changes = {}
        return self._entry


class RequestLog:
    """The newest `bound` requests of each provider; written by the server's thread, read by any.

    An ending is written before the last byte leaves, so that whoever holds an answer finds it logged.
    """

    def __init__(
        self,
        providers: Iterable[str],
        *,
        monotonic: Callable[[], float],
        bound: int,
        on_ended: Callable[[LoggedRequest], None] | None = None,
    ) -> None:
        self._changed = threading.Condition()
        self._monotonic = monotonic
        self._on_ended = on_ended
        self._requests: dict[str, deque[Ticket]] = {name: deque(maxlen=bound) for name in providers}
        self._totals = dict.fromkeys(self._requests, 0)
        self._connections: dict[int, str | None] = {}

    def requests(self, provider: str) -> tuple[LoggedRequest, ...]:
        with self._changed:
            return tuple(ticket.entry() for ticket in self._requests[provider])

    def total(self, provider: str) -> int:
        with self._changed:
            return self._totals[provider]

    def connections(self, provider: str | None) -> int:
        with self._changed:
            users = self._connections.values()
            return len(users) if provider is None else sum(user == provider for user in users)

    def wait_for(self, predicate: Callable[[], _T], timeout_seconds: float) -> _T:
        with self._changed:
            seen = self._changed.wait_for(predicate, timeout_seconds)
            if not seen:
                raise TimeoutError(f"not seen within {timeout_seconds} s; logged: {self._totals}")
            return seen

    def connection_opened(self, connection: int) -> None:
        with self._changed:
            self._connections[connection] = None
            self._changed.notify_all()

    def connection_closed(self, connection: int) -> None:
        with self._changed:
            self._connections.pop(connection, None)
            self._changed.notify_all()

    def begin(
        self,
        provider: str,
        *,
        path: str,
        method: str,
        headers: Iterable[tuple[str, str]],
        body: Mapping[str, Any] | None,
        connection: int,
    ) -> Ticket:
        with self._changed:
            number = self._totals[provider] = self._totals[provider] + 1
            entry = LoggedRequest(
                number, provider, path, method, redacted(headers), body, self._monotonic(), connection
            )
            ticket = Ticket(entry)
            self._requests[provider].append(ticket)
            if connection in self._connections:
                self._connections[connection] = provider
            self._changed.notify_all()
            return ticket

    def behaves(self, ticket: Ticket, behaviour: Behaviour) -> None:
        self._change(ticket, behaviour=behaviour)

    def answers(self, ticket: Ticket, status: int) -> None:
        self._change(ticket, status=status)

    def sends_text(self, ticket: Ticket) -> None:
        ticket.chunks_sent += 1
        self._change(ticket, chunks_sent=ticket.chunks_sent)

    def ends(self, ticket: Ticket, outcome: Ending) -> None:
        self._change(ticket, outcome=outcome, closed_at=self._monotonic())
        if self._on_ended is not None:
            with self._changed:
                entry = ticket.entry()
            self._on_ended(entry)

    def _change(self, ticket: Ticket, **changes: Any) -> None:
        with self._changed:
            ticket.change(changes)
            self._changed.notify_all()
