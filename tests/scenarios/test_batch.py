"""`turnout batch` as an operator runs it: over real HTTP, stopped and killed, and taken up again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnout import SQLiteMetricsStore
from turnout.cli.commands import app
from turnout.testing.simulator import Answer, LoggedRequest, ScriptLike, Silence, Simulator, Status, Steps

END_SECONDS = 50
TEMPLATE = """
[[providers]]
provider_id = "{name}-{protocol}"
name = "{name}"
protocol = "openai_{protocol}"
model = "model-of-{name}"
base_url = "{url}"
api_key = "sk-of-{name}"
max_concurrency = 100
"""


class Bench:
    """A folder with a batch's files, simulated providers, and the command to run over them."""

    def __init__(self, folder: Path, rig: Any, stack: ExitStack) -> None:
        self.folder = folder
        self.source, self.out = folder / "in.jsonl", folder / "out.jsonl"
        self.config, self.ledger = folder / "turnout.toml", folder / "ledger.db"
        self._rig = rig
        self._stack = stack

    def providers(self, head: str = "", **scripts: ScriptLike) -> Simulator:
        """Simulated providers, each configured for Chat and for Responses, and free to have the whole pool."""
        sim: Simulator = self._rig.simulate(**scripts)
        config = head + f'[metrics_store]\nbackend = "sqlite"\npath = "{self.ledger}"\n'
        for name in scripts:
            for protocol in ("chat", "responses"):
                config += TEMPLATE.format(name=name, protocol=protocol, url=sim.base_url(name))
        self.config.write_text(config)
        return sim

    def lines(self, count: int, url: str = "/v1/chat/completions") -> None:
        with self.source.open("a") as file:
            for number in range(count):
                file.write(json.dumps(line(f"{url[4]}-{number}", url)) + "\n")

    def start(
        self, *options: str, source: str = "", out: str = "", **settings: Any
    ) -> "subprocess.Popen[bytes]":
        """Run it in a process of its own."""
        arguments = [source or str(self.source), "--config", str(self.config), "--out", out or str(self.out)]
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        running = subprocess.Popen(
            [sys.executable, "-m", "turnout.cli", "batch", *arguments, *options],
            env={**os.environ, "COLUMNS": "200"},
            **settings,
        )
        self._stack.enter_context(running)
        self._stack.callback(running.kill)
        return running

    def run(self, *options: str) -> tuple[int, str]:
        """Run to the end, in this process; the exit code and what it said."""
        arguments = [
            "batch",
            str(self.source),
            "--config",
            str(self.config),
            "--out",
            str(self.out),
            *options,
        ]
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert result.stdout == ""
        assert "\x1b" not in result.stderr
        return result.exit_code, result.stderr

    def outputs(self) -> list[Any]:
        text = self.out.read_text()
        assert text == "" or text.endswith("\n")
        return [json.loads(each) for each in text.splitlines()]

    def answers(self) -> list[str]:
        """The ids of the lines, each with a whole answer, in order."""
        outputs = self.outputs()
        assert [each["error"] for each in outputs] == [None] * len(outputs)
        assert {each["response"]["status_code"] for each in outputs} <= {200}
        return sorted(each["custom_id"] for each in outputs)


def line(custom_id: str, url: str = "/v1/chat/completions", **body: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"input": custom_id}
    if url == "/v1/chat/completions":
        asked = {"messages": [{"role": "user", "content": custom_id}]}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": "gpt", **asked, **body}}


def ended(running: "subprocess.Popen[bytes]") -> tuple[int, str]:
    _, told = running.communicate(timeout=END_SECONDS)
    assert b"\x1b" not in told
    assert b"Traceback" not in told
    return running.returncode, told.decode()


@pytest.fixture
def bench(tmp_path: Path, rig: Any) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path, rig, stack)


def chats(count: int) -> list[str]:
    return sorted(f"c-{number}" for number in range(count))


def open_at_once(requests: tuple[LoggedRequest, ...]) -> int:
    """The most requests that were open at the same moment."""
    moments = [(request.at, 1) for request in requests]
    moments += [(request.closed_at, -1) for request in requests if request.closed_at is not None]
    most = now = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


