"""What the simulator's tests share: simulators that end, clients that close, and a bare socket."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import openai
import pytest

from turnout.testing.simulator import ScriptLike, SimulatedProvider, Simulator

Simulate = Callable[..., Simulator]
Connect = Callable[..., openai.OpenAI]


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name == "turnout-simulator"] == []


@pytest.fixture
def simulate() -> Iterator[Simulate]:
    """Starts a simulator: `simulate(script, **provider settings)` has one provider, `a`."""
    with ExitStack() as stack:

        def start(script: ScriptLike | None = None, **settings: Any) -> Simulator:
            if script is not None:
                settings["script"] = script
            return stack.enter_context(Simulator([SimulatedProvider("a", **settings)]))

        yield start


@pytest.fixture
def connect() -> Iterator[Connect]:
    """An openai client for a simulated provider, without retries."""
    with ExitStack() as stack:

        def client(sim: Simulator, provider: str = "a", **settings: Any) -> openai.OpenAI:
            settings = {"api_key": "sk-one", "max_retries": 0, "timeout": 20.0, **settings}
            return stack.enter_context(openai.OpenAI(base_url=sim.base_url(provider), **settings))

        yield client


class BareClient:
    """A socket that speaks just enough HTTP to see what the SDK would hide."""

    def __init__(self, sim: Simulator) -> None:
        self.socket = socket.create_connection(("127.0.0.1", sim.port), timeout=20)

    def send(self, body: Any, path: str = "/a/v1/chat/completions", method: str = "POST") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
        self.socket.sendall(head.encode() + data)

    def read_until(self, mark: bytes) -> bytes:
        """All bytes up to and with `mark`, or all there are if the server ends first."""
        got = b""
        while mark not in got:
            more = self.socket.recv(65536)
            if not more:
                break
            got += more
        return got

    def read_response(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a response with a content-length."""
        head, _, body = self.read_until(b"\r\n\r\n").partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        while len(body) < int(headers["content-length"]):
            body += self.socket.recv(65536)
        return int(status.split()[1]), headers, body

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def bare() -> Iterator[Callable[[Simulator], BareClient]]:
    with ExitStack() as stack:

        def client(sim: Simulator) -> BareClient:
            made = BareClient(sim)
            stack.callback(made.close)
            return made

        yield client
