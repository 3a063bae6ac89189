"""Turns a behaviour into the steps of one HTTP response."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from turnout.testing.simulator import behaviours as does
from turnout.testing.simulator.chat import ChatRendering
from turnout.testing.simulator.events import Event, Part, Rendering, error_object
from turnout.testing.simulator.provider import Call, Reply, reply_to
from turnout.testing.simulator.refusals import body_steps, json_steps, status_steps
from turnout.testing.simulator.responses import ResponsesRendering
from turnout.testing.simulator.steps import Finish, HangUp, Head, Pause, Piece, StayOpen, Step

_SSE = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_JSON = {"content-type": "application/json"}
_NOT_JSON = b'data: {"id":"malformed","choices":[{"delta":{"content":\n\n'
_COMMENT = b": ping\n\n"
_PREFILL_REFUSED = does.Status(400, message="This model does not support assistant message prefill.")


def steps_for(behaviour: does.Behaviour, call: Call) -> Iterator[Step]:
    """The steps by which a provider shows `behaviour` to this call; may be endless."""
    if isinstance(behaviour, does.RefusesPrefill):
        behaviour = _PREFILL_REFUSED if call.continues else behaviour.answer
    behaviour = _as_understood(behaviour, call)
    match behaviour:
        case does.RefusesPrefill():
            raise AssertionError("it was an answer or a refusal by then")
        case does.Silence():
            return iter((StayOpen(),))
        case does.Reset(after_chunks=None):
            return iter((HangUp(reset=True),))
        case does.Status():
            return status_steps(behaviour)
        case does.StatusOkError(message, error_type, error_code):
            return json_steps(200, error_object(message, error_type, error_code))
        case does.Empty():
            return iter((Head(200, _SSE), Finish())) if call.stream else body_steps(200, b"", _JSON)
        case _:
            return _answered(behaviour, call)


def _as_understood(behaviour: does.Behaviour, call: Call) -> does.Behaviour:
    """What `behaviour` means in the request's protocol and form."""
    match behaviour:
        case does.Answer() if call.dialect == "responses" and call.body.get("background") is True:
            return does.Background(answer=behaviour)
        case does.Background(answer=answer) if call.dialect == "chat":
            return answer
        case does.Incomplete(reason, _, answer) if call.dialect == "chat":
            reasons = {"max_output_tokens": "length", "content_filter": "content_filter"}
            return replace(behaviour, answer=replace(answer, finish_reason=reasons[reason]))
        case does.InStreamError(message, error_type, code) if not call.stream:
            return does.StatusOkError(message, error_type, code)
        case does.ErrorEvent(code, message) if not call.stream:
            return does.StatusOkError(message, error_code=code)
        case does.Failed(code, message) if call.dialect == "chat" and not call.stream:
            return does.StatusOkError(message, error_code=code)
        case does.Failed(code, message, after, answer) | does.ErrorEvent(code, message, after, answer):
            if call.dialect == "chat":
                return does.InStreamError(message, "server_error", code, after, answer)
    return behaviour


_Answering = (
    does.Answer
    | does.Reset
    | does.SlowFirstToken
    | does.Cut
    | does.Stall
    | does.TrickledHeaders
    | does.TrickledBody
    | does.KeepAliveComments
    | does.EmptyChunks
    | does.MalformedChunk
    | does.MissingDone
    | does.NoFinish
    | does.InStreamError
    | does.Incomplete
    | does.Failed
    | does.ErrorEvent
    | does.Background
)


def _answered(behaviour: _Answering, call: Call) -> Iterator[Step]:
    answer = behaviour if isinstance(behaviour, does.Answer) else behaviour.answer
    if isinstance(behaviour, does.SlowFirstToken):
        answer = replace(answer, first_token_seconds=behaviour.seconds)
    reply = reply_to(call, answer)
    if isinstance(behaviour, does.Incomplete | does.Failed):
        pieces = reply.pieces[: behaviour.after_chunks]
        reply = replace(reply, pieces=pieces, text="".join(pieces))
    if reply.latency_seconds:
        yield Pause(reply.latency_seconds)
    rendering = _rendering(behaviour, call, reply)
    if call.stream:
        yield Head(200, _SSE, _head_interval(behaviour))
        yield from _paced(_shown(behaviour, rendering), reply, _body_interval(behaviour))
        yield from _stream_end(behaviour, rendering)
    else:
        yield from _plain(behaviour, rendering, reply)


def _rendering(behaviour: _Answering, call: Call, reply: Reply) -> Rendering:
    if call.dialect == "chat":
        return ChatRendering(call, reply)
    match behaviour:
        case does.Incomplete(reason):
            return ResponsesRendering(call, reply, status="incomplete", incomplete_reason=reason)
        case does.Failed(code, message):
            return ResponsesRendering(call, reply, status="failed", error={"code": code, "message": message})
        case does.Background(status):
            ends = "completed" if call.stream else status
            return ResponsesRendering(call, reply, status=ends, queued=status == "queued")
        case _:
            return ResponsesRendering(call, reply)