def test_both_endpoints_are_answered_through_providers_that_fail(bench: Bench) -> None:
    sim = bench.providers(good=Answer(), failing=Status(500), refusing=Status(429))
    bench.lines(30)
    bench.lines(30, "/v1/responses")
    code, told = bench.run("--workers", "4")
    assert code == 0, told
    assert "60 answered, 0 failed in " in told
    assert bench.answers() == sorted(f"{url}-{number}" for url in "cr" for number in range(30))
    assert bench.out.stat().st_mode & 0o777 == 0o600
    by_id = {each["custom_id"]: each["response"] for each in bench.outputs()}
    chat, response = by_id["c-7"]["body"], by_id["r-7"]["body"]
    assert chat["choices"][0]["message"]["content"] == "good: c-7"
    assert response["output"][0]["content"][0]["text"] == "good: r-7"
    assert by_id["c-7"]["request_id"].startswith("req_good_")
    requests = sim.requests("good")
    assert {request.body["model"] for request in requests if request.body} == {"model-of-good"}
    assert len(requests) == 60
    assert sim.total("failing") >= 1
    assert sim.total("refusing") >= 1


def test_each_line_names_its_invocation_in_the_ledger(bench: Bench) -> None:
    bench.providers(good=Answer())
    bench.lines(5)
    assert bench.run()[0] == 0
    store = SQLiteMetricsStore(bench.ledger)
    rows = store.query_recent(since=datetime(2020, 1, 1, tzinfo=UTC))
    store.close()
    assert {"batch_req_" + row.invocation_id.replace("-", "") for row in rows} == {
        each["id"] for each in bench.outputs()
    }


def test_a_bad_line_is_told_by_its_number_and_the_rest_runs(bench: Bench) -> None:
    bench.providers(good=Answer())
    bench.lines(2)
    with bench.source.open("a") as file:
        file.write("{broken\n")
        file.write(json.dumps(line("streaming", stream=True)) + "\n")
        file.write(json.dumps(line("c-0")) + "\n")
        file.write(json.dumps(line("last")))
    code, told = bench.run()
    assert code == 1
    assert "line 3: is not JSON" in told
    assert "line 4: body.stream: a batch has no streams; leave it out" in told
    assert "line 5: custom_id: 'c-0' is that of line 1 already" in told
    assert "3 answered, 0 failed, 3 bad lines" in told
    bad = {each["error"]["message"]: each["custom_id"] for each in bench.outputs() if each["error"]}
    assert sorted((text.partition(": ")[0], custom_id) for text, custom_id in bad.items()) == [
        ("line 3", None),
        ("line 4", "streaming"),
        ("line 5", None),
    ]
    answered = sorted(each["custom_id"] for each in bench.outputs() if each["response"])
    assert answered == ["c-0", "c-1", "last"]


def test_a_failure_over_http_is_given_as_its_response_and_any_other_as_its_error(bench: Bench) -> None:
    refusal = Status(400, message="no such tool", error_code="bad_tool")
    bench.providers(only=Steps((refusal, Answer())))
    bench.lines(1)
    code, told = bench.run()
    assert code == 1
    assert "line 1 (c-0): only (id=" in told
    assert "0 answered, 1 failed" in told
    (output,) = bench.outputs()
    assert output["error"] is None
    assert output["response"]["status_code"] == 400
    assert output["response"]["request_id"] == "req_only_1"
    assert output["response"]["body"]["error"]["message"] == "no such tool"
    assert output["response"]["body"]["error"]["code"] == "bad_tool"

    sim = bench.providers(only=Answer())
    sim.stop()
    code, told = bench.run("--resume")
    (output,) = bench.outputs()
    assert (code, output["response"], output["error"]["code"]) == (1, None, "connection")
    assert "sk-of-only" not in told + bench.out.read_text()


