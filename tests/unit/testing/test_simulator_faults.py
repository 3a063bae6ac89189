"""Every way to fail, seen through the real SDK or on the bare socket."""

import importlib
from typing import Any

import openai
import pytest
from turnout.testing.simulator import (
    Answer,
    Background,
    Behaviour,
    Cut,
    Empty,
    Ending,
    ErrorEvent,
    Failed,
    Incomplete,
    InStreamError,
    KeepAliveComments,
    MalformedChunk,
    MissingDone,
    NoFinish,
    Reset,
    Silence,
    SlowFirstToken,
    Stall,
    Status,
    StatusOkError,
    TrickledBody,
    TrickledHeaders,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
FOUR = Answer(text="abcd", chunks=4)
NEVER_SECONDS = 3600.0


def broken_connections() -> tuple[type[Exception], ...]:
    """What the SDK raises for a broken stream; old versions let their HTTP client's own errors through."""
    own = "httpx" if int(openai.VERSION.split(".")[0]) < 3 else "httpx2"
    return (openai.APIConnectionError, importlib.import_module(own).TransportError)


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


# status codes


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (409, openai.ConflictError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_status_is_the_sdks_own_error(
    simulate: Any, connect: Any, code: int, error: Any, stream: bool
) -> None:
    sim = simulate(Status(code))
    with pytest.raises(error) as caught:
        connect(sim).chat.completions.create(**ASK, stream=stream)

    assert caught.value.status_code == code
    assert caught.value.type
    assert sim.requests("a")[0].status == code
    assert sim.requests("a")[0].outcome is Ending.REFUSED


def test_a_rate_limit_carries_what_the_script_says(simulate: Any, connect: Any) -> None:
    limited = Status(
        429,
        error_type="tokens",
        error_code="insufficient_quota",
        message="no more today",
        headers={"x-ratelimit-remaining-requests": "0"},
        retry_after=2,
        retry_after_ms=1500,
    )
    with pytest.raises(openai.RateLimitError) as caught:
        connect(simulate(limited)).chat.completions.create(**ASK)

    error = caught.value
    assert (error.type, error.code) == ("tokens", "insufficient_quota")
    assert "no more today" in str(error)
    headers = error.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1500")
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert error.request_id == "req_a_1"


def test_retry_after_can_be_a_date(simulate: Any, connect: Any) -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    with pytest.raises(openai.InternalServerError) as caught:
        connect(simulate(Status(503, retry_after=date, latency_seconds=0.001))).chat.completions.create(**ASK)

    assert caught.value.response.headers["retry-after"] == date


def test_a_status_can_have_a_gateways_page_for_a_body(simulate: Any, connect: Any) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        connect(simulate(Status(502, body="<h1>Bad gateway</h1>"))).chat.completions.create(**ASK)

    assert caught.value.response.text == "<h1>Bad gateway</h1>"


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_can_hide_behind_status_200(simulate: Any, connect: Any, stream: bool) -> None:
    raw = connect(simulate(StatusOkError("overloaded", error_code="busy"))).chat.completions.with_raw_response
    response = raw.create(**ASK, stream=stream)

    assert response.status_code == 200
    assert response.http_response.headers["content-type"] == "application/json"
    assert response.http_response.read()
    assert response.http_response.json()["error"] == {
        "message": "overloaded",
        "type": "server_error",
        "param": None,
        "code": "busy",
    }


# the connection


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


# silence


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


def test_comments_without_a_pause_are_refused() -> None:
    with pytest.raises(ValueError, match="interval_seconds"):
        KeepAliveComments(0)


# content


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


# what only Responses has, and what it means in chat


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
