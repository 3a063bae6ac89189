"""Silence, stalls, trickles and keep-alives, and how a client that leaves is noticed."""

from typing import Any

import openai
import pytest

from turnout.testing.simulator import (
    Answer,
    Behaviour,
    EmptyChunks,
    Ending,
    KeepAliveComments,
    Silence,
    SlowFirstToken,
    Stall,
    TrickledBody,
    TrickledHeaders,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
FOUR = Answer(text="abcd", chunks=4)
NEVER_SECONDS = 3600.0


def read_chat(client: openai.OpenAI) -> tuple[str, list[Any]]:
    """The text and the finish reasons of a chat stream."""
    chunks = list(client.chat.completions.create(**ASK, stream=True))
    choices = [chunk.choices[0] for chunk in chunks]
    return "".join(choice.delta.content or "" for choice in choices), [
        choice.finish_reason for choice in choices
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_silence_sends_nothing_and_notices_that_the_client_left(
    simulate: Any, bare: Any, stream: bool
) -> None:
    sim = simulate(Silence())
    client = bare(sim)
    client.send({**BODY, "stream": stream})
    sim.wait_for(lambda: sim.requests("a"))
    assert sim.requests("a")[0].outcome is Ending.OPEN
    assert sim.requests("a")[0].closed_at is None

    client.close()
    sim.wait_for(lambda: sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED)
    logged = sim.requests("a")[0]
    assert logged.status is None
    assert logged.closed_at is not None
    assert logged.closed_at >= logged.at


@pytest.mark.parametrize(
    ("behaviour", "texts"),
    [
        (Stall(after_chunks=2, answer=FOUR), ["", "a", "b"]),
        (Stall(after_chunks=0, answer=FOUR), [""]),
        (SlowFirstToken(NEVER_SECONDS, FOUR), [""]),
        (KeepAliveComments(0.001, after_chunks=1, answer=FOUR), ["", "a"]),
    ],
)
def test_a_stream_goes_quiet_and_notices_that_the_client_left(
    simulate: Any, connect: Any, behaviour: Behaviour, texts: list[str]
) -> None:
    sim = simulate(behaviour)
    stream = connect(sim).chat.completions.create(**ASK, stream=True)
    got = [next(stream).choices[0].delta.content for _ in texts]

    assert got == texts
    assert sim.requests("a")[0].outcome is Ending.OPEN
    stream.close()
    sim.wait_for(lambda: sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED)
    assert sim.requests("a")[0].chunks_sent == len(texts) - 1


def test_a_plain_answer_stalls_in_the_middle_of_its_body(simulate: Any, connect: Any) -> None:
    sim = simulate(Stall())
    with pytest.raises(openai.APITimeoutError):
        connect(sim, timeout=0.2).chat.completions.create(**ASK)

    sim.wait_for(lambda: sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED)
    assert sim.requests("a")[0].status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_slow_first_token_comes_after_the_headers(
    simulate: Any, bare: Any, connect: Any, stream: bool
) -> None:
    sim = simulate([SlowFirstToken(NEVER_SECONDS), SlowFirstToken(0.001, FOUR)])
    client = bare(sim)
    client.send({**BODY, "stream": stream})

    assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK")
    if stream:
        assert read_chat(connect(sim))[0] == "abcd"
    else:
        assert connect(sim).chat.completions.create(**ASK).choices[0].message.content == "abcd"


def test_headers_trickle_byte_by_byte(simulate: Any, bare: Any, connect: Any) -> None:
    sim = simulate(
        [TrickledHeaders(NEVER_SECONDS), TrickledHeaders(0.0001, FOUR), TrickledHeaders(0.0001, FOUR)]
    )
    client = bare(sim)
    client.send(BODY)

    assert client.socket.recv(100) == b"H"
    assert connect(sim).chat.completions.create(**ASK).choices[0].message.content == "abcd"
    assert read_chat(connect(sim)) == ("abcd", [None] * 5 + ["stop"])


@pytest.mark.parametrize("stream", [False, True])
def test_the_body_trickles_byte_by_byte_after_whole_headers(simulate: Any, bare: Any, stream: bool) -> None:
    client = bare(simulate(TrickledBody(NEVER_SECONDS)))
    client.send({**BODY, "stream": stream})
    head, _, body = client.read_until(b"\r\n\r\n").partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 OK")
    assert len(body or client.socket.recv(100)) == 1


def test_a_trickled_body_is_whole_in_the_end(simulate: Any, connect: Any) -> None:
    client = connect(simulate(TrickledBody(0.00001, Answer(text="ab", chunks=2))))

    assert client.chat.completions.create(**ASK).choices[0].message.content == "ab"
    assert read_chat(client)[0] == "ab"


def test_keep_alive_comments_come_for_ever(simulate: Any, bare: Any) -> None:
    sim = simulate(KeepAliveComments(0.001))
    client = bare(sim)
    client.send({**BODY, "stream": True})
    got = client.read_until(b": ping\n\n\r\n8\r\n: ping\n\n\r\n8\r\n: ping\n\n")

    assert b"data:" not in got
    client.close()
    sim.wait_for(lambda: sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED)


def test_a_plain_request_is_kept_alive_with_blanks(simulate: Any, bare: Any) -> None:
    client = bare(simulate(KeepAliveComments(0.001)))
    client.send(BODY)

    got = client.read_until(b"1\r\n \r\n1\r\n \r\n")
    assert b"content-type: application/json" in got


def test_chunks_that_say_nothing_come_for_ever(simulate: Any, connect: Any) -> None:
    sim = simulate(EmptyChunks(0.001, after_chunks=1, answer=FOUR))
    client = connect(sim)
    stream = client.chat.completions.create(**ASK, stream=True)
    assert [next(stream).choices[0].delta.content for _ in range(5)] == ["", "a", "", "", ""]
    stream.close()

    events = client.responses.create(model="m", input="hi", stream=True)
    deltas = [getattr(next(events), "delta", None) for _ in range(8)]
    assert deltas[-4:] == ["a", "", "", ""]
    events.close()
    sim.wait_for(lambda: all(one.outcome is Ending.CLIENT_CLOSED for one in sim.requests("a")))


@pytest.mark.parametrize("endless", [KeepAliveComments, EmptyChunks])
def test_what_has_no_pause_and_no_end_is_refused(endless: Any) -> None:
    with pytest.raises(ValueError, match="interval_seconds"):
        endless(0)
