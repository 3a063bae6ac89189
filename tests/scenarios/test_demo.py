"""`turnout demo` as a new user runs it."""

import os
import pty
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from turnout import DuckDBMetricsStore
from turnout.cli.commands import app
from turnout.testing.simulator import SimulatedProvider, Status

END_SECONDS = 50
DEMO = [sys.executable, "-m", "turnout.cli", "demo"]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty home."""
    return {**os.environ, "HOME": str(tmp_path), "COLUMNS": "100"}


def demo(home: dict[str, str], *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*DEMO, *options], env=home, capture_output=True, text=True, timeout=END_SECONDS)


@pytest.mark.slow
def test_every_call_gets_a_whole_answer_and_the_pasted_line_shows_the_ledger(home: dict[str, str]) -> None:
    ended = demo(home, "--calls", "60", "--seed", "3")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
    lines = ended.stdout.splitlines()
    assert lines[0] == "60 calls to four simulated providers: healthy, slow, flaky, cutting."
    assert lines[1].startswith("60 of 60 calls got a whole answer in ")
    assert len(lines) == 9
    told = re.search(r"attempts +(\d+), of which (\d+) failed", ended.stdout)
    assert told is not None
    attempts, failures = int(told[1]), int(told[2])
    assert attempts == 60 + failures

    path = Path(home["HOME"]) / ".turnout" / "metrics.duckdb"
    assert path.stat().st_mode & 0o777 == 0o600
    store = DuckDBMetricsStore(path)
    rows = store.query_recent(since=datetime(2020, 1, 1, tzinfo=UTC), metrics_scope="demo")
    store.close()
    assert len(rows) == attempts
    assert len({row.invocation_id for row in rows}) == 60
    assert {row.call_type for row in rows} == {"regular", "streaming"}
    assert {row.protocol for row in rows} == {"openai_chat", "openai_responses"}
    assert {row.fault for row in rows} >= {"server_error", "stream_interrupted"}
    for figure in ("failovers", "restarts"):
        found = re.search(rf"{figure} +(\d+) ", ended.stdout)
        assert found is not None
        assert int(found[1]) >= 1

    assert str(path) in lines[-2]
    pasted = subprocess.run(
        ["bash", "-c", lines[-1]], capture_output=True, text=True, env=home, timeout=END_SECONDS
    )
    assert (pasted.returncode, pasted.stderr) == (0, "")
    for provider in ("healthy", "slow", "flaky", "cutting"):
        assert provider in pasted.stdout


@pytest.mark.slow
def test_a_ledger_held_by_another_process_is_said_and_the_calls_go_on(
    home: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "held.duckdb"
    with duckdb.connect(str(path)):
        ended = demo(home, "--calls", "4", "--database", str(path))
    assert ended.returncode == 0
    first, *_ = ended.stdout.splitlines()
    assert first.startswith(f"No ledger: the database {path} is held by another process; ")
    assert "4 of 4 calls got a whole answer" in ended.stdout
    assert "to look into it" not in ended.stdout


def test_a_file_that_is_no_ledger_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.duckdb"
    path.write_text("my notes")
    result = CliRunner().invoke(app, ["demo", "--calls", "4", "--database", str(path)])
    assert result.exit_code == 0
    told = result.stdout.splitlines()[0]
    assert told.startswith("No ledger: ")
    assert told.endswith("The calls are made all the same; for a ledger, name another file with --database.")
    assert "4 of 4 calls got a whole answer" in result.stdout
    assert path.read_text() == "my notes"


@pytest.mark.slow
def test_ctrl_c_ends_it_with_what_was_done_and_where_the_ledger_is(home: dict[str, str]) -> None:
    with subprocess.Popen(
        [*DEMO, "--calls", "100000"],
        env={**home, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline().startswith("100000 calls to four")
            running.send_signal(signal.SIGINT)
            rest, errors = running.communicate(timeout=END_SECONDS)
        finally:
            running.kill()
    assert (running.returncode, errors) == (130, "")
    stopped, ledger, query = rest.splitlines()
    assert re.fullmatch(r"Stopped: \d+ of 100000 calls were answered, 0 failed\.", stopped)
    assert ".turnout/metrics.duckdb" in ledger
    assert "import duckdb" in query


@pytest.mark.slow
def test_on_a_terminal_a_table_and_a_bar_are_drawn(home: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*DEMO, "--calls", "60"],
        env={**home, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
        stdout=theirs,
        stderr=theirs,
    ) as running:
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 65536):
                shown += more
        except OSError:
            pass  # how a terminal says that its last user has gone
        finally:
            os.close(ours)
            running.kill()
    text = shown.decode()
    assert "\x1b[?25h" in text, "the cursor is shown again"
    assert "60/60" in text
    assert "provider" in text
    assert "is benched for" in text
    final = text[text.rindex("60/60") :]
    assert "is benched for" not in final
    assert "60 of 60 calls got a whole answer" in final


def test_a_call_that_nobody_answers_is_named_and_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ("healthy", "slow", "flaky", "cutting")
    monkeypatch.setattr(
        "turnout.cli.demo.simulated", lambda seed: [SimulatedProvider(name, Status(503)) for name in names]
    )
    result = CliRunner().invoke(app, ["demo", "--calls", "2", "--database", str(tmp_path / "l.duckdb")])
    assert result.exit_code == 1
    assert "0 of 2 calls got a whole answer" in result.stdout
    assert re.search(r"^Call 1 failed: no ", result.stdout, re.MULTILINE)
    assert re.search(r"^Call 2 failed: no ", result.stdout, re.MULTILINE)
