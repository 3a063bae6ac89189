"""Connections that break: resets and cuts, before and within an answer."""

import importlib
from typing import Any

import openai
import pytest

from turnout.testing.simulator import Answer, Behaviour, Cut, Ending, Reset

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
FOUR = Answer(text="abcd", chunks=4)


def broken_connections() -> tuple[type[Exception], ...]:
    """What the SDK raises for a broken stream; old versions let their HTTP client's own errors through."""
    own = "httpx" if int(openai.VERSION.split(".")[0]) < 3 else "httpx2"
    return (openai.APIConnectionError, importlib.import_module(own).TransportError)


def read_until_broken(stream: Any, errors: tuple[type[Exception], ...]) -> list[Any]:
    got: list[Any] = []
    with pytest.raises(errors):
        got.extend(stream)  # extends by what came before the error
    return got


def test_a_reset_before_headers_is_a_reset(simulate: Any, bare: Any) -> None:
    sim = simulate(Reset())
    client = bare(sim)
    client.send(BODY)

    with pytest.raises(ConnectionResetError):
        client.socket.recv(1)
    assert sim.requests("a")[0].outcome is Ending.RESET
    assert sim.requests("a")[0].status is None


def test_the_sdk_sees_a_reset_as_a_connection_error(simulate: Any, connect: Any) -> None:
    client = connect(simulate(Reset()))
    with pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(**ASK)


@pytest.mark.parametrize(
    ("behaviour", "outcome"), [(Cut(2, FOUR), Ending.CUT), (Reset(after_chunks=2, answer=FOUR), Ending.RESET)]
)
def test_a_stream_breaks_after_so_many_texts(
    simulate: Any, connect: Any, behaviour: Behaviour, outcome: Ending
) -> None:
    sim = simulate(behaviour)
    stream = connect(sim).chat.completions.create(**ASK, stream=True)
    chunks = read_until_broken(stream, broken_connections())

    assert [chunk.choices[0].delta.content for chunk in chunks] == ["", "a", "b"]
    logged = sim.requests("a")[0]
    assert (logged.outcome, logged.chunks_sent, logged.status) == (outcome, 2, 200)


def test_a_responses_stream_breaks_after_so_many_texts(simulate: Any, connect: Any) -> None:
    stream = connect(simulate(Cut(1, FOUR))).responses.create(model="m", input="hi", stream=True)
    events = read_until_broken(stream, broken_connections())

    assert [event.type for event in events][-2:] == [
        "response.content_part.added",
        "response.output_text.delta",
    ]


def test_a_stream_can_be_cut_before_its_first_event(simulate: Any, connect: Any) -> None:
    sim = simulate(Cut(0, Answer(opening=False)))
    stream = connect(sim).chat.completions.create(**ASK, stream=True)

    assert read_until_broken(stream, broken_connections()) == []


@pytest.mark.parametrize("behaviour", [Cut(), Reset(after_chunks=0)])
def test_a_plain_answer_breaks_in_the_middle_of_its_body(
    simulate: Any, connect: Any, behaviour: Behaviour
) -> None:
    sim = simulate(behaviour)
    client = connect(sim)
    with pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(**ASK)
    assert sim.requests("a")[0].status == 200


def test_a_cut_is_a_clean_close_and_a_reset_is_not(simulate: Any, bare: Any) -> None:
    sim = simulate([Cut(), Reset(after_chunks=0)])
    cut, reset = bare(sim), bare(sim)
    cut.send(BODY)
    assert b"HTTP/1.1 200" in cut.read_until(b"the end of the connection")

    reset.send(BODY)
    with pytest.raises(ConnectionResetError):
        reset.read_until(b"the end of the connection")
