"""The simulator over TLS."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from turnout.testing.simulator import (
    Answer,
    Cut,
    Ending,
    Reset,
    SimulatedProvider,
    Simulator,
    Stall,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


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
