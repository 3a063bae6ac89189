"""What comes under HTTP 200 and is no answer: errors in shapes that the SDK lets pass, and shapes that nobody knows."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from turnout.errors import ProviderError, ProviderResponsesError
from turnout.faults import Fault
from turnout.testing.simulator import Status

FailureOf = Callable[[Callable[[], Any]], ProviderError]

DONE = "[DONE]"
JSON = {"content-type": "application/json"}
#: A body, and the fault, code and message that are read from it.
ERRORS: dict[str, tuple[dict[str, Any], Fault, str | None, str]] = {
    "object": ({"object": "error", "message": "boom", "code": 500}, Fault.SERVER_ERROR, "500", "boom"),
    "typed object": (
        {"object": "error", "message": "slow down", "type": "rate_limit_error", "code": None},
        Fault.RATE_LIMIT,
        "rate_limit_error",
        "slow down",
    ),
    "detail": ({"detail": "boom"}, Fault.UNKNOWN, None, "boom"),
    "details": ({"detail": [{"loc": ["body"], "msg": "field required"}]}, Fault.UNKNOWN, None, "field required"),
    "msg": ({"code": 1113, "msg": "insufficient balance"}, Fault.QUOTA, "1113", "insufficient balance"),
    "message": ({"code": "429", "message": "not so fast"}, Fault.RATE_LIMIT, "429", "not so fast"),
    "error_code": ({"text": "boom", "error_code": 50001}, Fault.UNKNOWN, "50001", "boom"),
}  # fmt: skip
errors = pytest.mark.parametrize("name", ERRORS)


def events(*bodies: object) -> Status:
    """A stream of these events, and nothing else."""
    text = "".join(f"data: {body if body is DONE else json.dumps(body)}\n\n" for body in bodies)
    return Status(200, body=text, headers={"content-type": "text/event-stream"})


def opening(bench: Any) -> dict[str, Any]:
    if bench.chat:
        return {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    return {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}


def assert_declared(failure: ProviderError, name: str, bench: Any) -> None:
    body, fault, code, message = ERRORS[name]
    assert (failure.fault, failure.error_code) == (fault, code)
    assert failure.message == message
    assert message in str(failure)
    assert isinstance(failure, ProviderResponsesError) is not bench.chat
    assert isinstance(failure.body, dict)
    assert {key: value for key, value in failure.body.items() if value is not None} == {
        key: value for key, value in body.items() if value is not None
    }


@pytest.mark.parametrize("end", [(), (DONE,)], ids=["closed", "done"])
@pytest.mark.parametrize("opened", [False, True], ids=["first", "later"])
@errors
def test_an_event_in_the_shape_of_an_error_is_the_error_that_it_declares(
    bench: Any, name: str, opened: bool, end: tuple[str, ...], failure_of: FailureOf
) -> None:
    bench.play(events(*[opening(bench)] * opened, ERRORS[name][0], *end))
    stream = bench.stream()
    assert_declared(failure_of(lambda: list(stream)), name, bench)
    assert not stream.has_content
    assert not stream.completed


#: What stands beside an answer, if an empty one, and says nothing of it.
remarks = pytest.mark.parametrize(
    "remark",
    [
        {"code": "success", "message": "success"},
        {"code": 20000, "msg": "ok"},
        {"detail": "x"},
        {"error_code": 1},
        {"error": None, "code": 500, "message": "x"},
    ],
)


@remarks
@pytest.mark.parametrize("bench", ["chat"], indirect=True)
def test_a_chunk_that_keeps_a_stream_alive_is_no_error_for_the_words_in_it(
    bench: Any, remark: dict[str, Any]
) -> None:
    finish = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    bench.play(events({"choices": [], **remark}, finish))
    stream = bench.stream()
    assert [stream.has_content for _ in stream] == [False, True]
    assert stream.completed


@remarks
def test_a_whole_answer_is_no_error_for_the_words_beside_it(bench: Any, remark: dict[str, Any]) -> None:
    bench.play(whole({"id": "c", "choices" if bench.chat else "output": [], **remark}))
    assert bench.call().id == "c"


@pytest.mark.parametrize("body", [{"error": {"message": "boom"}}, {"object": "error", "message": "boom"}])
@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_beside_an_empty_answer_is_the_error_that_it_declares(
    bench: Any, body: dict[str, Any], streamed: bool, failure_of: FailureOf
) -> None:
    body = {"choices" if bench.chat else "output": [], **body}
    bench.play(events(body) if streamed else whole(body))
    failure = failure_of(lambda: list(bench.stream()) if streamed else bench.call())
    assert failure.message == "boom"


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ({}, Fault.SERVER_ERROR),
        ({"error": {"code": 502, "message": "the answer ended early"}}, Fault.SERVER_ERROR),
        ({"error": {"code": 429, "message": "the answer ended early"}}, Fault.RATE_LIMIT),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("bench", ["chat"], indirect=True)
def test_a_choice_that_finished_with_an_error_is_its_providers_failure(
    bench: Any, streamed: bool, error: dict[str, Any], fault: Fault, failure_of: FailureOf
) -> None:
    said = {"delta" if streamed else "message": {"role": "assistant", "content": ""}}
    body = {"id": "c", "choices": [{"index": 0, **said, "finish_reason": "error", **error}]}
    bench.play(events(body, DONE) if streamed else whole(body))
    failure = failure_of(lambda: list(bench.stream()) if streamed else bench.call())
    assert failure.fault is fault
    assert "the answer ended" in str(failure)


@pytest.mark.parametrize("event", [None, "boom", [], 5])
@pytest.mark.parametrize("end", [(), (DONE,)], ids=["closed", "done"])
def test_an_event_that_is_json_and_no_object_is_malformed(
    bench: Any, event: Any, end: tuple[str, ...], failure_of: FailureOf
) -> None:
    bench.play(events(opening(bench), event, *end))
    failure = failure_of(lambda: list(bench.stream()))
    assert failure.fault is Fault.STREAM_INTERRUPTED
    assert "malformed chunk" in str(failure)


def test_a_stream_of_no_known_shape_is_whole_at_its_end_and_told_of_once(
    bench: Any, warnings_told: list[str]
) -> None:
    strange = {"word": "hi"}
    bench.play([events(strange, strange), events(strange, strange, DONE)])
    adapter = bench.adapter()
    for stream in (bench.stream(adapter), bench.stream(adapter)):
        assert [stream.has_content for _ in stream] == [False, False]
        assert stream.completed
        assert stream.has_content
    (warning,) = warnings_told
    assert bench.operation in warning


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
@pytest.mark.parametrize("end", [(), (DONE,)], ids=["closed", "done"])
def test_a_chat_stream_of_events_without_a_choice_is_cut_short(
    bench: Any, end: tuple[str, ...], warnings_told: list[str]
) -> None:
    bench.play(events({"id": "c", "choices": None}, *end))
    stream = bench.stream()
    assert len(list(stream)) == 1
    assert not stream.completed
    assert not stream.has_content
    assert warnings_told == []


def test_strange_events_before_those_of_an_answer_are_no_content(bench: Any) -> None:
    bench.play(events({"id": "c", "choices": None}, opening(bench)))
    stream = bench.stream()
    assert [stream.has_content for _ in stream] == [False, False]
    assert not stream.completed


def whole(body: object) -> Status:
    """A whole answer."""
    return Status(200, body=json.dumps(body), headers=JSON)


@pytest.mark.parametrize("start", ["", "\ufeff", ": hello\n\n"])
def test_an_event_named_error_is_one_whatever_its_data_look_like(
    bench: Any, start: str, failure_of: FailureOf
) -> None:
    text = f'{start}event: error\ndata: {{"message": "boom"}}\n\n'
    bench.play(Status(200, body=text, headers={"content-type": "text/event-stream"}))
    failure = failure_of(lambda: list(bench.stream()))
    assert "declared an error" in str(failure)
    assert failure.message == "boom"


def test_a_remark_before_an_event_named_error_does_not_pass_for_it(bench: Any, failure_of: FailureOf) -> None:
    error = json.dumps({"error": {"message": "bad key", "code": "invalid_api_key"}})
    text = f'data: {{"ping": 1}}\n\nevent: error\ndata: {error}\n\n'
    bench.play(Status(200, body=text, headers={"content-type": "text/event-stream"}))
    failure = failure_of(lambda: list(bench.stream()))
    assert (failure.fault, failure.message) == (Fault.AUTH, "bad key")


def test_an_error_in_place_of_a_stream_may_begin_with_a_byte_order_mark(
    bench: Any, failure_of: FailureOf
) -> None:
    body = "\ufeff" + json.dumps(ERRORS["message"][0])
    bench.play(Status(200, body=body, headers=JSON))
    assert_declared(failure_of(lambda: list(bench.stream())), "message", bench)


@errors
def test_an_error_in_place_of_a_stream_is_the_error_that_it_declares(
    bench: Any, name: str, failure_of: FailureOf
) -> None:
    bench.play(whole(ERRORS[name][0]))
    assert_declared(failure_of(lambda: list(bench.stream())), name, bench)


def test_a_whole_answer_in_place_of_a_stream_is_cut_short(bench: Any) -> None:
    bench.play(whole({"id": "c", "choices": [], "output": []}))
    stream = bench.stream()
    assert list(stream) == []
    assert not stream.completed


@errors
def test_an_answer_in_the_shape_of_an_error_is_the_error_that_it_declares(
    bench: Any, name: str, failure_of: FailureOf
) -> None:
    bench.play(whole(ERRORS[name][0]))
    assert_declared(failure_of(bench.call), name, bench)


@pytest.mark.parametrize(
    "body",
    [
        None,
        float("nan"),
        [],
        {},
        {"choices": None},
        {"id": "c", "object": "chat.completion", "model": "m", "choices": {"0": "hi"}, "usage": None},
        {"status": ["completed"], "output": None},
        {"status": "ok", "data": "hi"},
        {"code": 0, "message": "success", "data": None},
    ],
)
def test_an_answer_without_what_every_answer_has_is_its_providers_failure(
    bench: Any, body: object, failure_of: FailureOf
) -> None:
    bench.play(whole(body))
    failure = failure_of(bench.call)
    assert failure.fault is Fault.SERVER_ERROR
    assert "no answer; check its base_url and protocol" in str(failure)


def test_an_answer_of_the_other_protocol_is_its_providers_failure(bench: Any, failure_of: FailureOf) -> None:
    choices = [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]
    other = {"object": "response", "output": []} if bench.chat else {"choices": choices}
    bench.play(whole(other))
    assert failure_of(bench.call).fault is Fault.SERVER_ERROR


def test_an_answer_that_says_nothing_is_an_answer(bench: Any) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}
    bench.play(whole({"id": "c", "choices": [], "usage": usage} if bench.chat else {"id": "r", "output": []}))
    assert bench.call().id == ("c" if bench.chat else "r")


@pytest.mark.parametrize("bench", ["responses"], indirect=True)
@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
def test_a_response_without_output_passes_while_its_status_says_why(bench: Any, status: str) -> None:
    bench.play(whole({"id": "r", "object": "response", "status": status}))
    assert bench.call().status == status


def test_an_error_nested_too_deep_to_be_kept_is_still_the_error_that_it_declares(
    bench: Any, failure_of: FailureOf
) -> None:
    said = '"message": "slow down", "code": "rate_limit_exceeded"'
    body = f'{{"error": {{{said}, "trace": {"[" * 700}{"]" * 700}}}}}'
    bench.play([Status(429, body=body, retry_after=30, headers=JSON), Status(200, body=body, headers=JSON)])
    adapter = bench.adapter()
    refused, declared = failure_of(lambda: bench.call(adapter)), failure_of(lambda: bench.call(adapter))
    assert (refused.status_code, refused.fault, refused.retry_after_seconds) == (429, Fault.RATE_LIMIT, 30.0)
    assert (refused.error_code, refused.message) == ("rate_limit_exceeded", "slow down")
    assert (declared.fault, declared.message) == (Fault.RATE_LIMIT, "slow down")
