"""How a Responses answer can end besides `completed`, and what that means in chat."""

from typing import Any

import openai
import pytest

from turnout.testing.simulator import (
    Answer,
    Background,
    Behaviour,
    ErrorEvent,
    Failed,
    Incomplete,
    InStreamError,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
FOUR = Answer(text="abcd", chunks=4)


def read_chat(client: openai.OpenAI) -> tuple[str, list[Any]]:
    """The text and the finish reasons of a chat stream."""
    chunks = list(client.chat.completions.create(**ASK, stream=True))
    choices = [chunk.choices[0] for chunk in chunks]
    return "".join(choice.delta.content or "" for choice in choices), [
        choice.finish_reason for choice in choices
    ]


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_an_incomplete_response_names_its_reason(
    simulate: Any, connect: Any, reason: Any, finish: str
) -> None:
    client = connect(simulate(Incomplete(reason, after_chunks=2, answer=FOUR)))
    last = list(client.responses.create(model="m", input="hi", stream=True))[-1]
    plain = client.responses.create(model="m", input="hi")

    assert last.type == "response.incomplete"
    for response in (last.response, plain):
        assert (response.status, response.incomplete_details.reason) == ("incomplete", reason)
        assert response.output_text == "ab"
    assert read_chat(client) == ("ab", [None] * 3 + [finish])
    assert client.chat.completions.create(**ASK).choices[0].finish_reason == finish


def test_a_failed_response_has_its_error(simulate: Any, connect: Any) -> None:
    client = connect(simulate(Failed("rate_limit_exceeded", "too much", after_chunks=1, answer=FOUR)))
    events = list(client.responses.create(model="m", input="hi", stream=True))
    plain = client.responses.create(model="m", input="hi")

    assert [event.type for event in events[-2:]] == ["response.output_text.delta", "response.failed"]
    for response in (events[-1].response, plain):
        assert response.status == "failed"
        assert (response.error.code, response.error.message) == ("rate_limit_exceeded", "too much")
    with pytest.raises(openai.APIError, match="too much"):
        read_chat(client)


def test_an_error_event_is_typed_and_numbered(simulate: Any, connect: Any) -> None:
    client = connect(simulate(ErrorEvent("server_error", "it broke", after_chunks=1, answer=FOUR)))
    events = list(client.responses.create(model="m", input="hi", stream=True))

    assert [event.type for event in events[-2:]] == ["response.output_text.delta", "error"]
    assert (events[-1].code, events[-1].message) == ("server_error", "it broke")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    with pytest.raises(openai.APIError, match="it broke"):
        read_chat(client)


@pytest.mark.parametrize("behaviour", [ErrorEvent(message="it broke"), InStreamError("it broke")])
def test_an_error_in_a_stream_is_an_error_object_in_a_plain_answer(
    simulate: Any, connect: Any, behaviour: Behaviour
) -> None:
    raw = connect(simulate(behaviour)).responses.with_raw_response.create(model="m", input="hi")

    assert raw.status_code == 200
    assert raw.http_response.json()["error"]["message"] == "it broke"


@pytest.mark.parametrize(("behaviour", "background"), [(Background(), False), (Answer(), True)])
def test_a_background_response_is_queued(
    simulate: Any, connect: Any, behaviour: Behaviour, background: bool
) -> None:
    client = connect(simulate(behaviour))
    plain = client.responses.create(model="m", input="hi", background=background)
    events = list(client.responses.create(model="m", input="hi", background=background, stream=True))

    assert (plain.status, plain.output, plain.usage) == ("queued", [], None)
    assert [event.type for event in events[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert events[-1].type == "response.completed"


def test_a_background_response_can_be_in_progress(simulate: Any, connect: Any) -> None:
    client = connect(simulate(Background("in_progress")))

    assert client.responses.create(model="m", input="hi", background=True).status == "in_progress"
    assert client.chat.completions.create(**ASK).choices[0].finish_reason == "stop"
