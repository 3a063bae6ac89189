"""`turnout stats` tells of the rows that wait in files for a router to take them in."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.ledgers import a_row
from turnout.cli.commands import app
from turnout.storage.spool_place import spool_folder
from turnout.storage.sqlite import SQLiteMetricsStore

DAY = ("--since", "2026-03-01T00:00Z", "--until", "2026-03-02T00:00Z")
PROVIDER = '[[providers]]\nprovider_id = "p"\nname = "P"\nprotocol = "openai_chat"\nmodel = "m"\n'


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        app, ["stats", *DAY, *map(str, arguments)], env={"COLUMNS": "200", "TERM": "dumb"}
    )


@pytest.fixture
def store(tmp_path: Path) -> SQLiteMetricsStore:
    """Of a ledger of one row; closed."""
    with closing(SQLiteMetricsStore(tmp_path / "ledger.sqlite")) as store:
        store.record_attempts([a_row()])
    return store


def test_rows_that_wait_beside_the_ledger_are_told_of(store: SQLiteMetricsStore) -> None:
    folder = Path(str(spool_folder(store)))
    folder.mkdir()
    (folder / "other.txt").touch()
    named = ("--backend", "sqlite", "--path", store.path)
    assert run(*named).stderr == ""
    (folder / "one.rows").touch()
    assert run(*named).stderr.startswith(f"1 file of rows waits in {folder}, ")
    (folder / "two.open").touch()
    result = run(*named, "--json")
    assert result.stderr.startswith(f"2 files of rows wait in {folder}, ")
    (told,) = json.loads(result.stdout)["providers"]
    assert told["attempts"] == 1


def test_rows_that_wait_where_the_routers_file_says_are_told_of(
    store: SQLiteMetricsStore, tmp_path: Path
) -> None:
    config, spools = tmp_path / "turnout.toml", tmp_path / "spools"
    place = f'[metrics_store]\nbackend = "sqlite"\npath = "{store.path}"\n'
    config.write_text(f'{PROVIDER}{place}[ledger]\nspool_dir = "{spools}"\n')
    folder = Path(str(spool_folder(store, spools)))
    folder.mkdir(parents=True)
    (folder / "one.rows").touch()
    assert run("--config", config).stderr.startswith(f"1 file of rows waits in {folder}, ")
    config.write_text(PROVIDER + place)
    assert run("--config", config).stderr == ""
