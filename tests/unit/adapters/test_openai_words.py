"""Reading what providers say when they refuse."""

from types import SimpleNamespace
from typing import Any

import pytest

from turnout.adapters.openai_usage import usage_of
from turnout.adapters.openai_words import message_of, retry_after_seconds, should_retry, text_of
from turnout.calls import Usage

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
        ({"retry-after": ""}, None),
        ({"retry-after": "-inf"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "1_000"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "2 minutes"}, None),
        ({"retry-after-ms": "-1", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "inf"}, None),
        ({"retry-after-ms": "250.5"}, 0.2505),
        ({"retry-after": " .5 "}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "oops", "retry-after": "9"}, 9.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50"}, 30.0),
        ({"retry-after": "Tuesday, 14-Nov-23 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue Nov 14 22:13:50 2023"}, 30.0),
        ({"retry-after": "Tue, 99 Nov 2023 22:13:50 GMT"}, None),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, NOON) == seconds


def test_a_message_is_found_however_deep_it_lies() -> None:
    body: object = {"message": "down here"}
    for _ in range(5_000):
        body = {"error": [body]}
    assert message_of(body) == "down here"


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
    ("said", "obeyed"),
    [
        ("true", True),
        ("false", False),
        (" False ", False),
        ("", None),
        ("maybe", None),
        ("0", None),
        (None, None),
    ],
)
def test_only_a_plain_yes_or_no_says_whether_to_retry(said: str | None, obeyed: bool | None) -> None:
    assert should_retry({} if said is None else {"x-should-retry": said}) is obeyed


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
