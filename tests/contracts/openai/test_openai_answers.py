"""Streams and typed endings, as the adapters hand them out."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from turnout.adapters.openai_usage import usage_of
from turnout.calls import Usage
from turnout.clock import SystemClock
from turnout.deadline import Limit
from turnout.errors import (
    ProviderError,
    ProviderResponsesError,
    ProviderStreamInterruptedError,
    ProviderTimeoutError,
)
from turnout.faults import Fault
from turnout.testing.simulator import (
    Answer,
    Background,
    Cut,
    Empty,
    ErrorEvent,
    Failed,
    Incomplete,
    InStreamError,
    MalformedChunk,
    MissingDone,
    NoFinish,
    Reset,
    ScriptLike,
    Stall,
)

FailureOf = Callable[[Callable[[], Any]], ProviderError]


def test_a_stream_gives_the_sdks_chunks_in_order_and_knows_its_end(bench: Any) -> None:
    with bench.stream() as stream:
        chunks = list(stream)
        assert "".join(map(bench.piece_of, chunks)) == "all is well"
        assert stream.completed
        assert stream.has_content
    wanted = "ChatCompletionChunk" if bench.chat else "Response"
    assert all(type(chunk).__name__.startswith(wanted) for chunk in chunks)


def test_a_streams_usage_is_the_sdks_own_object(bench: Any) -> None:
    more = {"stream_options": {"include_usage": True}} if bench.chat else {}
    bench.play(Answer(prompt_tokens=11, cached_tokens=4, completion_tokens=7))
    adapter = bench.adapter()
    stream = bench.stream(adapter, **more)
    list(stream)
    assert stream.usage.total_tokens == 18
    assert usage_of(stream) == Usage(11, 4, 7)


def test_a_whole_answers_usage_is_read(bench: Any) -> None:
    bench.play([Answer(prompt_tokens=11, cached_tokens=4, completion_tokens=7), Answer(usage=False)])
    adapter = bench.adapter()
    assert usage_of(bench.call(adapter)) == Usage(11, 4, 7)
    assert usage_of(bench.call(adapter)) is None


def test_a_prelude_is_no_content(bench: Any, failure_of: FailureOf) -> None:
    bench.play(Cut(after_chunks=0))
    stream, preludes = bench.stream(), []
    failure = failure_of(lambda: preludes.extend(stream))
    assert isinstance(failure, ProviderStreamInterruptedError)
    assert preludes
    assert not stream.has_content
    assert not stream.completed


def test_a_limit_that_ends_before_content_is_a_timeout(bench: Any, failure_of: FailureOf) -> None:
    bench.play(Stall(after_chunks=0))
    clock = SystemClock()
    limit = Limit(clock.monotonic() + 20.0, clock)
    stream = bench.adapter().invoke(
        bench.operation, {**bench.arguments, "model": "m-1", "stream": True}, limit=limit
    )
    next(stream)
    limit.latest = clock.monotonic()
    assert isinstance(failure_of(lambda: list(stream)), ProviderTimeoutError)
    assert not stream.has_content


def test_a_missing_done_marker_does_not_make_an_answer_incomplete(bench: Any) -> None:
    bench.play(MissingDone())
    stream = bench.stream()
    assert "".join(map(bench.piece_of, stream)) == "all is well"
    assert stream.completed


@pytest.mark.parametrize("script", [NoFinish(), Empty()])
def test_a_stream_that_ends_without_its_marker_is_not_complete(bench: Any, script: ScriptLike) -> None:
    bench.play(script)
    stream = bench.stream()
    list(stream)
    assert not stream.completed


@pytest.mark.parametrize("script", [Cut(2), Reset(2), MalformedChunk(2)])
def test_a_broken_stream_is_an_interrupted_one(bench: Any, script: ScriptLike, failure_of: FailureOf) -> None:
    bench.play(script)
    stream = bench.stream()
    failure = failure_of(lambda: list(stream))
    assert isinstance(failure, ProviderStreamInterruptedError)
    assert failure.fault is Fault.STREAM_INTERRUPTED
    assert failure.original is failure.__cause__ is not None
    assert stream.has_content
    assert list(stream) == []


@pytest.mark.parametrize(
    ("code", "error_type", "fault"),
    [
        ("rate_limit_exceeded", "requests", Fault.RATE_LIMIT),
        (None, "server_error", Fault.SERVER_ERROR),
        ("insufficient_quota", "insufficient_quota", Fault.QUOTA),
        ("invalid_prompt", "invalid_request_error", Fault.BAD_REQUEST),
        ("odd", "odd", Fault.UNKNOWN),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_object_under_status_200_is_the_error_it_says(
    bench: Any, code: str | None, error_type: str, fault: Fault, streamed: bool, failure_of: FailureOf
) -> None:
    bench.play(InStreamError("slow down", error_type, code, after_chunks=1))
    failure = failure_of(lambda: list(bench.stream()) if streamed else bench.call())
    assert failure.fault is fault
    assert failure.error_code == (code or error_type)
    assert "slow down" in str(failure)
    assert isinstance(failure, ProviderResponsesError) is not bench.chat


@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_object_under_status_200_is_kept_but_for_the_key(
    bench: Any, streamed: bool, failure_of: FailureOf
) -> None:
    bench.play(InStreamError("no sk-very-secret-key here", "server_error", "sk-very-secret-key", 1))
    failure = failure_of(lambda: list(bench.stream()) if streamed else bench.call())
    assert (failure.message, failure.error_type, failure.error_code) == (
        "no [key] here",
        "server_error",
        "[key]",
    )
    assert failure.body == {
        "message": "no [key] here", "type": "server_error", "param": None, "code": "[key]",
    }  # fmt: skip
    # A whole answer comes without an exception.
    assert failure.original is failure.__cause__
    assert isinstance(failure.original, openai.APIError) is streamed


def test_closing_a_stream_gives_its_connection_back_and_is_final(bench: Any) -> None:
    bench.play(Stall(after_chunks=1))
    stream = bench.stream()
    next(stream)
    stream.close()
    stream.close()
    assert list(stream) == []
    bench.simulator.wait_for(lambda: bench.simulator.connections() == 0)


def test_closing_from_another_thread_wakes_the_reader_who_sees_the_end(bench: Any) -> None:
    bench.play(Stall(after_chunks=1))
    stream = bench.stream()
    while not stream.has_content:
        next(stream)
    read: list[Any] = []
    reader = threading.Thread(target=lambda: read.append(list(stream)))
    reader.start()
    stream.close()
    reader.join(30)
    assert read == [[]]
    bench.simulator.wait_for(lambda: bench.simulator.connections() == 0)


def test_who_reads_while_another_closes_sees_the_end(bench: Any) -> None:
    bench.play(Stall(after_chunks=1))
    stream = bench.stream()
    read: list[Any] = []
    native = stream._native

    def close() -> None:
        read.append(list(stream))
        native.close()

    stream._native = SimpleNamespace(close=close)
    stream.close()
    assert read == [[]]


def test_an_incomplete_answer_is_served_with_one_warning(bench: Any, warnings_told: list[str]) -> None:
    bench.play(Incomplete("max_output_tokens"))
    adapter = bench.adapter()
    bench.call(adapter)
    stream = bench.stream(adapter)
    list(stream)
    assert stream.completed
    wanted = [] if bench.chat else ["resp_alpha_1", "resp_alpha_2"]
    assert len(warnings_told) == len(wanted)
    for warning, response_id in zip(warnings_told, wanted, strict=True):
        assert response_id in warning
        assert all(word in warning for word in ("alpha", "m-1", "max_output_tokens"))


@pytest.mark.parametrize("bench", ["responses"], indirect=True)
@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_is_incomplete_for_a_reason_not_known_yet_is_served_with_one_warning(
    bench: Any, streamed: bool, warnings_told: list[str]
) -> None:
    reason: Any = "out_of_daylight"
    bench.play(Incomplete(reason))
    if streamed:
        stream = bench.stream()
        assert "".join(map(bench.piece_of, stream)) == "all is well"
        assert stream.completed
    else:
        answer = bench.call()
        assert (bench.text_of(answer), answer.status) == ("all is well", "incomplete")
    (warning,) = warnings_told
    assert reason in warning


@pytest.mark.parametrize("bench", ["responses"], indirect=True)
@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("rate_limit_exceeded", Fault.RATE_LIMIT),
        ("server_error", Fault.SERVER_ERROR),
        ("vector_store_timeout", Fault.TIMEOUT),
        ("invalid_prompt", Fault.BAD_REQUEST),
        ("image_too_large", Fault.BAD_REQUEST),
        ("something_new", Fault.UNKNOWN),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_response_declared_failed_keeps_what_the_provider_said(
    bench: Any, code: str, fault: Fault, streamed: bool, failure_of: FailureOf
) -> None:
    bench.play(Failed(code, "no luck", after_chunks=1))
    failure = failure_of(lambda: list(bench.stream()) if streamed else bench.call())
    assert isinstance(failure, ProviderResponsesError)
    assert (failure.fault, failure.error_code, failure.message) == (fault, code, "no luck")
    assert failure.response.status == "failed"
    assert (failure.event.type if streamed else failure.event) == ("response.failed" if streamed else None)


@pytest.mark.parametrize("bench", ["responses"], indirect=True)
def test_an_error_event_keeps_what_the_provider_said(bench: Any, failure_of: FailureOf) -> None:
    bench.play(ErrorEvent("rate_limit_exceeded", "slow down", after_chunks=1))
    failure = failure_of(lambda: list(bench.stream()))
    assert isinstance(failure, ProviderResponsesError)
    assert (failure.fault, failure.message, failure.event.type) == (Fault.RATE_LIMIT, "slow down", "error")


@pytest.mark.parametrize("bench", ["responses"], indirect=True)
def test_a_background_response_passes(bench: Any) -> None:
    bench.play(Background("queued"))
    assert bench.call().status == "queued"
