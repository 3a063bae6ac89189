"""What a demonstration counts, and how it says it."""

import io
import math
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from turnout.actors.health import ProviderHealthReport
from turnout.calls import Attempt, CallType, Identity, Outcome, Reason, Report
from turnout.cli.demo_board import Board
from turnout.cli.demo_calls import CallEnd, DemoCall, questions
from turnout.cli.demo_view import DemoView, query_line, summary
from turnout.decisions.circuit import State
from turnout.faults import Fault

A, B = Identity("a", "a"), Identity("b", "b")


def attempt(by: Identity, outcome: Outcome, fault: Fault | None = None) -> Attempt:
    return Attempt(1, 1, 1, Reason.PRIMARY, by, CallType.REGULAR, 0.0, 1.0, 0.0, outcome, 0, fault)


def ended(*attempts: Attempt, seconds: float = 1.0, restarts: int = 0, problem: str = "") -> CallEnd:
    last = attempts[-1]
    answered_by = last.by if last.outcome is Outcome.OK else None
    call = DemoCall(7, "Question 7", streaming=restarts > 0)
    return CallEnd(call, Report("id", answered_by, attempts, (), 0.0), restarts, seconds, problem)


def test_attempts_answers_and_failures_are_counted_by_provider() -> None:
    board = Board(["a", "b"])
    board.add(ended(attempt(A, Outcome.FAILED, Fault.RATE_LIMIT), attempt(B, Outcome.OK)))
    board.add(ended(attempt(A, Outcome.FAILED, Fault.STREAM_INTERRUPTED), attempt(B, Outcome.OK), restarts=1))
    board.add(ended(attempt(A, Outcome.OK)))
    a, b = board.providers["a"], board.providers["b"]
    assert (a.attempts, a.answers, dict(a.faults)) == (3, 1, {"rate_limit": 1, "stream_interrupted": 1})
    assert (b.attempts, b.answers, dict(b.faults)) == (2, 2, {})
    assert (board.answered, board.streams, board.failovers, board.restarts) == (3, 1, 2, 1)


@pytest.mark.parametrize(("part", "seconds"), [(0.0, 1.0), (0.5, 50.0), (0.95, 95.0), (1.0, 100.0)])
def test_a_percentile_is_a_time_that_was_measured(part: float, seconds: float) -> None:
    board = Board(["a"])
    for number in random.Random(1).sample(range(1, 101), 100):
        board.add(ended(attempt(A, Outcome.OK), seconds=float(number)))
    assert board.percentile(part) == seconds


def test_without_answers_there_is_no_percentile() -> None:
    assert math.isnan(Board(["a"]).percentile(0.5))


def test_the_summary_names_each_call_that_failed() -> None:
    board = Board(["a", "b"])
    board.add(ended(attempt(A, Outcome.OK), seconds=0.25))
    board.add(ended(attempt(A, Outcome.FAILED, Fault.TIMEOUT), problem="no provider answered"))
    lines = summary(board, 2, 3.0)
    assert lines[0] == "1 of 2 calls got a whole answer in 3.0 s: 1 regular, 0 streaming."
    assert "  latency      p50 250 ms, p95 250 ms" in lines
    assert lines[-1] == "Call 7 failed: no provider answered"


def test_the_questions_follow_from_the_seed_and_mix_both_kinds() -> None:
    first, again, other = (list(questions(50, random.Random(seed))) for seed in (1, 1, 2))
    assert first == again != other
    assert {call.streaming for call in first} == {True, False}
    assert len({call.question for call in first}) == 50


@pytest.mark.parametrize(
    ("state", "remaining", "probes_out", "shown"),
    [
        (State.CLOSED, None, 0, "closed"),
        (State.OPEN, 12.34, 0, "benched 12.3 s"),
        (State.HALF_OPEN, None, 0, "half-open"),
        (State.HALF_OPEN, None, 1, "being probed"),
        (State.DISABLED, None, 0, "disabled"),
    ],
)
def test_the_table_tells_each_state_of_a_provider(
    state: State, remaining: float | None, probes_out: int, shown: str
) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=100)
    report = ProviderHealthReport("healthy", state, False, 0, remaining, None, None, probes_out)
    with DemoView(console, Board(["healthy"]), 1) as view:
        view.draw({"healthy": report}, "")
    assert isinstance(console.file, io.StringIO)
    assert shown in console.file.getvalue()


@pytest.mark.parametrize("name", ["ledger.duckdb", "with space.duckdb", 'it\'s $HOME "x" `y` !.duckdb'])
def test_the_query_line_works_for_any_path_when_it_is_pasted(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with duckdb.connect(str(path)) as made:
        made.execute(
            "CREATE TABLE provider_attempts AS SELECT 'p1' provider_name, 'ok' outcome, NULL::VARCHAR fault, "
            "'demo' metrics_scope, 12.0 total_duration_ms, now() started_at "
            "UNION ALL SELECT 'before', 'ok', NULL, 'demo', 12.0, now() - INTERVAL 1 HOUR"
        )
    line = query_line(str(path), "demo", datetime.now(UTC) - timedelta(minutes=1))
    shown = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=50)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "p1" in shown.stdout
    assert "before" not in shown.stdout


def test_the_query_line_runs_this_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    now = datetime.now(UTC)
    assert query_line("x", "demo", now).startswith(f"{sys.executable} -c ")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert query_line("x", "demo", now).startswith("python -c ")
