"""`turnout storage` over databases that are there, that are not, that somebody has, and that cannot be reached."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.ledgers import Ledger, a_row, files_in
from turnout.cli.commands import app
from turnout.cli.exits import end_orderly_at_ctrl_c
from turnout.errors import SchemaMismatchError, StorageError
from turnout.storage.schema import StorageBackend
from turnout.storage.sqlite import SQLiteMetricsStore

USAGE, HELD, REFUSED, NOT_CURRENT, NO_DRIVER, UNREACHABLE = 2, 3, 4, 5, 6, 7


def run(*arguments: str | Path, **environment: str) -> Result:
    settings = {"COLUMNS": "200", "TERM": "dumb", **environment}
    return CliRunner().invoke(app, ["storage", *map(str, arguments)], env=settings)


def refused(result: Result, code: int) -> str:
    """The one line that says why."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("turnout storage ")
    return line


def told(result: Result, code: int = 0) -> str:
    assert result.exit_code == code, result.output
    assert result.stderr == ""
    return result.stdout


def known(result: Result, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(result, code))
    return found


@pytest.fixture
def sqlite(tmp_path: Path) -> Ledger:
    return Ledger(StorageBackend.SQLITE, str(tmp_path / "ledger"))


def at(ledger: Ledger) -> tuple[str, ...]:
    return "--backend", ledger.backend.value, "--path", ledger.place


def test_a_database_is_created_found_current_and_left_alone(sqlite: Ledger) -> None:
    assert told(run("create", *at(sqlite))) == f"Created {sqlite.place}, of version 2.\n"
    assert told(run("inspect", *at(sqlite))) == (
        f"{sqlite.place} is of version 2, as this turnout needs it.\n"
        "  backend   sqlite\n  state     current\n  versions  metrics 2\n  next      Nothing: it can be used as it is\n"
    )
    assert "is of version 2 already; nothing was changed" in told(run("migrate", *at(sqlite)))


def test_the_command_that_a_store_names_for_an_old_database_mends_it(sqlite: Ledger) -> None:
    sqlite.make(1, [a_row()])
    with closing(SQLiteMetricsStore(sqlite.place)) as store, pytest.raises(SchemaMismatchError) as caught:
        store.record_attempts([a_row(2)])
    arguments = str(caught.value).partition("run: turnout storage ")[2].split()
    assert arguments[0] == "migrate"
    backup = Path(f"{sqlite.place}.old")
    assert told(run(*arguments, "--backup", backup)) == (
        f"Migrated {sqlite.place} from version 1 to 2.\nThe backup, of version 1, is {backup}.\n"
    )
    with closing(SQLiteMetricsStore(sqlite.place)) as store:
        store.record_attempts([a_row(2)])


def test_json_has_what_the_api_tells(sqlite: Ledger) -> None:
    sqlite.make(1)
    found = known(run("inspect", *at(sqlite), "--json"), NOT_CURRENT)
    action = f"turnout storage migrate --backend sqlite --path {sqlite.place}"
    assert found == {
        "backend": "sqlite",
        "target": sqlite.place,
        "is_default": False,
        "state": "outdated",
        "versions": {"metrics": 1},
        "detail": f"{sqlite.place} is of version 1; this turnout needs version 2",
        "next_action": f"Stop every program that uses it and run: {action}",
        "compatible": False,
    }
    done = known(run("migrate", *at(sqlite), "--json"))
    assert (done["from_version"], done["to_version"], done["changed"], done["backup_path"]) == (
        1,
        2,
        True,
        None,
    )
    made = known(run("create", "--backend", "sqlite", "--path", f"{sqlite.place}2", "--json"))
    assert made == {"backend": "sqlite", "target": f"{sqlite.place}2", "is_default": False, "version": 2}


