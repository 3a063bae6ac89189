"""The server around the behaviours: refusals, the log, connections, TLS, start and stop."""

import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from turnout.testing.simulator import (
    Answer,
    Cut,
    Ending,
    LoggedRequest,
    Reset,
    Silence,
    SimulatedProvider,
    Simulator,
    Stall,
    Status,
    key_mark,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CHAT = "/a/v1/chat/completions"
MANY = 200


# refusals


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


# the log


def test_the_log_has_what_was_sent_and_how_it_ended(simulate: Any, connect: Any) -> None:
    sim = simulate()
    connect(sim).chat.completions.create(**ASK)
    (logged,) = sim.requests("a")

    assert (logged.number, logged.provider, logged.method, logged.path) == (1, "a", "POST", CHAT)
    assert logged.body == BODY
    assert logged.headers["content-type"] == "application/json"
    assert (logged.status, logged.outcome) == (200, Ending.ANSWERED)
    assert logged.closed_at is not None
    assert logged.closed_at >= logged.at


def test_the_log_shows_a_mark_for_a_key_and_never_the_key(simulate: Any, connect: Any) -> None:
    sim = simulate()
    connect(sim, api_key="sk-secret", default_headers={"api-key": "sk-other"}).chat.completions.create(**ASK)
    headers = sim.requests("a")[0].headers

    assert headers["authorization"] == f"Bearer {key_mark('sk-secret')}"
    assert headers["api-key"] == key_mark("sk-other")
    assert "sk-" not in str(dict(headers))
    assert "sha256" not in repr(sim.requests("a")[0])


def test_the_log_keeps_the_newest_requests(connect: Any) -> None:
    with Simulator([SimulatedProvider("a")], log_bound=3) as sim:
        client = connect(sim)
        for _ in range(5):
            client.chat.completions.create(**ASK)

        assert [request.number for request in sim.requests("a")] == [3, 4, 5]
        assert sim.total("a") == 5


def test_a_request_the_log_has_dropped_ends_quietly(connect: Any, bare: Any) -> None:
    with Simulator([SimulatedProvider("a", [Silence(), Answer()])], log_bound=1) as sim:
        silent = bare(sim)
        silent.send(BODY)
        sim.wait_for(lambda: sim.total("a") == 1)
        connect(sim).chat.completions.create(**ASK)
        silent.close()
        sim.wait_for(lambda: sim.connections() == 1)

        assert [request.outcome for request in sim.requests("a")] == [Ending.ANSWERED]


def test_whoever_has_an_answer_finds_it_logged(simulate: Any, connect: Any) -> None:
    sim = simulate([Answer(), Status(500), Answer(), Cut(1)])
    client = connect(sim)
    outcomes = []
    for stream in (False, False, True, True):
        try:
            answer = client.chat.completions.create(**ASK, stream=stream)
            if stream:
                list(answer)
        except Exception:
            assert stream or sim.total("a") == 2
        outcomes.append(sim.requests("a")[-1].outcome)

    assert outcomes == [Ending.ANSWERED, Ending.REFUSED, Ending.ANSWERED, Ending.CUT]


def test_a_listener_is_told_of_every_end(connect: Any) -> None:
    told: list[LoggedRequest] = []
    with Simulator([SimulatedProvider("a", [Answer(), Status(500)])], on_ended=told.append) as sim:
        client = connect(sim)
        client.chat.completions.create(**ASK)
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**ASK)

    assert [(request.number, request.outcome) for request in told] == [
        (1, Ending.ANSWERED),
        (2, Ending.REFUSED),
    ]


def test_wait_for_returns_what_the_predicate_said_or_times_out(simulate: Any) -> None:
    sim = simulate()

    assert sim.wait_for(lambda: "yes") == "yes"
    with pytest.raises(TimeoutError, match=r"not seen within 0.001 s; logged: \{'a': 0\}"):
        sim.wait_for(lambda: False, timeout_seconds=0.001)


def test_wait_for_is_woken_by_a_request(simulate: Any, connect: Any) -> None:
    sim = simulate()
    seen: list[Any] = []
    waiter = threading.Thread(target=lambda: seen.append(sim.wait_for(lambda: sim.requests("a"), 20)))
    waiter.start()
    connect(sim).chat.completions.create(**ASK)
    waiter.join(20)

    assert len(seen) == 1


@pytest.mark.parametrize(
    "ask", [Simulator.base_url, Simulator.requests, Simulator.total, Simulator.connections]
)
def test_asking_for_a_provider_that_is_not_there_says_which_are(simulate: Any, ask: Any) -> None:
    with pytest.raises(ValueError, match="no simulated provider 'b'; there are: a"):
        ask(simulate(), "b")


# connections


def test_open_connections_are_counted_by_provider(connect: Any) -> None:
    with Simulator([SimulatedProvider("a"), SimulatedProvider("b")]) as sim:
        clients = [connect(sim, name) for name in ("a", "a", "b")]
        for client in clients:
            client.chat.completions.create(**ASK)

        assert (sim.connections("a"), sim.connections("b"), sim.connections()) == (2, 1, 3)
        clients[0].close()
        assert sim.wait_for(lambda: sim.connections("a") == 1)


def test_many_clients_are_held_at_once_and_all_seen_to_leave(simulate: Any, bare: Any) -> None:
    sim = simulate(Silence())
    clients = [bare(sim) for _ in range(MANY)]
    for client in clients:
        client.send(BODY)
    sim.wait_for(lambda: sim.total("a") == MANY)
    assert sim.connections("a") == MANY

    for client in clients:
        client.close()
    sim.wait_for(lambda: sim.connections() == 0)
    assert {request.outcome for request in sim.requests("a")} == {Ending.CLIENT_CLOSED}


