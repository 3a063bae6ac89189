"""What chat and Responses answers have in common: a body, and a stream of marked SSE events."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

#: The tool that an answer of the kind `tool_call` calls.
TOOL = "look_up"


class Part(Enum):
    """Where in a stream an event belongs."""

    OPENING = "opening"
    TEXT = "text"
    FINISH = "finish"
    USAGE = "usage"
    DONE = "done"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Event:
    """One SSE event, encoded."""

    part: Part
    data: bytes


class Rendering(Protocol):
    """One answer in one protocol."""

    def body(self, *, finished: bool = True) -> Mapping[str, Any]:
        """The plain JSON answer; `finished=False` leaves out whatever says that it is whole."""

    def events(self, texts: int | None = None) -> Iterator[Event]:
        """The stream of a healthy answer: whole, or its opening and so many texts and nothing after."""

    def empty_event(self) -> bytes:
        """An event with a piece of text that has no letters."""

    def error_event(self, message: str, error_type: str, code: str | None) -> bytes:
        """An event whose data is an object with an `error`."""

    def typed_error_event(self, message: str, code: str | None) -> bytes:
        """An event of `type: error`, where the protocol has one."""


def sse(data: Mapping[str, Any], event: str | None = None) -> bytes:
    """One SSE event with JSON data."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def error_object(
    message: str, error_type: str, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    return {"error": {"message": message, "type": error_type, "param": param, "code": code}}