def test_the_default_is_that_of_a_router(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    options = ("--backend", "duckdb", "--default")
    assert "  state     absent\n" in told(run("inspect", *options, **home), NOT_CURRENT)
    assert files_in(tmp_path) == {}
    assert told(run("create", *options, **home)).startswith(f"Created {tmp_path}/.turnout/metrics.duckdb")
    assert "  backend   duckdb, the default\n" in told(run("inspect", *options, **home))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--backend", "duckdb"), "--backend duckdb takes --default or --path"),
        (
            ("--backend", "duckdb", "--default", "--path", "x"),
            "takes --default or --path, not --default and --path",
        ),
        (("--backend", "duckdb", "--url", "postgresql://h/d"), "takes --default or --path, not --url"),
        (("--backend", "sqlite"), "--backend sqlite takes --path"),
        (("--backend", "sqlite", "--default"), "--backend sqlite takes --path, not --default"),
        (("--backend", "sqlite", "--path", ":memory:"), "is not a file path"),
        (
            ("--backend", "sqlite", "--path", "x", "--allow-unencrypted"),
            "--allow-unencrypted is for --backend postgres",
        ),
        (("--backend", "postgres", "--path", "x"), "takes --default or --url, not --path"),
        (
            ("--backend", "postgres", "--default", "--url", "x"),
            "takes --default or --url, not --default and --url",
        ),
        (("--backend", "postgres"), "set the environment variable TURNOUT_POSTGRES_URL"),
        (("--backend", "postgres", "--default"), "set the environment variable TURNOUT_POSTGRES_URL"),
        (("--backend", "postgres", "--url", "mysql://u:secret@h/d"), "must begin with postgresql://"),
    ],
)
def test_options_that_name_no_one_database_are_refused(
    arguments: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNOUT_POSTGRES_URL", raising=False)
    for command in ("inspect", "create", "migrate"):
        line = refused(run(command, *arguments), USAGE)
        assert why in line
        assert "secret" not in line


@pytest.mark.parametrize(
    "arguments", [(), ("inspect",), ("inspect", "--backend", "oracle"), ("create", "--force"), ("destroy",)]
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == USAGE


def test_what_is_there_is_never_created_over(sqlite: Ledger, tmp_path: Path) -> None:
    Path(sqlite.place).touch()
    before = files_in(tmp_path)
    assert "something is there" in refused(run("create", *at(sqlite)), REFUSED)
    assert "is an empty file" in refused(run("migrate", *at(sqlite)), REFUSED)
    assert files_in(tmp_path) == before


def test_a_backup_where_something_is_stops_all(sqlite: Ledger, tmp_path: Path) -> None:
    sqlite.make(1)
    (tmp_path / "backup").touch()
    before = files_in(tmp_path)
    line = refused(run("migrate", *at(sqlite), "--backup", tmp_path / "backup"), REFUSED)
    assert "a backup cannot be made at" in line
    assert files_in(tmp_path) == before


def test_a_database_that_somebody_has_is_told_as_held(
    sqlite: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnout.storage.schema.admin_sqlite._BUSY_SECONDS", 0.0)
    sqlite.make(1)
    with sqlite.connection() as connection:
        connection.execute("SELECT * FROM provider_attempts").fetchall()
        assert "stop every program that uses it" in refused(run("migrate", *at(sqlite)), HELD)


def test_a_place_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = refused(run("create", "--backend", "duckdb", "--path", tmp_path / "file" / "ledger"), UNREACHABLE)
    assert "cannot be reached: Not a directory" in line
    url = f"postgresql://me:pass-word@/db?host={tmp_path}&connect_timeout=2"
    pytest.importorskip("psycopg")
    for arguments, environment in ((("--url", url), {}), ((), {"TURNOUT_POSTGRES_URL": url})):
        line = refused(run("inspect", "--backend", "postgres", *arguments, **environment), UNREACHABLE)
        assert "cannot be connected to" in line
        assert "pass-word" not in line


def test_postgresql_is_created_inspected_and_migrated_by_the_url_in_its_variable(postgres_url: str) -> None:
    variable, options = {"TURNOUT_POSTGRES_URL": postgres_url}, ("--backend", "postgres")
    assert "  state     absent\n" in told(run("inspect", *options, **variable), NOT_CURRENT)
    assert "of version 2" in told(run("create", *options, **variable))
    assert "of version 2" in refused(run("create", *options, **variable), REFUSED)
    assert "  backend   postgres, the default\n" in told(run("inspect", *options, "--default", **variable))
    assert "already" in told(run("migrate", *options, "--url", postgres_url))
    assert "pg_dump" in refused(run("migrate", *options, "--backup", "x", **variable), USAGE)
    unencrypted = {"TURNOUT_POSTGRES_URL": f"{postgres_url}&sslmode=disable"}
    assert "allow_unencrypted" in refused(run("inspect", *options, **unencrypted), USAGE)
    assert "current" in told(run("inspect", *options, "--allow-unencrypted", **unencrypted))


@pytest.mark.parametrize(
    ("backend", "module"),
    [
        ("duckdb", "duckdb"),
        pytest.param("postgres", "psycopg", marks=pytest.mark.slow),
        pytest.param("postgres", "psycopg_pool", marks=pytest.mark.slow),
    ],
)
def test_a_missing_driver_has_a_code_of_its_own(backend: str, module: str, tmp_path: Path) -> None:
    where = ("--path", str(tmp_path / "x")) if backend == "duckdb" else ("--url", "postgresql://h/d")
    (tmp_path / "x").write_text("something")
    code = f"import sys; sys.modules[{module!r}] = None; from turnout.cli.app import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "storage", "inspect", "--backend", backend, *where],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (ended.returncode, ended.stdout) == (NO_DRIVER, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"turnout storage inspect: --backend {backend} needs ")
    assert line.endswith(f'not installed: pip install "turnout[{backend}]"')


@pytest.mark.slow
def test_help_and_sqlite_need_no_driver(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['duckdb'] = sys.modules['psycopg'] = None\n"
    hidden += "from turnout.cli.app import main; main()"
    for arguments in (
        ("inspect", "--help"),
        ("create", "--backend", "sqlite", "--path", str(tmp_path / "x")),
    ):
        ended = subprocess.run(
            [sys.executable, "-c", hidden, "storage", *arguments], capture_output=True, text=True, timeout=50
        )
        assert (ended.returncode, ended.stderr) == (0, "")


def test_an_interrupt_that_the_driver_made_an_error_of_is_one(
    sqlite: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnout.cli.storage.create_database", pressed_amid)
    before = signal.getsignal(signal.SIGINT)
    end_orderly_at_ctrl_c()
    try:
        ended = run("create", *at(sqlite))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (130, "", "Stopped.\n")


def pressed_amid(*_: Any, **__: Any) -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    raise StorageError("Query interrupted")


@pytest.mark.slow
def test_output_that_nobody_reads_is_told(sqlite: Ledger) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with closing(os.fdopen(writer, "w")) as output:
        ended = subprocess.run(
            [sys.executable, "-m", "turnout.cli", "storage", "inspect", *at(sqlite)],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=50,
        )
    assert (ended.returncode, ended.stderr) == (1, "Stopped: nobody reads the output any more.\n")


def test_the_help_says_why_the_url_belongs_into_its_variable_and_how_each_command_ends() -> None:
    for command in ("inspect", "create", "migrate"):
        shown = " ".join(told(run(command, "--help")).split())
        assert "would leave its password in the shell's history" in shown
        assert "TURNOUT_POSTGRES_URL" in shown
        for code in (
            "0 ",
            "2 the arguments",
            "3 another",
            "4 refused",
            "6 its driver",
            "7 it cannot",
            "130 Ctrl-C",
        ):
            assert code in shown.partition("Exit codes:")[2]
