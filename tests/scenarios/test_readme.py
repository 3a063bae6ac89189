"""The README's examples, run as they stand, with the simulator where the providers would be."""

import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.ledgers import Ledger, a_row
from turnout import Outcome, PostgresMetricsStore, ProviderRouter, StorageBackend, create_database
from turnout.cli.commands import app
from turnout.cli.simulate import _EVERYDAY, DEFAULT_PORT
from turnout.testing import ScriptedAdapters
from turnout.testing.simulator import Answer, Cut, SimulatedProvider, Simulator, Status

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"<!-- test: ([a-z ]+) -->\n```(?:python|toml|sh|sql)\n(.*?)```", re.DOTALL)

pytestmark = pytest.mark.skipif(not README.exists(), reason="the README is not beside the tests")


def block(name: str) -> str:
    blocks = dict(BLOCK.findall(README.read_text()))
    return str(blocks[name])


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator([SimulatedProvider("openai"), SimulatedProvider("backup")]) as simulator:
        yield simulator


@pytest.fixture
def run(simulator: Simulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Runs blocks in one namespace; the router that they make is closed in the end."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_BASE_URL", simulator.base_url("openai"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-key")
    monkeypatch.setenv("BACKUP_API_KEY", "sk-backup-key")
    names: dict[str, Any] = {}

    def run(name: str, *, keep_open: bool = False) -> dict[str, Any]:
        code = block(name).replace("https://api.backup.example/v1", simulator.base_url("backup"))
        if keep_open:
            code = code.replace("router.close()", "")
        exec(compile(code, f"README: {name}", "exec"), names)
        return names

    yield run
    names["router"].close()


def test_the_quick_start_answers_and_keeps_its_ledger(run: Any, tmp_path: Path) -> None:
    names = run("quick start")
    assert type(names["response"]).__name__ == "ChatCompletion"
    assert names["future"].report().answered_by.name in ("OpenAI", "Backup")
    assert (tmp_path / ".turnout" / "metrics.duckdb").stat().st_mode & 0o777 == 0o600


def test_the_address_for_readers_without_a_key_is_one_that_turnout_simulate_serves(
    simulator: Simulator,
) -> None:
    ((port, name),) = re.findall(r'"http://127\.0\.0\.1:(\d+)/(\w+)/v1"', README.read_text())
    assert int(port) == DEFAULT_PORT
    assert name in [provider.name for provider, _ in _EVERYDAY]
    assert simulator.base_url("openai").endswith("/openai/v1")


def test_code_for_openais_client_runs_unchanged(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run("quick start", keep_open=True)
    capsys.readouterr()
    names = run("client")
    assert names["answer"].choices[0].message.content in capsys.readouterr().out


def test_the_streaming_example_throws_away_what_broke(
    run: Any, simulator: Simulator, capsys: pytest.CaptureFixture[str]
) -> None:
    run("quick start", keep_open=True)
    simulator.script("openai", Cut(2, Answer(text="never whole")))
    simulator.script("backup", Answer(text="a whole story"))
    capsys.readouterr()
    names = run("streaming")
    assert "".join(names["pieces"]) == "a whole story"
    assert names["stream"].report().attempts[-1].outcome is Outcome.OK


def test_the_errors_example_shows_the_providers_own_words(
    run: Any, simulator: Simulator, capsys: pytest.CaptureFixture[str]
) -> None:
    run("quick start", keep_open=True)
    for name in ("openai", "backup"):
        simulator.script(name, Status(500, message=f"{name} is on fire"))
    capsys.readouterr()
    run("errors")
    told = capsys.readouterr().out
    assert "openai is on fire" in told
    assert "backup is on fire" in told


def test_the_health_example_shows_who_is_benched_and_brings_it_back(
    run: Any, simulator: Simulator, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run("quick start", keep_open=True)
    simulator.script("openai", Status(429, message="too fast", retry_after=1000))
    for _ in range(2):
        names["router"].invoke([names["hello"]])
    capsys.readouterr()
    run("health")
    told = capsys.readouterr().out
    assert "openai-production open 9" in told
    assert "too fast" in told
    assert "backup-production closed None None None" in told
    assert names["router"].health_report()["openai-production"].state == "closed"


def test_the_logs_example_shows_what_matters_and_no_more() -> None:
    said = "; ".join(f"logger.{level}('{level}')" for level in ("debug", "info", "warning"))
    logs = block("logs")
    told = subprocess.run(
        [sys.executable, "-c", f"{logs}\n{said}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stderr
    assert [line.rpartition(" - ")[2] for line in told.splitlines()] == ["info", "warning"]


def test_the_retries_example_makes_a_policy_that_tries_again(
    run: Any, simulator: Simulator, rig: Any
) -> None:
    run("quick start", keep_open=True)
    names = run("retries")
    simulator.script("openai", [Status(500), Answer(text="again")])
    router = rig.router([rig.provider(simulator, "openai")], retry_policy=names["policy"])
    answer = router.invoke(rig.chat())
    assert answer.choices[0].message.content == "again"


def test_the_router_file_makes_a_router(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, simulator: Simulator
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "turnout.toml"
    file.write_text(block("toml"))
    assert len(tomllib.loads(file.read_text())["providers"]) == 2
    with ProviderRouter.from_toml(file) as router:
        assert [config.provider_id for config in router.providers] == [
            "openai-production",
            "backup-production",
        ]
        assert router.metrics_scope == "my-batch"
        assert router.providers[1].max_concurrency == 8
        assert router.providers[1].context_window == 128_000


def test_the_history_commands_tell_of_the_quick_start(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("quick start")
    monkeypatch.chdir(tmp_path)
    Path("turnout.toml").write_text(block("toml"))
    for line in block("stats").splitlines():
        _, *arguments = shlex.split(line, comments=True)
        told = CliRunner().invoke(app, arguments)
        assert (told.exit_code, told.stderr) == (0, "")
        assert "backup-production" in told.stdout


def test_the_storage_commands_migrate_a_ledger_of_an_earlier_turnout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Ledger(StorageBackend.SQLITE, "metrics.sqlite").make(1, [a_row()])
    told = [
        CliRunner().invoke(app, shlex.split(line, comments=True)[1:], env={"COLUMNS": "200"})
        for line in block("storage").splitlines()
    ]
    assert [(result.exit_code, result.stderr) for result in told] == [(5, ""), (0, ""), (0, "")]
    assert "outdated" in told[0].stdout
    assert "from version 1 to 2" in told[1].stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".turnout",
        "metrics.old.sqlite",
        "metrics.sqlite",
    ]


def test_the_committed_example_has_the_row_when_the_call_has_its_answer(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run("quick start")
    names["providers"] = names["router"].providers
    names = run("committed")
    names["router"].invoke([names["hello"]])
    with sqlite3.connect("metrics.sqlite") as database:
        assert database.execute("SELECT count(*) FROM provider_attempts").fetchone() == (1,)
    database.close()


def test_the_scores_example_orders_by_what_was_seen(run: Any, simulator: Simulator, tmp_path: Path) -> None:
    names = run("quick start")
    names["providers"] = names["router"].providers
    names = run("scores")
    simulator.script("openai", Status(500))
    for _ in range(4):
        names["router"].invoke([names["hello"]])
        assert names["router"].flush()
    report = names["router"].submit([names["hello"]])
    assert report.result() is not None
    assert [attempt.provider_id for attempt in report.report().attempts] == ["backup-production"]


def test_the_postgres_example_keeps_its_rows_there(run: Any, postgres_url: str) -> None:
    create_database(StorageBackend.POSTGRES, postgres_url)
    names = run("quick start")
    names["providers"] = names["router"].providers
    url = "postgresql://app:...@db.example.com:5432/routing"
    assert url in block("postgres")
    exec(block("postgres").replace(url, postgres_url), names)
    with closing(names["store"]), names["router"] as router:
        router.invoke([names["hello"]])
        assert router.flush()
        since = datetime.now(UTC) - timedelta(hours=1)
        assert len(names["store"].query_recent(since=since, metrics_scope="my-app:production")) == 1


#: What the role of a router may not do. Nothing is ever changed by it, nor by a router.
NOT_FOR_ROUTERS = [
    "CREATE TABLE mine (x integer)",
    "ALTER TABLE provider_attempts ADD prompt text",
    "DROP VIEW provider_failovers",
    "CREATE INDEX ON provider_attempts (model)",
    "UPDATE provider_attempts SET success = true",
    "DELETE FROM provider_attempts",
    "TRUNCATE provider_attempts",
    "UPDATE turnout_schema_versions SET version = 9",
    "SELECT * FROM provider_failovers",
]


def test_the_grants_are_what_a_router_needs_and_no_more(
    postgres: Any, postgres_ledger: str, tmp_path: Path, rig: Any
) -> None:
    import psycopg

    grants = re.findall(r"^GRANT (.+) TO app;( *-- not for routers.*)?$", block("grants"), re.MULTILINE)
    assert len(grants) == len(block("grants").splitlines()) == 4
    for_routers, for_readers = (
        [what for what, other in grants if bool(other) is kind] for kind in (False, True)
    )
    with postgres.role(postgres_ledger, *for_routers) as url, closing(PostgresMetricsStore(url)) as store:
        router = rig.scripted(
            ScriptedAdapters({"a": [ConnectionError("down")], "b": ["answer"]}),
            "ab",
            metrics_store=store,
            policy="preference",
            ledger={"spool_dir": str(tmp_path)},
        )
        assert router.invoke(rig.chat()) == "answer"
        assert router.flush(30)
        rows = store.query_recent(since=datetime.now(UTC) - timedelta(hours=1))
        assert [(row.provider_id, row.success) for row in rows] == [("a", False), ("b", True)]
        mine = Ledger(StorageBackend.POSTGRES, url)
        for statement in NOT_FOR_ROUTERS:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                mine.script(statement)
        (grant,), ((role, database),) = for_readers, re.findall(r"//(\w+):.*@/(\w+)", url)
        postgres.execute(f"GRANT {grant} TO {role}", database=database)
        assert mine.ask("SELECT from_provider_id, to_provider_id FROM provider_failovers") == [("a", "b")]


def test_every_marked_block_is_run_here() -> None:
    marked = {name for name, _ in BLOCK.findall(README.read_text())}
    here = Path(sys.modules[__name__].__file__ or "").read_text()
    assert all(f'"{name}"' in here for name in marked)
