"""Input lines: what a good one becomes, and what is said of a bad one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from turnout import ApiProtocol, CallType, CallVariant
from turnout.batch import BadLine, BatchRequest, read_lines

Line = Callable[..., bytes]
MESSAGES = [{"role": "user", "content": "hello"}]


def only(*lines: bytes | str) -> Any:
    (read,) = read_lines(lines)
    return read


def test_a_chat_line_becomes_the_chat_call_without_its_model(line: Line) -> None:
    assert only(line("a")) == BatchRequest(
        1,
        "a",
        CallVariant(
            ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, {"messages": MESSAGES}
        ),
    )


def test_a_responses_line_becomes_the_responses_call(line: Line) -> None:
    read = only(line("a", url="/v1/responses", body={"model": "m", "input": "hello"}))
    assert read.call == CallVariant(
        ApiProtocol.OPENAI_RESPONSES, "responses.create", CallType.REGULAR, {"input": "hello"}
    )


def test_whatever_else_the_body_holds_is_sent_as_it_is_and_never_taken_for_an_option_of_the_sdk(
    line: Line,
) -> None:
    rest = {"temperature": 0, "top_k": 3, "timeout": 1, "extra_headers": {"x": "y"}}
    read = only(line("a", body={"model": "m", "messages": MESSAGES, "stream": False, **rest}))
    assert read.call.arguments == {"messages": MESSAGES, "extra_body": rest}


def test_blank_lines_are_passed_over_and_counted(line: Line) -> None:
    assert [read.number for read in read_lines([b"\n", line("a"), b"  \r\n", line("b")])] == [2, 4]


def test_text_lines_a_byte_order_mark_and_windows_line_ends_are_read(line: Line) -> None:
    assert only(line("a").decode()).custom_id == "a"
    assert only(b"\xef\xbb\xbf" + line("a")[:-1] + b"\r\n").custom_id == "a"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"custom_id": ...}, "custom_id: Field required"),
        ({"custom_id": 7}, "custom_id: Input should be a valid string"),
        ({"custom_id": " "}, "custom_id: must not be blank"),
        ({"method": "GET"}, "method: Input should be 'POST'"),
        ({"url": "/v1/embeddings"}, "url: Input should be '/v1/chat/completions' or '/v1/responses'"),
        ({"url": ..., "method": ...}, "method: Field required; url: Field required"),
        ({"body": ...}, "body: Field required"),
        ({"body": []}, "body: Input should be a valid dictionary"),
        ({"body": {}}, "body.messages: Field required"),
        ({"body": {"messages": "hi"}}, "body.messages: Input should be a valid list"),
        (
            {"body": {"messages": MESSAGES, "stream": True}},
            "body.stream: a batch has no streams; leave it out",
        ),
        (
            {"url": "/v1/responses", "body": {"stream": True}},
            "body.stream: a batch has no streams; leave it out",
        ),
    ],
)
def test_a_bad_line_is_told_by_its_number_and_field(
    line: Line, changes: dict[str, Any], problem: str
) -> None:
    custom_id = changes.pop("custom_id", "a")
    expected_id = "a" if custom_id == "a" else None
    assert only(b"\n", line(custom_id, **changes)) == BadLine(2, expected_id, problem)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"not json\n", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"custom_id": NaN}\n', "is not JSON: NaN is no JSON number"),
        (b"[1]\n", "is not a JSON object"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_line_that_is_no_object_is_a_bad_line(data: bytes, problem: str) -> None:
    assert only(data) == BadLine(1, None, problem)


def test_what_a_bad_line_holds_is_never_told(line: Line) -> None:
    bad = only(line("a", url="/secret-url", body="secret body", method="secret method"))
    assert "secret" not in str(bad)


def test_a_custom_id_belongs_to_its_first_line_even_a_bad_one(line: Line) -> None:
    read = list(read_lines([line("a"), line("b", body={}), line("a"), line("b")]))
    assert read[0].custom_id == "a"
    assert read[1:] == [
        BadLine(2, "b", "body.messages: Field required"),
        BadLine(3, None, "custom_id: 'a' is that of line 1 already"),
        BadLine(4, None, "custom_id: 'b' is that of line 2 already"),
    ]


def test_lines_are_read_as_they_are_wanted(line: Line) -> None:
    def endless() -> Any:
        number = 0
        while True:
            number += 1
            yield json.dumps({"custom_id": number})

    lines = read_lines(endless())
    assert [next(lines).number for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    "data",
    [b'{"custom_id": "\xff"}\n', *('{"custom_id": "é"}'.encode(other) for other in ("utf-16", "latin-1"))],
)
def test_a_line_that_is_not_utf_8_is_told_so_whatever_else_it_may_be(data: bytes) -> None:
    assert only(data).problem.startswith("is not UTF-8: invalid ")