def _head_interval(behaviour: _Answering) -> float:
    return behaviour.byte_interval_seconds if isinstance(behaviour, does.TrickledHeaders) else 0.0


def _body_interval(behaviour: _Answering) -> float:
    return behaviour.byte_interval_seconds if isinstance(behaviour, does.TrickledBody) else 0.0


def _shown(behaviour: _Answering, rendering: Rendering) -> Iterator[Event]:
    """The events of the healthy stream that this behaviour lets through."""
    match behaviour:
        case does.KeepAliveComments(after_chunks=None):
            return iter(())
        case (
            does.Cut(after_chunks=int(count))
            | does.Reset(after_chunks=int(count))
            | does.Stall(after_chunks=int(count))
            | does.KeepAliveComments(after_chunks=int(count))
            | does.EmptyChunks(after_chunks=count)
            | does.InStreamError(after_chunks=int(count))
            | does.ErrorEvent(after_chunks=int(count))
        ):
            return rendering.events(count)
        case does.MalformedChunk(after_chunks=count):
            return _with_malformed(rendering.events(), count)
        case does.MissingDone():
            return (event for event in rendering.events() if event.part is not Part.DONE)
        case does.NoFinish():
            return (event for event in rendering.events() if event.part is not Part.FINISH)
        case _:
            return rendering.events()


def _with_malformed(events: Iterable[Event], texts: int) -> Iterator[Event]:
    """All events, with one that is not JSON after so many texts (at the latest before the end)."""
    placed = False
    for event in events:
        due = event.part is not Part.OPENING and texts == 0
        if not placed and (due or event.part not in (Part.OPENING, Part.TEXT)):
            placed = True
            yield Event(Part.MALFORMED, _NOT_JSON)
        if event.part is Part.TEXT:
            texts -= 1
        yield event


def _paced(events: Iterable[Event], reply: Reply, byte_interval_seconds: float) -> Iterator[Step]:
    """Pieces with the reply's pauses: before what follows the opening, and each later text."""
    pause = reply.first_token_seconds
    for event in events:
        if event.part is not Part.OPENING:
            if pause:
                yield Pause(pause)
            pause = 0.0
        yield Piece(event.data, event.part is Part.TEXT, byte_interval_seconds)
        if event.part is Part.TEXT:
            pause = reply.chunk_interval_seconds


def _stream_end(behaviour: _Answering, rendering: Rendering) -> Iterator[Step]:
    match behaviour:
        case does.Cut():
            yield HangUp()
        case does.Reset():
            yield HangUp(reset=True)
        case does.Stall():
            yield StayOpen()
        case does.KeepAliveComments(interval_seconds=interval):
            yield from _for_ever(lambda: _COMMENT, interval)
        case does.EmptyChunks(interval_seconds=interval):
            yield from _for_ever(rendering.empty_event, interval)
        case does.InStreamError(message, error_type, code):
            yield Piece(rendering.error_event(message, error_type, code))
            yield Finish()
        case does.ErrorEvent(code, message):
            yield Piece(rendering.typed_error_event(message, code))
            yield Finish()
        case _:
            yield Finish()


def _plain(behaviour: _Answering, rendering: Rendering, reply: Reply) -> Iterator[Step]:
    finished = not isinstance(behaviour, does.NoFinish)
    data = json.dumps(rendering.body(finished=finished), separators=(",", ":")).encode()
    half = data[: len(data) // 2]
    sized = {**_JSON, "content-length": str(len(data))}
    match behaviour:
        case does.KeepAliveComments(interval_seconds=interval) | does.EmptyChunks(interval_seconds=interval):
            yield Head(200, _JSON)
            yield from _for_ever(lambda: b" ", interval)
        case does.Cut():
            yield from (Head(200, sized), Piece(half), HangUp())
        case does.Reset():
            yield from (Head(200, sized), Piece(half), HangUp(reset=True))
        case does.Stall():
            yield from (Head(200, sized), Piece(half), StayOpen())
        case does.MalformedChunk():
            yield from body_steps(200, half, _JSON)
        case does.SlowFirstToken():
            yield from (Head(200, sized), Pause(reply.first_token_seconds), Piece(data), Finish())
        case _:
            yield Head(200, sized, _head_interval(behaviour))
            yield Piece(data, byte_interval_seconds=_body_interval(behaviour))
            yield Finish()


def _for_ever(data: Callable[[], bytes], interval_seconds: float) -> Iterator[Step]:
    while True:
        yield Piece(data())
        yield Pause(interval_seconds)
