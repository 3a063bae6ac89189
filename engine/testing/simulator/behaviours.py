"""What a simulated provider can do with one request: answer, refuse, or fail in a chosen way.

Times are seconds. `after_chunks` counts pieces of text: 0 means that the stream has opened (its first
events are sent) but no text has been. A fault that needs a stream has a stated meaning for a plain
request too, so that one script serves both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["text", "reasoning", "refusal", "tool_call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole, healthy answer. A field left at None takes the provider's own setting.

    `latency_seconds` passes before the headers; `first_token_seconds` (streams) between the opening
    and the first text; `chunk_interval_seconds` between two texts. `text` is cut in `chunks` pieces, at
    most one a character. `opening=False` starts a stream with text at once: no role-only chunk, no
    `response.created` and the like. `usage=False` reports no tokens. `kind` is what the text is: something
    said, thought or declined, or the arguments of a call of the tool `look_up`.
    """

    text: str | None = None
    kind: Kind = "text"
    chunks: int | None = None
    finish_reason: str = "stop"
    latency_seconds: float | None = None
    first_token_seconds: float | None = None
    chunk_interval_seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    usage: bool = True
    opening: bool = True


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP error in OpenAI's shape. Type, code and message default to what OpenAI says for the status.

    `retry_after` becomes the header `retry-after`: seconds, or any text such as an HTTP date.
    `body` replaces the JSON with raw text of type `text/html`, as gateways answer.
    """

    code: int
    error_type: str | None = None
    error_code: str | None = None
    message: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: float | str | None = None
    retry_after_ms: float | None = None
    latency_seconds: float = 0.0
    body: str | None = None


@dataclass(frozen=True, slots=True)
class StatusOkError:
    """HTTP 200 whose JSON is an error object. On a stream: the same JSON instead of events."""

    message: str = "The server had an error while processing your request."
    error_type: str = "server_error"
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """A TCP reset: before any header (`after_chunks=None`), or in the middle of the body."""

    after_chunks: int | None = None
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class Silence:
    """The request is read and never answered, until the client leaves or the simulator stops."""


@dataclass(frozen=True, slots=True)
class SlowFirstToken:
    """Headers and opening events come at once, the first text only after `seconds` (plain: the body)."""

    seconds: float
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class Cut:
    """A clean TCP close in the middle of the body (plain: after half of it)."""

    after_chunks: int = 0
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class Stall:
    """The body stops in the middle; the connection stays open and silent (plain: after half of it)."""

    after_chunks: int = 0
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class TrickledHeaders:
    """The response head comes one byte at a time, then the answer."""

    byte_interval_seconds: float = 0.05
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class TrickledBody:
    """The head comes at once, the body one byte at a time."""

    byte_interval_seconds: float = 0.05
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class KeepAliveComments:
    """SSE comments (`: ping`) for ever after `after_chunks` texts; None: not even the opening is sent.

    A plain request gets headers and then blanks, before a body that never comes.
    """

    interval_seconds: float = 0.05
    after_chunks: int | None = None
    answer: Answer = Answer()

    def __post_init__(self) -> None:
        if self.interval_seconds <= 0:
            raise ValueError("interval_seconds must be above 0: comments without a pause would never end")


@dataclass(frozen=True, slots=True)
class EmptyChunks:
    """Chunks that say nothing (a text delta of no letters) for ever after `after_chunks` texts.

    A plain request gets what `KeepAliveComments` sends it.
    """

    interval_seconds: float = 0.05
    after_chunks: int = 0
    answer: Answer = Answer()

    def __post_init__(self) -> None:
        if self.interval_seconds <= 0:
            raise ValueError("interval_seconds must be above 0: chunks without a pause would never end")


@dataclass(frozen=True, slots=True)
class MalformedChunk:
    """One SSE event that is not JSON, then the stream goes on (plain: the whole body is not JSON)."""

    after_chunks: int = 0
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class MissingDone:
    """A stream with its finish marker but without `[DONE]` (plain and Responses: a whole answer)."""

    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class NoFinish:
    """A stream that ends cleanly, `[DONE]` included, but never says that it finished.

    Chat: no `finish_reason` (plain: null). Responses: no terminal event (plain: status `in_progress`).
    """

    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class Empty:
    """HTTP 200 with the right content type and no event at all (plain: a body of no bytes)."""


@dataclass(frozen=True, slots=True)
class InStreamError:
    """An SSE data object with an `error` in it ends the stream (plain: as `StatusOkError`)."""

    message: str = "The server had an error while processing your request."
    error_type: str = "server_error"
    error_code: str | None = None
    after_chunks: int = 0
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Responses: status `incomplete` with this reason. Chat: `finish_reason` `length` or `content_filter`."""

    reason: Literal["max_output_tokens", "content_filter"] = "max_output_tokens"
    after_chunks: int | None = None
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class Failed:
    """Responses: `response.failed` with this code (plain: HTTP 200, `failed`). Chat: `InStreamError`."""

    code: str = "server_error"
    message: str = "The model failed to generate a response."
    after_chunks: int = 0
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """Responses: an event of `type: error` (plain: as `StatusOkError`). Chat: as `InStreamError`."""

    code: str | None = "server_error"
    message: str = "The server had an error while processing your request."
    after_chunks: int = 0
    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class RefusesPrefill:
    """400 for a request whose last message is the assistant's, as of an answer to be continued; else a whole answer."""

    answer: Answer = Answer()


@dataclass(frozen=True, slots=True)
class Background:
    """Responses: accepted, not answered yet. Chat: a whole answer.

    A plain request gets this status and no output; a stream says `response.queued`, then answers. An
    `Answer` to a request with `background: true` does the same.
    """

    status: Literal["queued", "in_progress"] = "queued"
    answer: Answer = Answer()


Behaviour: TypeAlias = (
    Answer
    | Status
    | StatusOkError
    | Reset
    | Silence
    | SlowFirstToken
    | Cut
    | Stall
    | TrickledHeaders
    | TrickledBody
    | KeepAliveComments
    | EmptyChunks
    | MalformedChunk
    | MissingDone
    | NoFinish
    | Empty
    | InStreamError
    | Incomplete
    | Failed
    | ErrorEvent
    | RefusesPrefill
    | Background
)
