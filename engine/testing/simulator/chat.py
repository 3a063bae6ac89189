"""An OpenAI Chat Completions answer, plain and as chunks."""

from collections.abc import Iterator
from typing import Any

from turnout.testing.simulator.events import TOOL, Event, Part, error_object, sse
from turnout.testing.simulator.provider import Call, Reply

DONE = b"data: [DONE]\n\n"


class ChatRendering:
    """One chat answer."""

    def __init__(self, call: Call, reply: Reply) -> None:
        self._call = call
        self._reply = reply
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{call.provider.name}-{call.number}",
            "object": "chat.completion.chunk" if call.stream else "chat.completion",
            "created": call.created,
            "model": call.model,
            "system_fingerprint": f"fp_{call.provider.name}",
        }

    def body(self, *, finished: bool = True) -> dict[str, Any]:
        blank: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
        choice = {
            "index": 0,
            "message": {**blank, **self._said(self._reply.text)},
            "logprobs": None,
            "finish_reason": self._reply.finish_reason if finished else None,
        }
        body = {**self._head, "choices": [choice]}
        if self._reply.usage:
            body["usage"] = self._usage()
        return body

    def events(self, texts: int | None = None) -> Iterator[Event]:
        role: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
        if self._reply.opening:
            yield Event(Part.OPENING, self._chunk(role))
        for index, piece in enumerate(self._reply.pieces[:texts]):
            said = self._said(piece, first=index == 0)
            if index == 0 and not self._reply.opening:
                said = {**role, **said}
            yield Event(Part.TEXT, self._chunk(said))
        if texts is not None:
            return
        yield Event(Part.FINISH, self._chunk({}, self._reply.finish_reason))
        if self._call.include_usage and self._reply.usage:
            yield Event(Part.USAGE, sse({**self._head, "choices": [], "usage": self._usage()}))
        yield Event(Part.DONE, DONE)

    def empty_event(self) -> bytes:
        return self._chunk({"content": ""})

    def error_event(self, message: str, error_type: str, code: str | None) -> bytes:
        return sse(error_object(message, error_type, code))

    def typed_error_event(self, message: str, code: str | None) -> bytes:
        return self.error_event(message, "server_error", code)

    def _said(self, text: str, *, first: bool = True) -> dict[str, Any]:
        """The fields of a message, or of a delta, that hold this text."""
        match self._reply.kind:
            case "text":
                return {"content": text}
            case "refusal":
                return {"refusal": text}
            case "reasoning":
                # No field of OpenAI's own: the name that most servers with open reasoning have settled on.
                return {"reasoning_content": text}
            case "tool_call":
                call: dict[str, Any] = {"function": {"arguments": text}}
                if self._call.stream:
                    call["index"] = 0
                if first:
                    call |= {"id": f"call_{self._call.number}", "type": "function"}
                    call["function"]["name"] = TOOL
                return {"tool_calls": [call]}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head, "choices": [choice]}
        if self._call.include_usage:
            chunk["usage"] = None
        return sse(chunk)

    def _usage(self) -> dict[str, Any]:
        reply = self._reply
        return {
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }
