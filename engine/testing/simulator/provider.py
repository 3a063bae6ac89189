"""A simulated provider's settings, and what they make of an `Answer` for one call."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias, TypeVar

from turnout.testing.simulator.behaviours import Answer, Kind
from turnout.testing.simulator.script import ScriptLike

Dialect: TypeAlias = Literal["chat", "responses"]
_ECHO_CHARACTERS = 200
_HEALTHY = Answer()
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class SimulatedProvider:
    """One provider of a `Simulator`, reached under `/<name>/v1`.

    `script` says what each call gets (see `as_script`); every other field is what an `Answer` takes
    where it says nothing itself. Without `text` an answer is the provider's name and the last user
    message; without token counts they are words. With `require_key`, any other key is refused with 401.
    """

    name: str
    script: ScriptLike = _HEALTHY
    text: str | None = None
    chunks: int = 4
    latency_seconds: float = 0.0
    first_token_seconds: float = 0.0
    chunk_interval_seconds: float = 0.0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int = 0
    require_key: str | None = None

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name or not self.name.isprintable() or " " in self.name:
            raise ValueError(f"provider name {self.name!r} must be one plain path segment")
        if self.chunks < 1:
            raise ValueError("chunks must be at least 1")


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was understood: `number` counts the provider's requests from 1."""

    provider: SimulatedProvider
    dialect: Dialect
    number: int
    created: int
    body: Mapping[str, Any]

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True

    @property
    def include_usage(self) -> bool:
        options = self.body.get("stream_options")
        return isinstance(options, Mapping) and options.get("include_usage") is True

    @property
    def continues(self) -> bool:
        """Whether the last message is the assistant's own."""
        items = self.body.get("messages" if self.dialect == "chat" else "input")
        last = items[-1] if isinstance(items, list) and items else None
        return isinstance(last, Mapping) and last.get("role") == "assistant"

    @property
    def user_message(self) -> str:
        """The last thing the user said, or nothing."""
        if self.dialect == "responses" and isinstance(self.body.get("input"), str):
            return str(self.body["input"])
        items = self.body.get("messages" if self.dialect == "chat" else "input")
        for item in reversed(items) if isinstance(items, list) else ():
            if isinstance(item, Mapping) and item.get("role") == "user":
                return _plain_text(item.get("content"))
        return ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An `Answer` with every open point settled for one call."""

    text: str
    kind: Kind
    pieces: tuple[str, ...]
    finish_reason: str
    latency_seconds: float
    first_token_seconds: float
    chunk_interval_seconds: float
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    usage: bool
    opening: bool


def reply_to(call: Call, answer: Answer) -> Reply:
    """What `answer` says to this call, with the provider's settings where it says nothing."""
    provider = call.provider
    text = answer.text if answer.text is not None else provider.text
    if text is None:
        text = f"{provider.name}: {call.user_message[:_ECHO_CHARACTERS]}"
    chunks = _either(answer.chunks, provider.chunks)
    return Reply(
        text=text,
        kind=answer.kind,
        pieces=_pieces(text, chunks),
        finish_reason=answer.finish_reason,
        latency_seconds=_either(answer.latency_seconds, provider.latency_seconds),
        first_token_seconds=_either(answer.first_token_seconds, provider.first_token_seconds),
        chunk_interval_seconds=_either(answer.chunk_interval_seconds, provider.chunk_interval_seconds),
        prompt_tokens=_either(answer.prompt_tokens, provider.prompt_tokens, len(call.user_message.split())),
        completion_tokens=_either(answer.completion_tokens, provider.completion_tokens, len(text.split())),
        cached_tokens=_either(answer.cached_tokens, provider.cached_tokens),
        usage=answer.usage,
        opening=answer.opening,
    )


def _either(first: _Number | None, second: _Number | None, third: _Number | None = None) -> _Number:
    chosen = first if first is not None else second if second is not None else third
    assert chosen is not None
    return chosen


def _pieces(text: str, chunks: int) -> tuple[str, ...]:
    """The text in `chunks` parts of nearly equal length, none of them empty."""
    count = min(chunks, len(text))
    bounds = [len(text) * index // count for index in range(count + 1)] if count else []
    return tuple(text[start:end] for start, end in pairwise(bounds))


def _plain_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part)
