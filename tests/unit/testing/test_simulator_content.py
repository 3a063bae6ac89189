"""Streams and answers whose bytes arrive and whose content is wrong."""

from typing import Any

import openai
import pytest

from turnout.testing.simulator import (
    Answer,
    Empty,
    InStreamError,
    MalformedChunk,
    MissingDone,
    NoFinish,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
FOUR = Answer(text="abcd", chunks=4)


def read_chat(client: openai.OpenAI) -> tuple[str, list[Any]]:
    """The text and the finish reasons of a chat stream."""
    chunks = list(client.chat.completions.create(**ASK, stream=True))
    choices = [chunk.choices[0] for chunk in chunks]
    return "".join(choice.delta.content or "" for choice in choices), [
        choice.finish_reason for choice in choices
    ]


def read_until_broken(stream: Any, errors: tuple[type[Exception], ...]) -> list[Any]:
    got: list[Any] = []
    with pytest.raises(errors):
        got.extend(stream)  # extends by what came before the error
    return got


def test_a_malformed_chunk_is_not_json_and_the_stream_goes_on(simulate: Any, connect: Any, bare: Any) -> None:
    sim = simulate(MalformedChunk(after_chunks=1, answer=FOUR))
    stream = connect(sim).chat.completions.create(**ASK, stream=True)
    chunks = read_until_broken(stream, (ValueError, openai.APIError))
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["", "a"]

    client = bare(sim)
    client.send({**BODY, "stream": True})
    got = client.read_until(b"0\r\n\r\n")
    assert got.index(b'"content":"a"') < got.index(b'{"content":\n') < got.index(b'"content":"b"')
    assert got.count(b'"content":"') == 5
    assert b"data: [DONE]" in got


def test_a_malformed_chunk_comes_at_the_latest_before_the_end(simulate: Any, bare: Any) -> None:
    client = bare(simulate(MalformedChunk(after_chunks=99, answer=FOUR)))
    client.send({**BODY, "stream": True})
    got = client.read_until(b"0\r\n\r\n")

    assert got.index(b'"content":"d"') < got.index(b'{"content":\n') < got.index(b'"stop"')


def test_a_malformed_plain_answer_is_not_json(simulate: Any, connect: Any) -> None:
    with pytest.raises((ValueError, openai.APIError)):
        connect(simulate(MalformedChunk())).chat.completions.create(**ASK)


def test_a_stream_without_done_still_finishes(simulate: Any, connect: Any, bare: Any) -> None:
    sim = simulate(MissingDone(FOUR))
    assert read_chat(connect(sim)) == ("abcd", [None] * 5 + ["stop"])

    client = bare(sim)
    client.send({**BODY, "stream": True})
    assert b"[DONE]" not in client.read_until(b"0\r\n\r\n")


def test_a_stream_without_finish_ends_cleanly(simulate: Any, connect: Any, bare: Any) -> None:
    sim = simulate(NoFinish(FOUR))
    client = connect(sim)

    assert read_chat(client) == ("abcd", [None] * 5)
    assert client.chat.completions.create(**ASK).choices[0].finish_reason is None
    events = list(client.responses.create(model="m", input="hi", stream=True))
    assert events[-1].type == "response.output_text.delta"
    assert client.responses.create(model="m", input="hi").status == "in_progress"
    raw = bare(sim)
    raw.send({**BODY, "stream": True})
    assert b"data: [DONE]" in raw.read_until(b"0\r\n\r\n")


def test_an_empty_stream_has_no_event(simulate: Any, connect: Any) -> None:
    client = connect(simulate(Empty()))

    assert read_chat(client) == ("", [])
    assert list(client.responses.create(model="m", input="hi", stream=True)) == []


def test_an_empty_plain_answer_has_no_byte(simulate: Any, bare: Any) -> None:
    client = bare(simulate(Empty()))
    client.send(BODY)

    status, _, body = client.read_response()
    assert (status, body) == (200, b"")


def test_an_error_in_a_stream_comes_after_its_texts(simulate: Any, connect: Any) -> None:
    sim = simulate(InStreamError("it broke", "server_error", "boom", after_chunks=2, answer=FOUR))
    stream = connect(sim).chat.completions.create(**ASK, stream=True)
    texts: list[str | None] = []
    with pytest.raises(openai.APIError, match="it broke") as caught:
        texts.extend(chunk.choices[0].delta.content for chunk in stream)
    assert not isinstance(caught.value, openai.APIStatusError)
    assert (caught.value.type, caught.value.code) == ("server_error", "boom")
    assert sim.requests("a")[0].chunks_sent == 2
