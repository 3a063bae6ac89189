"""Requests that no provider can take."""

import json
from typing import Any

import openai
import pytest

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CHAT = "/a/v1/chat/completions"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/nobody/v1/chat/completions", BODY, 404, "there are: a"),
        ("POST", "/", BODY, 404, "there are: a"),
        ("POST", "/a/v1/nothing", BODY, 404, "Invalid URL (POST /v1/nothing)"),
        ("GET", CHAT, b"", 405, "Not allowed to GET"),
        ("POST", CHAT, b"{not json", 400, "could not parse the JSON body"),
        ("POST", CHAT, b"\xff\xfe", 400, "could not parse the JSON body"),
        ("POST", CHAT, [1, 2], 400, "could not parse the JSON body"),
        ("POST", CHAT, {"messages": []}, 400, "'model'"),
        ("POST", CHAT, {"model": "m"}, 400, "'messages'"),
        ("POST", "/a/v1/responses", {"model": "m"}, 400, "'input'"),
    ],
)
def test_a_request_nobody_can_take_is_refused_in_openais_shape(
    simulate: Any, bare: Any, method: str, path: str, body: Any, status: int, says: str
) -> None:
    client = bare(simulate())
    client.send(body, path, method)
    got, headers, data = client.read_response()
    error = json.loads(data)["error"]

    assert got == status
    assert headers["content-type"] == "application/json"
    assert says in error["message"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


def test_a_refusal_leaves_the_connection_usable(simulate: Any, bare: Any) -> None:
    client = bare(simulate())
    for path, status in (("/a/v1/nothing", 404), (CHAT, 200), ("/nobody/v1/x", 404), (CHAT, 200)):
        client.send(BODY, path)
        assert client.read_response()[0] == status


def test_a_head_request_gets_no_body(simulate: Any, bare: Any) -> None:
    client = bare(simulate())
    client.send(b"", CHAT, "HEAD")
    assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 405")
    client.send(BODY)
    assert client.read_response()[0] == 200


def test_what_is_not_http_is_refused_and_the_connection_closed(simulate: Any, bare: Any) -> None:
    client = bare(simulate())
    client.socket.sendall(b"hello, is this a provider?\r\n\r\n")
    got = client.read_until(b"the end of the connection")

    assert got.startswith(b"HTTP/1.1 400")
    assert b'"invalid_request_error"' in got


def test_a_client_that_waits_for_leave_to_send_gets_it(simulate: Any, bare: Any) -> None:
    client = bare(simulate())
    data = json.dumps(BODY).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len(data)}\r\n\r\n"
    client.socket.sendall(head.encode())

    assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100")
    client.socket.sendall(data)
    assert client.read_response()[0] == 200


def test_a_query_after_the_path_is_ignored(simulate: Any, bare: Any) -> None:
    sim = simulate()
    client = bare(sim)
    client.send(BODY, CHAT + "?api-version=2026-01-01")

    assert client.read_response()[0] == 200
    assert sim.requests("a")[0].path == CHAT


@pytest.mark.parametrize("key", ["wrong", "right-and-more"])
def test_a_wrong_key_is_refused_without_naming_it(simulate: Any, connect: Any, key: str) -> None:
    sim = simulate(require_key="right")
    with pytest.raises(openai.AuthenticationError) as caught:
        connect(sim, api_key=key).chat.completions.create(**ASK)

    assert caught.value.code == "invalid_api_key"
    assert key not in str(caught.value)
    assert sim.requests("a")[0].behaviour is None
    assert connect(sim, api_key="right").chat.completions.create(**ASK).choices
