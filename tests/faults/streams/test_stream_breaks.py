"""Streams that break: one whole answer, an announced restart, or a clear error; never a part that looks whole."""

from typing import Any

import pytest

from turnout import ProviderError, StreamRestart
from turnout.testing.simulator import (
    Answer,
    Behaviour,
    Cut,
    Empty,
    ErrorEvent,
    Failed,
    InStreamError,
    MalformedChunk,
    MissingDone,
    NoFinish,
    RefusesPrefill,
    Reset,
    Stall,
    Status,
    StatusOkError,
)

#: Cuts what stalls.
SHORT = {"first_token_timeout_seconds": 0.4, "idle_timeout_seconds": 0.4}
UNSEEN: dict[str, Behaviour] = {
    "a status": Status(503),
    "a reset before headers": Reset(),
    "an error under status 200": StatusOkError(),
    "no event at all": Empty(),
    "an error in a shape of its own": Status(200, body='data: {"detail": "boom"}\n\ndata: [DONE]\n\n'),
    "a remark alone": Status(200, body='data: {"type": "ping", "choices": null}\n\n'),
    "an end without a mark": NoFinish(Answer(text="")),
}


def breaks(after_chunks: int) -> dict[str, Behaviour]:
    return {
        "a cut": Cut(after_chunks),
        "a reset": Reset(after_chunks),
        "a stall": Stall(after_chunks),
        "a malformed chunk": MalformedChunk(after_chunks),
        "an error in the stream": InStreamError(after_chunks=after_chunks),
        "an error event": ErrorEvent(after_chunks=after_chunks),
        "a typed failure": Failed(after_chunks=after_chunks),
    }


BEFORE_CONTENT = {**UNSEEN, **breaks(0)}
AFTER_CONTENT = {**breaks(2), "an end without a mark": NoFinish()}
before_content = pytest.mark.parametrize("script", BEFORE_CONTENT.values(), ids=BEFORE_CONTENT.keys())
after_content = pytest.mark.parametrize("script", AFTER_CONTENT.values(), ids=AFTER_CONTENT.keys())


def read_into(chunks: list[Any], stream: Any) -> None:
    """Read to the end, one by one: an ``on_restart`` may empty ``chunks`` in between."""
    for chunk in stream:
        chunks += [chunk]


def is_all_of_the_backup(pair: Any, stream: Any, chunks: list[Any]) -> None:
    assert pair.text(chunks) == "all of backup"
    assert pair.models(chunks) == {"model-backup"}
    assert pair.simulator.total("primary") == pair.simulator.total("backup") == 1
    report = stream.report()
    assert report.answered_by.provider_id == "backup"
    assert report.attempts[-1].usage.input_tokens == 2
    assert stream.usage.model_dump().get("prompt_tokens" if pair.chat else "input_tokens") == 2


@pytest.mark.parametrize("listens", [False, True], ids=["", "with on_restart"])
@before_content
def test_a_break_before_content_fails_over_unseen(pair: Any, script: Behaviour, listens: bool) -> None:
    told: list[StreamRestart] = []
    router = pair.router(script, primary=SHORT, on_restart=told.append if listens else None)
    stream = pair.stream(router)

    is_all_of_the_backup(pair, stream, list(stream))

    assert told == []
    assert router.health_report()["primary"].consecutive_failures == 1


@pytest.mark.parametrize("script", breaks(0).values(), ids=breaks(0).keys())
def test_a_break_before_content_is_the_callers_to_know_where_nothing_is_restarted(
    pair: Any, script: Behaviour
) -> None:
    stream = pair.stream(pair.router(script, primary=SHORT, stream_failure_policy="raise"))

    with pytest.raises(ProviderError, match="model-primary"):
        next(stream)

    assert list(stream) == []
    assert pair.simulator.total("backup") == 0


@after_content
def test_a_break_after_content_is_started_over_where_somebody_discards(pair: Any, script: Behaviour) -> None:
    chunks: list[Any] = []
    told: list[tuple[int, int]] = []

    def discard(restart: StreamRestart) -> None:
        told.append((restart.chunks_yielded, len(chunks)))
        assert restart.error.provider_id == "primary"  # type: ignore[attr-defined]
        chunks.clear()

    stream = pair.stream(pair.router(script, primary=SHORT), on_restart=discard)
    read_into(chunks, stream)

    is_all_of_the_backup(pair, stream, chunks)
    ((yielded, seen),) = told
    assert yielded == seen > 0
    assert stream.restarts == 1


@pytest.mark.parametrize("policy", ["restart", "raise"])
@after_content
def test_a_break_after_content_is_an_error_where_nobody_discards(
    pair: Any, script: Behaviour, policy: str
) -> None:
    chunks: list[Any] = []
    stream = pair.stream(pair.router(script, primary=SHORT, stream_failure_policy=policy))

    with pytest.raises(ProviderError, match="model-primary"):
        read_into(chunks, stream)

    assert "never whole".startswith(pair.text(chunks))
    assert pair.models(chunks) == {"model-primary"}
    assert list(stream) == []
    assert pair.simulator.total("backup") == 0


