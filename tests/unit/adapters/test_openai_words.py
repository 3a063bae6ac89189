"""Reading what providers say when they refuse."""

from types import SimpleNamespace
from typing import Any

import pytest

from turnout.adapters.openai_usage import usage_of
from turnout.adapters.openai_words import (
    fault_of_code,
    fault_of_status,
    message_of,
    retry_after_seconds,
    text_of,
)
from turnout.calls import Usage
from turnout.faults import Fault

NOON = 1_700_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "oops", "retry-after": "9"}, 9.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, NOON) == seconds


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"message": "plain"}, "plain"),
        ({"error": "plain"}, "plain"),
        ({"error": {"message": "nested"}}, "nested"),
        ({"detail": "fastapi"}, "fastapi"),
        ({"detail": [{"msg": "field required"}]}, "field required"),
        ({"message": None}, ""),
        ("just text", "just text"),
        ("<html>gateway</html>", ""),
        (None, ""),
        (["odd"], ""),
        (SimpleNamespace(message="typed"), "typed"),
    ],
)
def test_the_message_is_found_wherever_servers_put_it(body: object, message: str) -> None:
    assert message_of(body) == message


@pytest.mark.parametrize(
    ("code", "error_type", "fault"),
    [
        ("rate_limit_exceeded", None, Fault.RATE_LIMIT),
        ("insufficient_quota", "rate_limit_error", Fault.QUOTA),
        (None, "overloaded_error", Fault.SERVER_ERROR),
        ("429", None, Fault.RATE_LIMIT),
        ("502", None, Fault.SERVER_ERROR),
        ("7", None, Fault.UNKNOWN),
        ("invalid_api_key", None, Fault.AUTH),
        ("server_error", None, Fault.SERVER_ERROR),
        ("request_timeout", None, Fault.TIMEOUT),
        ("invalid_image_url", None, Fault.BAD_REQUEST),
        ("empty_image_file", None, Fault.BAD_REQUEST),
        (None, None, Fault.UNKNOWN),
    ],
)
def test_a_code_without_a_status_is_one_fault(code: str | None, error_type: str | None, fault: Fault) -> None:
    assert fault_of_code(code, error_type) is fault


def test_a_refusal_for_lack_of_quota_is_told_from_one_for_lack_of_rights() -> None:
    assert fault_of_status(403, None, None, "You have insufficient quota left") is Fault.QUOTA
    assert fault_of_status(403, "access_denied", None, "Not for you") is Fault.AUTH


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (429, "429"), ("", None), (None, None), (True, None), ([], None)]
)
def test_codes_are_text(value: object, text: str | None) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("native", "usage"),
    [
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, Usage(3, None, 4)),
        (SimpleNamespace(usage=SimpleNamespace(prompt_tokens=3)), Usage(3, None, None)),
        (
            SimpleNamespace(
                usage=SimpleNamespace(
                    input_tokens=5, output_tokens=0, input_tokens_details=SimpleNamespace(cached_tokens=2)
                )
            ),
            Usage(5, 2, 0),
        ),
        ({"usage": {"prompt_tokens": True, "completion_tokens": "4"}}, None),
        ({"usage": {"prompt_tokens": -1}}, None),
        (SimpleNamespace(usage=None), None),
        (None, None),
        ("text", None),
    ],
)
def test_usage_is_read_from_what_is_there_and_never_made_up(native: Any, usage: Usage | None) -> None:
    assert usage_of(native) == usage
