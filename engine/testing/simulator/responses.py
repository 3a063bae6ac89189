"""An OpenAI Responses answer, plain and as typed events."""

from collections.abc import Iterator, Mapping
from typing import Any

from turnout.testing.simulator.events import TOOL, Event, Part, error_object, sse
from turnout.testing.simulator.provider import Call, Reply


class ResponsesRendering:
    """One Responses answer. Events are numbered, so a rendering is good for one stream.

    `status` is how it ends: `completed`, `incomplete` (with `incomplete_reason`) or `failed` (with
    `error`); a plain body may also be `queued` or `in_progress`. `queued` announces a stream's wait first.
    """

    def __init__(
        self,
        call: Call,
        reply: Reply,
        *,
        status: str = "completed",
        incomplete_reason: str | None = None,
        error: Mapping[str, str] | None = None,
        queued: bool = False,
    ) -> None:
        self._call = call
        self._reply = reply
        self._status = status
        self._incomplete_reason = incomplete_reason
        self._error = error
        self._queued = queued
        self._sequence = 0
        self._said: list[str] = []
        self._item_id = f"msg_{call.provider.name}_{call.number}"

    def body(self, *, finished: bool = True) -> dict[str, Any]:
        self._said = list(self._reply.pieces)
        return self._response(self._status if finished else "in_progress")

    def events(self, texts: int | None = None) -> Iterator[Event]:
        if self._reply.opening:
            for data in self._opening():
                yield Event(Part.OPENING, data)
        for piece in self._reply.pieces[:texts]:
            self._said.append(piece)
            yield Event(Part.TEXT, self._delta(piece))
        if texts is not None:
            return
        for data in self._closing():
            yield Event(Part.FINISH, data)

    def _closing(self) -> Iterator[bytes]:
        if self._status in ("completed", "incomplete"):
            text = "".join(self._said)
            name, where, more = self._place()
            field = {"tool_call": "arguments", "refusal": "refusal"}.get(self._reply.kind, "text")
            yield self._event(f"{name}.done", **where, **more, **{field: text})
            part = self._part_event("done", text)
            if part is not None:
                yield part
            yield self._event(
                "response.output_item.done", output_index=0, item=self._item(self._status, text)
            )
        yield self._event(f"response.{self._status}", response=self._response(self._status))

    def empty_event(self) -> bytes:
        return self._delta("")

    def error_event(self, message: str, error_type: str, code: str | None) -> bytes:
        return sse(error_object(message, error_type, code))

    def typed_error_event(self, message: str, code: str | None) -> bytes:
        return self._event("error", code=code, message=message, param=None)

    def _opening(self) -> Iterator[bytes]:
        waiting = "queued" if self._queued else "in_progress"
        yield self._event("response.created", response=self._response(waiting))
        if self._queued:
            yield self._event("response.queued", response=self._response("queued"))
        yield self._event("response.in_progress", response=self._response("in_progress"))
        item = self._item("in_progress", None)
        yield self._event("response.output_item.added", output_index=0, item=item)
        part = self._part_event("added", "")
        if part is not None:
            yield part

    def _event(self, event_type: str, **fields: Any) -> bytes:
        data = {"type": event_type, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return sse(data, event_type)

    def _place(self) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """How the events for the answer's text are called, where they belong, and what else they hold."""
        where: dict[str, Any] = {"item_id": self._item_id, "output_index": 0}
        match self._reply.kind:
            case "text":
                return "response.output_text", {**where, "content_index": 0}, {"logprobs": []}
            case "refusal":
                return "response.refusal", {**where, "content_index": 0}, {}
            case "reasoning":
                return "response.reasoning_summary_text", {**where, "summary_index": 0}, {}
            case "tool_call":
                return "response.function_call_arguments", where, {}

    def _delta(self, piece: str) -> bytes:
        name, where, more = self._place()
        return self._event(f"{name}.delta", **where, **more, delta=piece)

    def _part_event(self, what: str, text: str) -> bytes | None:
        """The event that opens, or ends, the part of an item; a tool call has no parts."""
        if self._reply.kind == "tool_call":
            return None
        kind = "reasoning_summary_part" if self._reply.kind == "reasoning" else "content_part"
        return self._event(f"response.{kind}.{what}", **self._place()[1], part=self._part(text))

    def _part(self, text: str) -> dict[str, Any]:
        match self._reply.kind:
            case "refusal":
                return {"type": "refusal", "refusal": text}
            case "reasoning":
                return {"type": "summary_text", "text": text}
            case _:
                return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _item(self, status: str, text: str | None) -> dict[str, Any]:
        """The one item of the answer; without parts yet where `text` is None."""
        item: dict[str, Any] = {"id": self._item_id, "status": status}
        parts = [] if text is None else [self._part(text)]
        match self._reply.kind:
            case "reasoning":
                return {**item, "type": "reasoning", "summary": parts}
            case "tool_call":
                call_id = f"call_{self._call.number}"
                return {
                    **item,
                    "type": "function_call",
                    "call_id": call_id,
                    "name": TOOL,
                    "arguments": text or "",
                }
            case _:
                return {**item, "type": "message", "role": "assistant", "content": parts}

    def _response(self, status: str) -> dict[str, Any]:
        ended = status in ("completed", "incomplete", "failed")
        spoken = status in ("completed", "incomplete")
        body = self._call.body
        return {
            "id": f"resp_{self._call.provider.name}_{self._call.number}",
            "object": "response",
            "created_at": self._call.created,
            "status": status,
            "background": body.get("background") is True,
            "error": self._error if status == "failed" else None,
            "incomplete_details": {"reason": self._incomplete_reason} if status == "incomplete" else None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "metadata": body.get("metadata") or {},
            "model": self._call.model,
            "output": [self._item(status, "".join(self._said))] if spoken else [],
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": body.get("previous_response_id"),
            "temperature": body.get("temperature", 1.0),
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_p": body.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": self._usage() if ended and self._reply.usage else None,
        }

    def _usage(self) -> dict[str, Any]:
        reply = self._reply
        return {
            "input_tokens": reply.prompt_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": reply.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        }
