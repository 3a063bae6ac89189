"""Operations that answer in a way of their own: they send nothing yet, or hand out the SDK's raw responses."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from turnout.errors import ProviderError, UnsupportedOperationError
from turnout.faults import FAULTS, Effect, Fault, FaultRule, Then
from turnout.testing.simulator import Answer, Empty, Stall, Status, StatusOkError

FailureOf = Callable[[Callable[[], Any]], ProviderError]


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
@pytest.mark.parametrize(
    "operation",
    [
        "chat.completions.stream",
        "chat.completions.with_streaming_response.create",
        "with_streaming_response.chat.completions.create",
    ],
)
def test_an_operation_that_sends_nothing_when_called_is_refused_and_says_what_to_use(
    bench: Any, operation: str, failure_of: FailureOf
) -> None:
    failure = failure_of(lambda: bench.adapter().invoke(operation, {**bench.arguments, "model": "m"}))
    assert isinstance(failure, UnsupportedOperationError)
    assert failure.fault is Fault.INVALID_OPERATION
    assert 'use "create" itself, with stream=True' in str(failure)
    assert bench.simulator.total("alpha") == 0


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
@pytest.mark.parametrize(
    "operation",
    ["chat.completions.with_raw_response.create", "with_raw_response.chat.completions.create"],
)
def test_a_raw_response_is_judged_by_what_is_in_it(bench: Any, operation: str, failure_of: FailureOf) -> None:
    adapter, arguments = bench.adapter(), {**bench.arguments, "model": "m"}
    assert bench.text_of(adapter.invoke(operation, arguments).parse()) == "all is well"
    bench.play([StatusOkError("all broken", "server_error"), Empty(), Status(503)])
    assert failure_of(lambda: adapter.invoke(operation, arguments)).fault is Fault.SERVER_ERROR
    assert "not JSON" in str(failure_of(lambda: adapter.invoke(operation, arguments)))
    assert failure_of(lambda: adapter.invoke(operation, arguments)).status_code == 503


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
def test_a_raw_response_that_streams_is_refused_and_its_connection_given_back(
    bench: Any, failure_of: FailureOf
) -> None:
    bench.play(Stall(after_chunks=1))
    arguments = {**bench.arguments, "model": "m", "stream": True}
    operation = "chat.completions.with_raw_response.create"
    failure = failure_of(lambda: bench.adapter().invoke(operation, arguments))
    assert isinstance(failure, UnsupportedOperationError)
    assert "leave out with_raw_response, or stream=True" in str(failure)
    bench.simulator.wait_for(lambda: bench.simulator.connections() == 0)


class Wanted(BaseModel):
    """What a caller has an answer parsed into."""

    number: int


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
@pytest.mark.parametrize(
    ("answer", "fault", "step"),
    [
        (Answer(text='{"num', finish_reason="length"), Fault.BAD_REQUEST, "raise max_completion_tokens"),
        (
            Answer(text="{", finish_reason="content_filter"),
            Fault.CONTENT_FILTER,
            "change what the request says",
        ),
        (Answer(text="no JSON"), Fault.BAD_REQUEST, "correct its response_format"),
        (Answer(text='{"number": "secret"}'), Fault.BAD_REQUEST, "correct its response_format"),
    ],
)
def test_an_answer_that_does_not_become_what_the_caller_has_it_parsed_into_is_the_callers_matter(
    bench: Any, answer: Answer, fault: Fault, step: str, failure_of: FailureOf
) -> None:
    bench.play(answer)
    arguments = {**bench.arguments, "model": "m", "response_format": Wanted}
    failure = failure_of(lambda: bench.adapter().invoke("chat.completions.parse", arguments))
    assert failure.fault is fault
    assert FAULTS[failure.fault] == FaultRule(Effect.NONE, Then.STOP)
    assert step in str(failure)
    assert "secret" not in str(failure)
    assert failure.original is failure.__cause__ is not None


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
def test_arguments_for_the_callers_own_tool_that_are_no_json_are_the_callers_matter(
    bench: Any, failure_of: FailureOf
) -> None:
    bench.play(Answer(text="{secret", kind="tool_call", finish_reason="tool_calls"))
    schema = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
    tool = {"type": "function", "function": {"name": "look_up", "strict": True, "parameters": schema}}
    arguments = {**bench.arguments, "model": "m", "tools": [tool]}
    failure = failure_of(lambda: bench.adapter().invoke("chat.completions.parse", arguments))
    assert failure.fault is Fault.BAD_REQUEST
    assert "correct its response_format or tools" in str(failure)
    assert "secret" not in str(failure)


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
@pytest.mark.parametrize("data", [[], [{"object": "embedding", "index": 0, "embedding": "AAA="}]])
def test_embeddings_that_the_sdk_cannot_decode_are_never_the_callers_matter(
    bench: Any, data: list[Any], failure_of: FailureOf
) -> None:
    body = json.dumps({"object": "list", "model": "m", "data": data})
    bench.play(Status(200, body=body, headers={"content-type": "application/json"}))
    arguments = {"model": "m", "input": "secret"}
    failure = failure_of(lambda: bench.adapter().invoke("embeddings.create", arguments))
    assert FAULTS[failure.fault].then is Then.NEXT
    assert "secret" not in str(failure)
