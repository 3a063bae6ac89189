"""Ctrl-C in the middle of a library, while a command runs: dropped there, or made into another exception."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from turnout import StorageError
from turnout.batch import lines
from turnout.cli import batch, demo
from turnout.cli.commands import app
from turnout.cli.demo_board import Board
from turnout.cli.exits import end_orderly_at_ctrl_c
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.testing.simulator import Answer, Simulator

END_SECONDS = 50


@pytest.fixture(autouse=True)
def ctrl_c_is_taken() -> Iterator[None]:
    """As at the beginning of the command."""
    before = signal.getsignal(signal.SIGINT)
    end_orderly_at_ctrl_c()
    yield
    signal.signal(signal.SIGINT, before)


def dropped_press(*_: Any) -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def press_made(error: Exception) -> Callable[..., None]:
    """A press, and what a library raises in its stead."""

    def raise_it(*_: object, **settings: object) -> None:
        dropped_press()
        raise error

    return raise_it


class Batch:
    """Five good lines for one simulated provider, and the command over them."""

    def __init__(self, folder: Path, simulator: Simulator) -> None:
        self.simulator = simulator
        self._source, self._config, self.out = folder / "in.jsonl", folder / "turnout.toml", folder / "out"
        ask = {"messages": [{"role": "user", "content": "hello"}]}
        call = {"method": "POST", "url": "/v1/chat/completions", "body": ask}
        self._source.write_text("".join(json.dumps({"custom_id": str(n), **call}) + "\n" for n in range(5)))
        self._config.write_text(
            '[metrics_store]\nbackend = "none"\n[[providers]]\nprovider_id = "p"\nname = "P"\n'
            'protocol = "openai_chat"\nmodel = "m"\napi_key = "k"\n'
            f'base_url = "{simulator.base_url("only")}"\n'
        )

    def run(self) -> Result:
        paths = [str(self._source), "--config", str(self._config), "--out", str(self.out)]
        return CliRunner().invoke(app, ["batch", *paths])


@pytest.fixture
def five(tmp_path: Path, rig: Any) -> Batch:
    return Batch(tmp_path, rig.simulate(only=Answer()))


def run_demo(tmp_path: Path) -> Result:
    return CliRunner().invoke(app, ["demo", "--calls", "50", "--database", str(tmp_path / "ledger.duckdb")])


def test_a_batch_whose_ctrl_c_was_dropped_while_modules_loaded_makes_no_call(
    five: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "load_sdk", dropped_press)
    ended = five.run()
    assert (ended.exit_code, ended.stdout, ended.stderr) == (130, "", "Stopped.\n")
    assert five.simulator.total("only") == 0
    assert not five.out.exists()


def test_a_batch_whose_ctrl_c_was_dropped_between_two_lines_submits_no_other(
    five: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = lines.parse_line

    def pressed_at_second(number: int, data: bytes) -> Any:
        if number == 2:
            dropped_press()
        return parse(number, data)

    monkeypatch.setattr(lines, "parse_line", pressed_at_second)
    ended = five.run()
    assert ended.exit_code == 130
    assert ended.stderr.startswith("Stopped: ")
    assert ended.stderr.endswith("what is done is kept, and --resume goes on.\n")
    assert five.simulator.total("only") <= 2


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), OSError("interrupted")])
def test_a_batch_says_what_was_done_where_a_library_made_an_error_of_ctrl_c(
    five: Batch, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(lines, "parse_line", press_made(error))
    ended = five.run()
    assert ended.exit_code == 130
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Stopped: 0 answered, 0 failed in ")
    assert line.endswith("; what is done is kept, and --resume goes on.")


def test_a_demo_whose_ctrl_c_was_dropped_while_modules_loaded_makes_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "load_sdk", dropped_press)
    ended = run_demo(tmp_path)
    assert ended.exit_code == 130
    assert "Stopped: 0 of 50 calls were answered, 0 failed." in ended.stdout


def test_a_demo_whose_ctrl_c_was_dropped_amid_its_calls_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Board.add

    def pressed(board: Board, end: Any) -> None:
        add(board, end)
        if board.ended == 1:
            dropped_press()

    monkeypatch.setattr(Board, "add", pressed)
    ended = run_demo(tmp_path)
    assert ended.exit_code == 130
    assert "Stopped: 1 of 50 calls were answered, 0 failed." in ended.stdout


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), StorageError("Query interrupted")])
def test_a_demo_ends_where_its_database_made_an_error_of_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(DuckDBMetricsStore, "query_recent", press_made(error))
    ended = run_demo(tmp_path)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (130, "", "Stopped.\n")


def test_ctrl_c_waits_until_duckdb_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded: list[str] = []

    def pressed(module: str) -> None:
        signal.raise_signal(signal.SIGINT)
        loaded.append(module)

    monkeypatch.setattr("importlib.import_module", pressed)
    ended = run_demo(tmp_path)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (130, "", "Stopped.\n")
    assert loaded == ["duckdb"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", [["demo", "--calls", "4"], ["simulate", "--port", "0"]])
def test_a_command_whose_output_cannot_be_written_says_why(command: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = written_to(full.fileno(), command, tmp_path)
    assert ended == (1, "Stopped: the output cannot be written (No space left on device).\n")


@pytest.mark.parametrize("command", [["demo", "--calls", "4"], ["simulate", "--port", "0"]])
def test_a_command_whose_output_nobody_reads_says_so(command: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = written_to(writer, command, tmp_path)
    finally:
        os.close(writer)
    assert ended == (1, "Stopped: nobody reads the output any more.\n")


def written_to(output: int, command: list[str], home: Path) -> tuple[int, str]:
    """The exit code, and what is on stderr, of a command whose stdout is the file of that number."""
    ended = subprocess.run(
        [sys.executable, "-m", "turnout.cli", *command],
        env={**os.environ, "HOME": str(home)},
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=END_SECONDS,
    )
    return ended.returncode, ended.stderr