def test_failures_are_run_again_on_resume(bench: Bench) -> None:
    bench.providers(only=Steps((Answer(), Status(400), Answer(), Status(400), Answer())))
    bench.lines(6)
    code, told = bench.run("--workers", "1")
    assert code == 1
    assert "4 answered, 2 failed" in told
    code, told = bench.run("--resume")
    assert code == 0
    assert "2 answered, 0 failed, 4 answered before" in told
    assert bench.answers() == chats(6)


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_resume_does_the_rest(bench: Bench) -> None:
    sim = bench.providers(only=Steps((Answer(),) * 20, then=Silence()))
    bench.lines(200)
    running = bench.start("--workers", "4")
    sim.wait_for(lambda: sim.total("only") == 24, END_SECONDS)
    running.send_signal(signal.SIGINT)
    code, told = ended(running)
    assert code == 130
    (stopped,) = told.splitlines()
    assert stopped.startswith("Stopped: 20 answered, 0 failed in ")
    assert stopped.endswith("what is done is kept, and --resume goes on.")
    assert len(bench.answers()) == 20
    sim.wait_for(lambda: sim.connections() == 0, END_SECONDS)

    sim.script("only", Answer())
    code, told = bench.run("--resume", "--workers", "4")
    assert code == 0
    assert "180 answered, 0 failed, 20 answered before" in told
    assert bench.answers() == chats(200)
    assert sim.total("only") == 24 + 180


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_break_the_orderly_end(bench: Bench) -> None:
    sim = bench.providers(only=Steps((Answer(),) * 20, then=Silence()))
    bench.lines(200)
    running = bench.start("--workers", "16")
    sim.wait_for(lambda: sim.total("only") == 36, END_SECONDS)
    running.send_signal(signal.SIGINT)
    # Its end begins with the calls in flight being cut.
    sim.wait_for(lambda: sim.connections() == 0, END_SECONDS)
    running.send_signal(signal.SIGINT)
    code, told = ended(running)
    assert code == 130
    (stopped,) = told.splitlines()
    assert stopped.startswith("Stopped: 20 answered, 0 failed in ")
    assert len(bench.answers()) == 20


@pytest.mark.slow
def test_after_a_kill_and_a_torn_line_resume_gives_every_id_one_line(bench: Bench) -> None:
    sim = bench.providers(only=Steps((Answer(),) * 30, then=Silence()))
    bench.lines(100)
    running = bench.start("--workers", "4")
    sim.wait_for(lambda: sim.total("only") == 34, END_SECONDS)
    running.kill()
    running.communicate(timeout=END_SECONDS)
    whole = bench.answers()
    with bench.out.open("ab") as file:
        file.write(b'{"id": "batch_req_0193", "custom_id": "c-99", "respon')

    sim.script("only", Answer())
    code, told = bench.run("--resume", "--workers", "4")
    assert code == 0, told
    assert f"{100 - len(whole)} answered, 0 failed, {len(whole)} answered before" in told
    assert bench.answers() == chats(100)


@pytest.mark.slow
def test_an_output_in_use_is_refused(bench: Bench) -> None:
    sim = bench.providers(only=Silence())
    bench.lines(1)
    running = bench.start()
    sim.wait_for(lambda: sim.total("only") == 1, END_SECONDS)
    code, told = bench.run("--resume")
    assert code == 2
    assert "another process is writing" in told
    running.send_signal(signal.SIGINT)
    assert ended(running)[0] == 130


def test_no_more_calls_run_at_once_than_there_are_workers(bench: Bench) -> None:
    sim = bench.providers(only=Answer(latency_seconds=0.02))
    bench.lines(40)
    assert bench.run("--workers", "3")[0] == 0
    assert open_at_once(sim.requests("only")) == 3


def test_of_several_providers_one_without_a_bound_of_its_own_has_half_of_the_workers(bench: Bench) -> None:
    sim = bench.providers(only=Answer(latency_seconds=0.02))
    bench.config.write_text(bench.config.read_text().replace("max_concurrency = 100\n", ""))
    bench.lines(40)
    assert bench.run("--workers", "6")[0] == 0
    assert open_at_once(sim.requests("only")) == 3


@pytest.mark.slow
def test_it_reads_and_writes_pipes_and_answers_while_the_input_waits(bench: Bench) -> None:
    bench.providers(only=Answer())
    running = bench.start(source="-", out="-", stdin=subprocess.PIPE)
    assert running.stdin is not None
    assert running.stdout is not None
    for number in range(3):
        running.stdin.write(json.dumps(line(f"c-{number}")).encode() + b"\n")
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["custom_id"] == f"c-{number}"
    running.stdin.close()
    running.stdin = None
    code, told = ended(running)
    assert code == 0
    assert told.startswith("3 answered, 0 failed in ")


@pytest.mark.slow
def test_an_output_that_cannot_be_written_stops_it_with_the_reason(bench: Bench) -> None:
    bench.providers(only=Answer())
    bench.lines(50)
    with Path("/dev/full").open("wb") as full:
        code, told = ended(bench.start(out="-", stdout=full))
    assert code == 1
    assert told.startswith("Stopped: reading or writing failed: No space left on device; ")
