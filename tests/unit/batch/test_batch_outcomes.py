"""Output lines, in OpenAI's batch format."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from turnout import (
    DeadlineExceededError,
    Exclusion,
    FailedAttempt,
    Fault,
    NoEligibleProvidersError,
    ProviderHTTPError,
    ProviderTimeoutError,
    RouterExhaustedError,
)
from turnout.batch.lines import BadLine
from turnout.batch.outcomes import Ending, OutputLine, answered, failed, invalid

INVOCATION = "0192f0c1-0000-7000-8000-000000000001"
ID = "batch_req_0192f0c1000070008000000000000001"


def fields(line: OutputLine) -> Any:
    assert line.data.endswith(b"\n")
    assert line.data.count(b"\n") == 1
    return json.loads(line.data)


def exhausted(*errors: Exception, fault: Fault = Fault.TIMEOUT) -> RouterExhaustedError:
    return RouterExhaustedError([FailedAttempt("p", "P", "m", fault, error, str(error)) for error in errors])


def test_an_answer_is_given_as_the_provider_sent_it() -> None:
    sent: dict[str, Any] = {
        "id": "c1",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "é\u2028"}}
        ],
        "created": 1,
        "model": "m",
        "object": "chat.completion",
        "vendor": {"cost": 0.5},
    }
    answer = ChatCompletion.construct(**sent)
    answer._request_id = "req_1"
    line = answered("a", INVOCATION, answer)
    assert line.ending is Ending.ANSWERED
    assert fields(line) == {
        "id": ID,
        "custom_id": "a",
        "response": {"status_code": 200, "request_id": "req_1", "body": sent},
        "error": None,
    }
    assert line.data.isascii()


def test_an_answer_of_ones_own_adapter_may_be_plain_json() -> None:
    response = fields(answered("a", INVOCATION, {"text": "hi"}))["response"]
    assert response == {"status_code": 200, "request_id": None, "body": {"text": "hi"}}


@pytest.mark.parametrize("answer", [object(), {"value": float("nan")}])
def test_an_answer_that_json_cannot_hold_is_a_failure(answer: object) -> None:
    line = answered("a", INVOCATION, answer)
    assert line.ending is Ending.FAILED
    assert fields(line)["error"]["code"] == "unreadable_answer"
    assert fields(line)["response"] is None


def test_an_http_failure_is_the_response_as_openai_gives_it() -> None:
    error = ProviderHTTPError(
        "P answered HTTP 400",
        message="no such tool",
        error_type="invalid_request_error",
        error_code="bad_tool",
        status_code=400,
        body={"message": "no such tool", "param": "tools", "key": "sk-secret"},
    )
    line = failed("a", INVOCATION, exhausted(ConnectionError("other"), error, fault=Fault.BAD_REQUEST))
    assert (line.ending, line.problem) == (Ending.FAILED, "P answered HTTP 400")
    assert fields(line) == {
        "id": ID,
        "custom_id": "a",
        "response": {
            "status_code": 400,
            "request_id": None,
            "body": {
                "error": {
                    "message": "no such tool",
                    "type": "invalid_request_error",
                    "param": "tools",
                    "code": "bad_tool",
                }
            },
        },
        "error": None,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (exhausted(ProviderTimeoutError("too late")), "timeout"),
        (exhausted(ConnectionError("gone"), fault=Fault.CONNECTION), "connection"),
        (
            NoEligibleProvidersError([Exclusion("p", "P", "in_cooldown", "is benched")]),
            "no_eligible_provider",
        ),
        (DeadlineExceededError(2.0), "deadline_exceeded"),
        (RuntimeError("surprise"), "internal_error"),
    ],
)
def test_any_other_failure_is_an_error_with_its_kind_and_all_causes(error: Exception, code: str) -> None:
    found = fields(failed("a", INVOCATION, error))
    assert found["response"] is None
    assert found["error"]["code"] == code
    assert str(error) in found["error"]["message"]


def test_a_bad_line_says_its_number() -> None:
    line = invalid(BadLine(7, None, "url: Field required"))
    assert line.ending is Ending.INVALID
    found = fields(line)
    assert found.pop("id").startswith("batch_req_")
    assert found == {
        "custom_id": None,
        "response": None,
        "error": {"code": "invalid_line", "message": "line 7: url: Field required"},
    }
