"""`run_simulator` in a process of its own, as a person runs it."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from turnout.cli.simulate import run_simulator

pytest.importorskip("rich")

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
START = "from turnout.cli.simulate import run_simulator; run_simulator(0)"


@pytest.fixture
def command() -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        [sys.executable, "-c", START],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
    )
    with running:
        yield running
        running.kill()


def read_until(process: subprocess.Popen[str], mark: str) -> str:
    assert process.stdout is not None
    got = ""
    while mark not in got:
        line = process.stdout.readline()
        assert line, f"ended without {mark!r}: {got}"
        got += line
    return got


def test_it_says_how_to_call_each_provider_shows_calls_and_stops_on_ctrl_c(
    command: subprocess.Popen[str],
) -> None:
    shown = read_until(command, "Ctrl-C stops.")
    urls = dict(re.findall(r"(\w+)\s+(http://127\.0\.0\.1:\d+/\w+/v1)", shown))
    assert {"healthy", "slow", "flaky", "down", "cutting", "silent"} <= urls.keys()
    assert f"curl {urls['healthy']}/chat/completions" in shown

    with openai.OpenAI(base_url=urls["healthy"], api_key="any", max_retries=0, timeout=20) as client:
        assert client.chat.completions.create(**ASK).choices[0].message.content == "healthy: hello"
        with pytest.raises(openai.InternalServerError):
            client.with_options(base_url=urls["down"]).responses.create(model="m", input="hello")

    lines = read_until(command, "down").splitlines()
    assert re.match(r"healthy +POST chat/completions +200 answered \d+ ms", lines[0])
    assert re.match(r"down +POST responses +503 refused \d+ ms", lines[1])
    command.send_signal(signal.SIGINT)
    rest, errors = command.communicate(timeout=20)
    assert (command.returncode, rest.strip(), errors) == (0, "Stopped.", "")


def test_a_taken_port_is_said_plainly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit, match=f"cannot listen on port {port} .*choose another one") as ended:
            run_simulator(port)
    assert str(ended.value).startswith("turnout simulate: cannot listen")
    assert str(ended.value).endswith("; choose another one with --port")
