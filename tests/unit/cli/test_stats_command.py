"""`turnout stats` over ledgers that are there, that are not, and that somebody else has."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from turnout.cli import stats
from turnout.cli.commands import app
from turnout.cli.exits import end_orderly_at_ctrl_c
from turnout.errors import StorageError
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = ("--since", "2026-03-01T00:00Z", "--until", "2026-03-02T00:00Z")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["stats", *map(str, arguments)], env={"COLUMNS": "200", "TERM": "dumb"})


def a_row(number: int = 0, **known: Any) -> Row:
    full = Row(
        str(uuid4()), f"00000000-0000-7000-8000-{number:012x}", 1, "primary", NOON + timedelta(seconds=number),
        "scope", "a", "Provider A", "m", "openai_chat", "regular", True, "ok", None, None, 100.0, 100.0, 0.0, 5,
        None, 7, None, "unknown", None, None,
    )  # fmt: skip
    return full._replace(**known)


def failed_over(number: int) -> list[Row]:
    """A call that failed at one provider and was answered by another."""
    failed = a_row(number, success=False, outcome="failed", fault="timeout")
    answered = a_row(number, provider_id="b", provider_name="Provider B", attempt_number=2, reason="failover")
    return [failed, answered._replace(started_at=failed.started_at + timedelta(milliseconds=1))]


Made = Callable[..., tuple[str, ...]]


@pytest.fixture
def ledger(tmp_path: Path) -> Made:
    """Makes a ledger of these rows; the options that name it."""

    def make(*rows: Row) -> tuple[str, ...]:
        path = tmp_path / "ledger.sqlite"
        with closing(SQLiteMetricsStore(path)) as store:
            store.query_recent(since=NOON)
            store.record_attempts(rows)
        return "--backend", "sqlite", "--path", str(path)

    return make


@pytest.fixture
def duckdb_file(tmp_path: Path) -> Path:
    """A ledger of one row."""
    path = tmp_path / "ledger.duckdb"
    with closing(DuckDBMetricsStore(path)) as store:
        store.record_attempts([a_row()])
    return path


def providers(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return {one["provider_id"]: one for one in json.loads(result.stdout)["providers"]}


def test_it_tells_what_became_of_the_attempts(ledger: Made) -> None:
    result = run(*DAY, *ledger(a_row(1), a_row(2), *failed_over(3)))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Attempts from 2026-03-01 00:00:00 UTC to 2026-03-02 00:00:00 UTC, /")
    assert lines[0].endswith("ledger.sqlite")
    assert " ".join(lines[4].split()).startswith("Provider A (a) 3 66.6 % 100 ms")
    assert lines[4].split()[-1] == "1"
    assert " ".join(lines[5].split()).startswith("Provider B (b) 1 100.0 %")


def test_without_a_ledger_named_it_is_the_default_one(
    duckdb_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".turnout").mkdir()
    duckdb_file.rename(tmp_path / ".turnout" / "metrics.duckdb")
    assert list(providers(run(*DAY, "--json"))) == ["a"]


def test_times_bound_it(ledger: Made) -> None:
    named = ledger(*[a_row(second) for second in range(10)])
    told = providers(
        run(*named, "--since", "2026-03-01T12:00:03Z", "--until", "2026-03-01T12:00:05Z", "--json")
    )
    assert told["a"]["attempts"] == 2


def test_filters_narrow_it_and_a_providers_failovers_still_count(ledger: Made) -> None:
    named = ledger(*failed_over(1), a_row(2, metrics_scope="other"), a_row(3, call_type="streaming"))
    ask = (*DAY, *named, "--json")
    assert {who: one["attempts"] for who, one in providers(run(*ask)).items()} == {"a": 3, "b": 1}
    assert providers(run(*ask, "--scope", "other"))["a"]["attempts"] == 1
    assert providers(run(*ask, "--call-type", "streaming"))["a"]["attempts"] == 1
    (only,) = providers(run(*ask, "--provider", "a")).values()
    assert only["failovers_caused"] == 1
    assert list(providers(run(*ask, "--provider", "Provider B", "--provider", "a"))) == ["a", "b"]


def test_a_routers_own_file_names_the_ledger(tmp_path: Path) -> None:
    with closing(SQLiteMetricsStore(tmp_path / "ledger.sqlite")) as store:
        store.record_attempts([a_row()])
    config = tmp_path / "turnout.toml"
    provider = '[[providers]]\nprovider_id = "p"\nname = "P"\nprotocol = "openai_chat"\nmodel = "m"\n'
    place = f'[metrics_store]\nbackend = "sqlite"\npath = "{tmp_path / "ledger.sqlite"}"\n'
    config.write_text(provider + place)
    assert list(providers(run(*DAY, "--config", config, "--json"))) == ["a"]
    assert "--config names the ledger already" in run("--config", config, "--backend", "sqlite").stderr
    config.write_text(provider + '[metrics_store]\nbackend = "none"\n')
    refused = run("--config", config)
    assert refused.exit_code == 2
    assert "its router keeps no ledger" in refused.stderr


def test_an_empty_history_says_so_and_how_to_fill_it(ledger: Made) -> None:
    named = ledger()
    result = run(*named)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("No attempts from ")
    assert "turnout demo makes some" in result.stdout
    assert providers(run(*named, "--json")) == {}


def test_a_provider_without_attempts_is_told_beside_those_that_have_some(ledger: Made) -> None:
    result = run(*DAY, *ledger(a_row()), "--provider", "zzz")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1] == "There are some of other providers: a."


@pytest.mark.parametrize("backend", ["duckdb", "sqlite"])
def test_a_ledger_that_is_not_there_is_refused_and_not_made(tmp_path: Path, backend: str) -> None:
    result = run("--backend", backend, "--path", tmp_path / "folder" / "ledger")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"turnout stats: there is no database {tmp_path / 'folder' / 'ledger'}; ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--since", "soon"), "--since must be 90s"),
        (("--until", "later"), "--until must be 90s"),
        (("--since", "1h", "--until", "2h"), "--since 1h is not before --until 2h"),
        (("--since", "0s"), "--since 0s is not before --until now"),
        (("--backend", "sqlite"), "needs a --path"),
        (("--backend", "postgres", "--path", "x"), "TURNOUT_POSTGRES_URL is its URL"),
        (("--backend", "postgres"), "set the environment variable TURNOUT_POSTGRES_URL"),
        (("--allow-unencrypted",), "--allow-unencrypted is for --backend postgres"),
        (("--config", "x.toml", "--allow-unencrypted"), "write allow_unencrypted = true there"),
        (("--path", ":memory:"), "is not a file path"),
        (("--config", "nowhere.toml"), "nowhere.toml cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    arguments: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNOUT_POSTGRES_URL", raising=False)
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("turnout stats: ")
    assert problem in line


def test_a_server_that_cannot_be_reached_is_told_in_one_line_without_its_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TURNOUT_POSTGRES_URL", f"postgresql://me:s3cret-word@/db?host={tmp_path}")
    result = run("--backend", "postgres")
    assert (result.exit_code, result.stdout) == (7, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("turnout stats: ")
    assert "s3cret" not in line


def test_an_end_alone_asks_for_the_day_before_it(ledger: Made) -> None:
    named = ledger(a_row(), a_row(started_at=NOON - timedelta(hours=25)))
    (told,) = providers(run(*named, "--until", "2026-03-01T12:00:01Z", "--json")).values()
    assert told["attempts"] == 1


@pytest.mark.parametrize("backend", ["duckdb", "sqlite"])
def test_a_folder_is_told_to_be_no_ledger(backend: str, tmp_path: Path) -> None:
    result = run("--backend", backend, "--path", tmp_path)
    assert (result.exit_code, result.stdout) == (4, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"turnout stats: the database {tmp_path} is a folder; ")
    assert "Give the store another path" in line


def test_a_way_that_may_not_be_encrypted_must_be_confirmed_as_for_storage(
    postgres_ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNOUT_POSTGRES_URL", f"{postgres_ledger}&sslmode=disable")
    refused = run("--backend", "postgres")
    assert refused.exit_code == 2
    assert "--allow-unencrypted" in refused.stderr
    assert providers(run("--backend", "postgres", "--allow-unencrypted", "--json")) == {}


def test_what_is_no_ledger_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no ledger\n" * 1000)
    result = run("--path", tmp_path / "text")
    assert (result.exit_code, result.stdout) == (4, "")
    (line,) = result.stderr.splitlines()
    assert "is not a DuckDB database" in line


HOLD = """
import sys
from datetime import UTC, datetime
from turnout.storage.duckdb import DuckDBMetricsStore
store = DuckDBMetricsStore(sys.argv[1])
store.query_recent(since=datetime.now(UTC))
print(flush=True)
sys.stdin.read()
"""


def test_a_file_that_another_process_holds_says_who_can_tell_instead(duckdb_file: Path) -> None:
    path = duckdb_file
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        result = run("--path", path)
        assert holder.stdin is not None
        holder.stdin.close()
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    assert f"{path} is held by process {holder.pid}" in line
    assert "router.stats().providers" in line
    assert run("--path", path).exit_code == 0


@pytest.fixture
def ctrl_c_is_taken() -> Iterator[None]:
    """As at the beginning of the command."""
    before = signal.getsignal(signal.SIGINT)
    end_orderly_at_ctrl_c()
    yield
    signal.signal(signal.SIGINT, before)


def pressed(*_: object, **__: object) -> Iterator[Row]:
    signal.raise_signal(signal.SIGINT)
    yield a_row()


def pressed_into_the_database(*_: object, **__: object) -> Iterator[Row]:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    raise StorageError("the database failed: interrupted")


@pytest.mark.parametrize("rows", [pressed, pressed_into_the_database])
def test_ctrl_c_ends_it_with_a_short_word(
    ledger: Made, monkeypatch: pytest.MonkeyPatch, ctrl_c_is_taken: None, rows: Callable[..., Iterator[Row]]
) -> None:
    monkeypatch.setattr(stats, "rows_of", rows)
    result = run(*ledger())
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Stopped.\n")


def broken(*_: object, **__: object) -> Iterator[Row]:
    yield a_row()
    raise StorageError("the disk is gone\nentirely")


def test_an_error_of_the_database_amid_the_rows_is_one_line(
    ledger: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "rows_of", broken)
    result = run(*ledger())
    assert (result.exit_code, result.stdout) == (7, "")
    assert result.stderr == "turnout stats: the disk is gone; entirely\n"


def test_a_long_read_says_on_the_terminal_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_LOOK_EVERY_ROWS", 2), ("_SHOWN_AFTER_SECONDS", 0), ("_DRAWN_EVERY_SECONDS", 0)):
        monkeypatch.setattr(stats, name, value)
    monkeypatch.setenv("TERM", "xterm")
    store = MemoryMetricsStore()
    store.record_attempts([a_row(second) for second in range(9)])
    question = stats.Question(NOON, NOON + timedelta(days=1), None, (), None)
    mine, its = os.openpty()
    with os.fdopen(its, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        (told,) = stats._history(store, question)
    shown = ""
    # What was written stays to be read, then comes the error that nobody writes any more.
    with suppress(OSError):
        while more := os.read(mine, 65_536):
            shown += more.decode()
    os.close(mine)
    assert told.attempts == 9
    assert "8 attempts read (" in shown
    assert "up to 2026-03-01 12:00:07 UTC" in shown