def test_a_client_that_shuts_its_socket_down_has_left(simulate: Any, bare: Any) -> None:
    sim = simulate(Stall())
    client = bare(sim)
    client.send({**BODY, "stream": True})
    client.read_until(b"assistant")
    client.socket.shutdown(socket.SHUT_RDWR)

    sim.wait_for(lambda: sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED)


def test_a_client_that_leaves_a_long_stream_unread_is_noticed(simulate: Any, bare: Any) -> None:
    sim = simulate(Answer(text="x" * 4_000_000, chunks=4_000))
    client = bare(sim)
    client.send({**BODY, "stream": True})
    client.read_until(b"assistant")
    assert sim.requests("a")[0].outcome is Ending.OPEN
    client.close()

    sim.wait_for(lambda: sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED)
    assert sim.requests("a")[0].chunks_sent < 4_000


def test_a_client_can_ask_for_the_connection_to_be_closed(simulate: Any, bare: Any) -> None:
    client = bare(simulate())
    data = json.dumps(BODY).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
    client.socket.sendall(head.encode() + data)

    assert client.read_until(b"the end of the connection").endswith(b"}")


# TLS


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 and its key, made for this run."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not here to make a certificate")
    made = tmp_path_factory.mktemp("tls") / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    alternative = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(made), "-out", f"{made}.crt"]
    subprocess.run([*command.split(), *alternative], check=True, capture_output=True, timeout=60)
    with made.open("a") as both:
        both.write(Path(f"{made}.crt").read_text())
    return made


@pytest.fixture
def secure(certificate: Path) -> Iterator[Any]:
    """A simulator over TLS with this script, and an openai client that trusts it."""
    stack: list[Any] = []

    def start(script: Any) -> tuple[Simulator, openai.OpenAI]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        sim = Simulator([SimulatedProvider("a", script)], tls=context).start()
        trust = ssl.create_default_context(cafile=str(certificate))
        http = openai.DefaultHttpxClient(verify=trust)
        client = openai.OpenAI(
            base_url=sim.base_url("a"), api_key="k", max_retries=0, timeout=20, http_client=http
        )
        stack.extend((client.close, sim.stop))
        return sim, client

    yield start
    for close in stack:
        close()


def test_tls_carries_plain_answers_and_streams(secure: Any) -> None:
    sim, client = secure(Answer(text="abcd"))

    assert sim.base_url("a").startswith("https://127.0.0.1:")
    assert client.chat.completions.create(**ASK).choices[0].message.content == "abcd"
    chunks = client.chat.completions.create(**ASK, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "abcd"


def test_tls_carries_faults_and_notices_a_client_that_left(secure: Any) -> None:
    sim, client = secure([Reset(), Cut(1), Stall(1)])
    with pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(**ASK)
    cut = client.chat.completions.create(**ASK, stream=True)
    with pytest.raises(Exception, match=r".") as caught:
        list(cut)
    assert isinstance(caught.value, openai.APIConnectionError) or "closed" in str(caught.value)
    stalled = client.chat.completions.create(**ASK, stream=True)
    next(stalled)
    stalled.close()

    sim.wait_for(lambda: sim.requests("a")[2].outcome is Ending.CLIENT_CLOSED)
    assert [request.outcome for request in sim.requests("a")[:2]] == [Ending.RESET, Ending.CUT]


def test_tls_stops_while_a_client_waits(secure: Any) -> None:
    sim, client = secure(Stall(1))
    stream = client.chat.completions.create(**ASK, stream=True)
    next(stream)
    sim.stop()

    assert sim.requests("a")[0].outcome is Ending.SERVER_STOPPED
    stream.close()


# start and stop


def test_stop_ends_whatever_still_runs(bare: Any) -> None:
    with Simulator([SimulatedProvider("a", Silence()), SimulatedProvider("b", Stall())]) as sim:
        silent, stalled, idle = bare(sim), bare(sim), bare(sim)
        silent.send(BODY)
        stalled.send({**BODY, "stream": True}, "/b/v1/chat/completions")
        stalled.read_until(b"assistant")
        sim.wait_for(lambda: sim.requests("a") and sim.connections() == 3)

    assert [sim.requests(name)[0].outcome for name in ("a", "b")] == [Ending.SERVER_STOPPED] * 2
    assert sim.connections() == 0
    idle.close()


def test_a_stopped_simulator_refuses_connections(bare: Any) -> None:
    with Simulator([SimulatedProvider("a")]) as sim:
        pass
    with pytest.raises(ConnectionRefusedError):
        bare(sim)


def test_stop_may_be_called_before_start_and_twice() -> None:
    sim = Simulator([SimulatedProvider("a")])
    sim.stop()
    sim.start()
    sim.stop()
    sim.stop()


def test_it_runs_on_one_named_daemon_thread(simulate: Any) -> None:
    simulate()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "turnout-simulator"]

    assert thread.daemon


def test_a_fixed_port_is_used_and_a_taken_one_is_an_error(simulate: Any) -> None:
    sim = simulate()
    with pytest.raises(OSError, match="address"):
        Simulator([SimulatedProvider("a")], port=sim.port).start()

    port = sim.port
    sim.stop()
    with Simulator([SimulatedProvider("a")], port=port) as again:
        assert again.base_url("a") == f"http://127.0.0.1:{port}/a/v1"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Simulator([]),
        lambda: Simulator([SimulatedProvider("a"), SimulatedProvider("a")]),
        lambda: SimulatedProvider(""),
        lambda: SimulatedProvider("a/b"),
        lambda: SimulatedProvider("a b"),
        lambda: SimulatedProvider("a", chunks=0),
    ],
)
def test_settings_that_cannot_work_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"name|chunks"):
        make()
