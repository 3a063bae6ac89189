"""An attempt ends when its Limit says so, whatever the server does with the connection; plain and over TLS."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from turnout.adapters.openai_call import OpenAIAdapter
from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.adapters.openai_responses import OpenAIResponsesAdapter
from turnout.calls import ApiProtocol
from turnout.clock import SystemClock
from turnout.config import ProviderConfig
from turnout.deadline import Limit
from turnout.errors import ProviderError, ProviderTimeoutError
from turnout.faults import Fault
from turnout.testing.simulator import (
    Answer,
    Ending,
    KeepAliveComments,
    ScriptLike,
    Silence,
    SimulatedProvider,
    Simulator,
    SlowFirstToken,
    Stall,
    TrickledBody,
    TrickledHeaders,
)

SHORT_SECONDS = 0.15
LONG_SECONDS = 50.0
CLOCK = SystemClock()
CALLS: dict[str, tuple[type[OpenAIAdapter], ApiProtocol, str, dict[str, Any]]] = {
    "chat": (
        OpenAIChatAdapter,
        ApiProtocol.OPENAI_CHAT,
        "chat.completions.create",
        {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    ),
    "responses": (
        OpenAIResponsesAdapter,
        ApiProtocol.OPENAI_RESPONSES,
        "responses.create",
        {"model": "m", "input": "Hello"},
    ),
}
Bounded = Callable[[float], OpenAIAdapter]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is missing; install it to test TLS (apt-get install openssl)")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", str(key), "-out", str(made), "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    return made, key


@pytest.fixture(params=["plain", "tls"])
def simulator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    context = None
    if request.param == "tls":
        made, key = request.getfixturevalue("certificate")
        monkeypatch.setenv("SSL_CERT_FILE", str(made))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made, key)
    with Simulator([SimulatedProvider("alpha", chunks=3, text="all is well")], tls=context) as started:
        yield started


# What a transport cuts is cut alike, whatever is asked over it.
@pytest.fixture(params=["chat", pytest.param("responses", marks=pytest.mark.slow)])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bounded(simulator: Simulator, protocol: str) -> Iterator[Bounded]:
    opened: list[OpenAIAdapter] = []

    def build(timeout_seconds: float) -> OpenAIAdapter:
        kind, api, _, _ = CALLS[protocol]
        config = ProviderConfig(
            provider_id="alpha-1", name="alpha", protocol=api, model="m-1", api_key=SecretStr("sk-secret"),
            base_url=simulator.base_url("alpha"), timeout_seconds=timeout_seconds,
        )  # fmt: skip
        opened.append(kind(config))
        return opened[-1]

    yield build
    for adapter in opened:
        adapter.close()
    simulator.wait_for(lambda: simulator.connections() == 0)


def ask(adapter: OpenAIAdapter, protocol: str, *, stream: bool = False, limit: Limit | None = None) -> Any:
    _, _, operation, arguments = CALLS[protocol]
    sent = {**arguments, "stream": True} if stream else arguments
    answer = adapter.invoke(operation, sent, limit=limit)
    return list(answer) if stream else answer


QUIET = {
    "silence": Silence(),
    "trickled headers": TrickledHeaders(0.02),
    "trickled body": TrickledBody(0.02),
    "keep-alive comments": KeepAliveComments(0.02),
    "keep-alive comments after content": KeepAliveComments(0.02, after_chunks=1),
    "slow first token": SlowFirstToken(LONG_SECONDS),
    "stall before content": Stall(0),
    "stall after content": Stall(2),
}


@pytest.mark.parametrize("stream", [False, True], ids=["regular", "streamed"])
@pytest.mark.parametrize("script", QUIET.values(), ids=QUIET.keys())
def test_every_kind_of_silence_ends_with_the_limit(
    simulator: Simulator, bounded: Bounded, protocol: str, script: ScriptLike, stream: bool
) -> None:
    adapter = bounded(SHORT_SECONDS)
    # Connected beforehand, so that the short time is the script's alone.
    ask(adapter, protocol, limit=Limit(CLOCK.monotonic() + LONG_SECONDS, CLOCK))
    simulator.script("alpha", script)
    with pytest.raises(ProviderTimeoutError) as caught:
        ask(adapter, protocol, stream=stream)
    assert caught.value.fault is Fault.TIMEOUT
    assert f"{SHORT_SECONDS:g} s" in str(caught.value)
    # A busy server may hear of the request after the client has given it up.
    simulator.wait_for(
        lambda: [one.outcome for one in simulator.requests("alpha")[1:]] == [Ending.CLIENT_CLOSED]
    )


@pytest.mark.parametrize("stream", [False, True], ids=["regular", "streamed"])
@pytest.mark.parametrize(
    ("reason", "fault"),
    [("cancelled", Fault.CANCELLED), ("deadline", Fault.DEADLINE), ("hedge lost", Fault.CANCELLED)],
)
@pytest.mark.parametrize("script", [Silence(), KeepAliveComments(0.02, after_chunks=1), Stall(1)], ids=type)
def test_a_cut_from_another_thread_wakes_the_reader_and_its_reason_is_what_is_raised(
    simulator: Simulator, bounded: Bounded, protocol: str,
    script: ScriptLike, reason: str, fault: Fault, stream: bool,
) -> None:  # fmt: skip
    simulator.script("alpha", script)
    limit = Limit(CLOCK.monotonic() + LONG_SECONDS, CLOCK)
    adapter = bounded(LONG_SECONDS)
    raised: list[BaseException] = []

    def read() -> None:
        try:
            ask(adapter, protocol, stream=stream, limit=limit)
        except ProviderError as error:
            raised.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    simulator.wait_for(lambda: simulator.total("alpha"))
    limit.cut(reason)
    reader.join(30)
    (error,) = raised
    assert isinstance(error, ProviderError)
    assert error.fault is fault
    assert reason in str(error)
    simulator.wait_for(lambda: simulator.requests("alpha")[0].outcome is not Ending.OPEN)


@pytest.mark.slow
def test_a_cut_that_comes_late_never_touches_the_call_that_has_the_connection_now(
    simulator: Simulator, bounded: Bounded, protocol: str
) -> None:
    adapter = bounded(LONG_SECONDS)
    ended: list[Limit] = []
    stop = threading.Event()

    def cut_late() -> None:
        while not stop.is_set():
            for limit in tuple(ended):
                limit.cut("cancelled")

    cutter = threading.Thread(target=cut_late)
    cutter.start()
    try:
        for _ in range(60):
            limit = Limit(CLOCK.monotonic() + LONG_SECONDS, CLOCK)
            ask(adapter, protocol, limit=limit)
            ended[:] = [limit]
    finally:
        stop.set()
        cutter.join(30)
    assert len({request.connection for request in simulator.requests("alpha")}) == 1


def test_content_moves_the_limit_on_so_that_a_long_stream_is_no_late_one(
    simulator: Simulator, bounded: Bounded, protocol: str
) -> None:
    # Twelve pieces take longer than the limit, none of them alone does.
    simulator.script("alpha", Answer(text="abcdefghijkl", chunks=12, chunk_interval_seconds=0.06))
    assert len(ask(bounded(0.5), protocol, stream=True)) >= 13


def test_time_that_the_reader_takes_for_itself_does_not_count(
    simulator: Simulator, bounded: Bounded, protocol: str
) -> None:
    clock = _Stepping()
    adapter = bounded(LONG_SECONDS)
    limit = Limit(clock.monotonic() + LONG_SECONDS, clock)
    _, _, operation, arguments = CALLS[protocol]
    stream = adapter.invoke(operation, {**arguments, "stream": True}, limit=limit)
    clock.now += 10 * LONG_SECONDS
    for _ in stream:
        clock.now += 10 * LONG_SECONDS
    assert stream.completed


class _Tunnel:
    """A proxy that knows CONNECT and carries one connection."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ends: list[socket.socket] = []

    def serve(self) -> None:
        near, _ = self._listener.accept()
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += near.recv(1)
        host, port = head.split()[1].decode().split(":")
        far = socket.create_connection((host, int(port)), timeout=30)
        near.settimeout(30)
        near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        back = threading.Thread(target=self._carry, args=(far, near))
        back.start()
        self._carry(near, far)
        back.join(30)
        near.close()
        far.close()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _cut_at_call(number: int, simulator: Simulator, limit: Limit) -> None:
    simulator.wait_for(lambda: simulator.total("alpha") == number)
    limit.cut("cancelled")


@pytest.mark.parametrize("simulator", ["tls"], indirect=True)
def test_a_cut_reaches_through_a_proxys_tunnel(
    simulator: Simulator, bounded: Bounded, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator.script("alpha", [Answer(), Stall(1)])
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
        tunnel = threading.Thread(target=_Tunnel(listener).serve)
        tunnel.start()
        adapter = bounded(LONG_SECONDS)
        ask(adapter, protocol)
        limit = Limit(CLOCK.monotonic() + LONG_SECONDS, CLOCK)
        cutter = threading.Thread(target=_cut_at_call, args=(2, simulator, limit))
        cutter.start()
        with pytest.raises(ProviderError) as caught:
            ask(adapter, protocol, stream=True, limit=limit)
        assert caught.value.fault is Fault.CANCELLED
        cutter.join(30)
        tunnel.join(30)
    assert len({request.connection for request in simulator.requests("alpha")}) == 1


class _Stepping:
    """A clock that only a test moves."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def wait(self, queue: Any, timeout_seconds: float | None) -> Any:
        return queue.get(timeout=timeout_seconds)