@pytest.mark.parametrize(
    "script", [*BEFORE_CONTENT.values(), *AFTER_CONTENT.values()], ids=[*BEFORE_CONTENT, *AFTER_CONTENT]
)
def test_held_back_until_it_is_whole_a_stream_always_fails_over_unseen(pair: Any, script: Behaviour) -> None:
    told: list[StreamRestart] = []
    router = pair.router(script, primary=SHORT, stream_failure_policy="hold", on_restart=told.append)
    stream = pair.stream(router)

    first = next(stream)
    # It ended before it was handed out.
    assert router.stats().streams == 0
    is_all_of_the_backup(pair, stream, [first, *stream])
    assert told == []


@pytest.mark.parametrize("policy", ["restart", "raise", "hold"])
def test_an_answer_marked_finished_is_whole_without_done_and_keeps_its_usage(pair: Any, policy: str) -> None:
    router = pair.router(MissingDone(Answer(text="whole")), stream_failure_policy=policy)
    stream = pair.stream(router)

    assert pair.text(stream) == "whole"
    assert stream.report().attempts[0].usage.input_tokens == 1
    assert pair.simulator.total("backup") == 0


@pytest.mark.parametrize("policy", ["restart", "raise", "hold"])
@pytest.mark.parametrize("kind", ["reasoning", "refusal", "tool_call"])
def test_an_answer_of_any_kind_is_an_answer(pair: Any, kind: Any, policy: str) -> None:
    router = pair.router(Answer(text="abc", chunks=3, kind=kind), stream_failure_policy=policy)

    chunks = list(pair.stream(router))

    assert said(pair, kind, chunks) == "abc"
    assert pair.simulator.total("backup") == 0


@pytest.mark.parametrize("kind", ["reasoning", "refusal", "tool_call"])
def test_whatever_is_said_is_content_and_comes_as_soon_as_it_is_there(pair: Any, kind: Any) -> None:
    router = pair.router(Stall(1, Answer(text="abc", chunks=3, kind=kind)))
    stream = pair.stream(router)
    chunks: list[Any] = []
    while not said(pair, kind, chunks):
        chunks.append(next(stream))

    assert said(pair, kind, chunks) == "a"
    if pair.chat:
        assert chunks[0].choices[0].delta.role == "assistant"
    else:
        assert chunks[0].type == "response.created"


@pytest.mark.parametrize("kind", ["reasoning", "tool_call"])
def test_what_the_broken_stream_left_open_is_never_spliced_into_the_next(pair: Any, kind: Any) -> None:
    """Both say their arguments, or thoughts, in the same place: only a fresh start tells them apart."""
    pair.simulator.script("backup", Answer(text="backup's", chunks=3, kind=kind))
    router = pair.router(Cut(2, Answer(text="primary's", chunks=3, kind=kind)))
    chunks: list[Any] = []
    stream = pair.stream(router, on_restart=lambda restart: chunks.clear())

    read_into(chunks, stream)

    assert said(pair, kind, chunks) == "backup's"
    assert pair.models(chunks) == {"model-backup"}
    if not pair.chat:
        assert [event.sequence_number for event in chunks] == [*range(len(chunks))]


@pytest.mark.parametrize("policy", ["restart", "raise", "hold"])
def test_a_finished_answer_that_says_nothing_is_handed_out_as_it_is(pair: Any, policy: str) -> None:
    router = pair.router(Answer(text=""), stream_failure_policy=policy)
    stream = pair.stream(router)

    chunks = list(stream)

    assert pair.text(chunks) == ""
    assert len(chunks) > 1
    assert pair.models(chunks) == {"model-primary"}
    assert stream.report().answered_by.provider_id == "primary"
    assert pair.simulator.total("backup") == 0


def test_a_backup_that_refuses_a_prefill_is_asked_from_the_start(pair: Any) -> None:
    pair.simulator.script("backup", RefusesPrefill())
    router = pair.router(Cut(2))
    chunks: list[Any] = []

    stream = pair.stream(router, on_restart=lambda restart: chunks.clear())
    read_into(chunks, stream)

    is_all_of_the_backup(pair, stream, chunks)
    (first,), (second,) = pair.simulator.requests("primary"), pair.simulator.requests("backup")
    assert {**first.body, "model": "model-backup"} == second.body


def test_code_for_openais_client_gets_whole_answers_from_a_router_that_holds(pair: Any) -> None:
    client = pair.router(Cut(2), stream_failure_policy="hold").client()
    create = client.chat.completions.create if pair.chat else client.responses.create

    assert pair.text(create(**pair.variant.arguments)) == "all of backup"


def said(pair: Any, kind: str, chunks: list[Any]) -> str:
    """What a stream said in the way of ``kind``."""
    if not pair.chat:
        names = {"reasoning": "reasoning_summary_text", "tool_call": "function_call_arguments"}
        name = f"response.{names.get(kind, kind)}.delta"
        return "".join(event.delta for event in chunks if event.type == name)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    match kind:
        case "reasoning":
            return "".join(getattr(delta, "reasoning_content", "") for delta in deltas)
        case "refusal":
            return "".join(delta.refusal or "" for delta in deltas)
        case _:
            calls = [call for delta in deltas for call in delta.tool_calls or []]
            return "".join(call.function.arguments for call in calls)
