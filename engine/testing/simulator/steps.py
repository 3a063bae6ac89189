"""The moves of one HTTP response, as plain facts: what the wire performs, one after another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class Ending(StrEnum):
    """How a logged request ended; `open` while it has not."""

    OPEN = "open"
    ANSWERED = "answered"
    REFUSED = "refused"
    CUT = "cut"
    RESET = "reset"
    CLIENT_CLOSED = "client_closed"
    SERVER_STOPPED = "server_stopped"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing moves for this long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Head:
    """Status line and headers, at once or byte by byte. Without `content-length` the body is chunked."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    byte_interval_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of the body, at once or byte by byte; `text` if they carry a piece of the answer."""

    data: bytes
    text: bool = False
    byte_interval_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Finish:
    """The regular end of the response; the connection may serve another request."""

    ending: Ending = Ending.ANSWERED


@dataclass(frozen=True, slots=True)
class HangUp:
    """The end of the connection: a clean close, or a reset."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class StayOpen:
    """Silence until the client leaves or the simulator stops."""


Step: TypeAlias = Pause | Head | Piece | Finish | HangUp | StayOpen
