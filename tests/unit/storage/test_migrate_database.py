"""A database migrated: all of it or nothing, by one at a time, with a backup that is looked at first."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import NOON, SHARED, Ledger, a_row, files_in
from turnout.errors import (
    DatabaseExistsError,
    SchemaMismatchError,
    StorageError,
    StorageLockedError,
)
from turnout.storage import schema
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.schema import StorageBackend, admin_duckdb, admin_sqlite, migration, sqlite_file
from turnout.storage.schema.admin import migrate_database
from turnout.storage.schema.admin_duckdb import DuckDBAdministration
from turnout.storage.schema.admin_sqlite import SQLiteAdministration
from turnout.storage.sqlite import SQLiteMetricsStore

FILES = [StorageBackend.DUCKDB, StorageBackend.SQLITE]
BOTH = pytest.mark.parametrize("backend", FILES)
ROWS = [
    a_row(number, model=None if number % 2 else "m \u00e9", latency_ms=0.1 + number) for number in range(1, 6)
]
STORES: dict[StorageBackend, Any] = {
    StorageBackend.DUCKDB: DuckDBMetricsStore,
    StorageBackend.SQLITE: SQLiteMetricsStore,
}
ALONE: dict[StorageBackend, Any] = {
    StorageBackend.DUCKDB: admin_duckdb.AloneDuckDB,
    StorageBackend.SQLITE: admin_sqlite.AloneSQLite,
}


def migrate(ledger: Ledger, backup: Path | None = None) -> Any:
    return migrate_database(ledger.backend, ledger.place, backup_path=backup)


HEALTH = "INSERT INTO turnout_schema_versions SELECT 'health', 9, applied_at FROM turnout_schema_versions"


def test_version_1_comes_to_what_a_new_database_is_and_keeps_its_rows(ledger: Ledger, tmp_path: Path) -> None:
    ledger.make(1, ROWS, HEALTH)
    before = ledger.content()
    done = migrate(ledger)
    assert (done.from_version, done.to_version, done.backup_path) == (1, schema.VERSION, None)
    assert done.changed
    after = ledger.content()
    assert after[:2] == (before.rows, {"health": 9, "metrics": schema.VERSION})
    if ledger.backend is not StorageBackend.POSTGRES:
        new = Ledger(ledger.backend, str(tmp_path / "new"))
        new.make()
        assert after.shape == new.content().shape
        assert sorted(files_in(tmp_path)) == ["ledger", "new"]


@SHARED
def test_a_store_takes_what_was_migrated(file_ledger: Ledger) -> None:
    file_ledger.make(1, ROWS)
    migrate(file_ledger)
    with closing(STORES[file_ledger.backend](file_ledger.place)) as store:
        store.record_attempts([a_row(9)])
        assert store.query_recent(since=NOON) == [*ROWS, a_row(9)]


def test_what_is_current_is_left_as_it_is(file_ledger: Ledger, tmp_path: Path) -> None:
    file_ledger.make(rows=ROWS)
    before = files_in(tmp_path)
    again = migrate(file_ledger, tmp_path / "backup")
    assert (again.from_version, again.to_version, again.backup_path) == (schema.VERSION, schema.VERSION, None)
    assert not again.changed
    assert files_in(tmp_path) == before


REFUSED = {
    "absent": (None, r"is not there; .*turnout storage create"),
    "newer": ("UPDATE turnout_schema_versions SET version = 3", "Upgrade turnout"),
    "damaged": ("ALTER TABLE provider_attempts ADD COLUMN extra INTEGER", "also extra INTEGER"),
    "foreign": (
        "DROP TABLE turnout_schema_versions; DROP TABLE provider_attempts; CREATE TABLE n (x INTEGER)",
        "no table",
    ),
    "empty": ("DROP TABLE turnout_schema_versions; DROP TABLE provider_attempts", "has no tables"),
}


@SHARED
@pytest.mark.parametrize(("change", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_migrated_is_refused_untouched(
    file_ledger: Ledger, tmp_path: Path, change: str | None, told: str
) -> None:
    if change is not None:
        file_ledger.make(1, ROWS, change)
    before = files_in(tmp_path)
    with pytest.raises(SchemaMismatchError, match=told):
        migrate(file_ledger, tmp_path / "backup")
    assert files_in(tmp_path) == before


def test_a_step_that_fails_is_undone_and_the_backup_kept(
    file_ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ledger.make(1, ROWS)
    before = file_ledger.content()
    _with_script(monkeypatch, lambda script: f"{script}\nSELECT nonsense;")
    with pytest.raises(
        StorageError, match=r"is of version 1 still: .*nonsense.*; the backup .*backup is kept"
    ):
        migrate(file_ledger, tmp_path / "backup")
    assert file_ledger.content() == before
    assert Ledger(file_ledger.backend, str(tmp_path / "backup")).content() == before
    monkeypatch.undo()
    assert migrate(file_ledger).changed


def _with_script(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    monkeypatch.undo()
    route = migration.route
    monkeypatch.setattr(
        migration,
        "route",
        lambda *given: [step._replace(script=change(step.script)) for step in route(*given)],
    )


@SHARED
def test_a_step_that_comes_out_otherwise_is_undone(
    file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ledger.make(1, ROWS)
    before = file_ledger.content()
    _with_script(monkeypatch, lambda script: script[script.index("UPDATE") :])
    with pytest.raises(StorageError, match=r"still: the step to version 2 .* (has no|no INDEX)"):
        migrate(file_ledger)
    _with_script(monkeypatch, lambda script: "SELECT 1;")
    with pytest.raises(StorageError, match=r"still: the step to version 2 .* is of version 1"):
        migrate(file_ledger)
    assert file_ledger.content() == before


@SHARED
def test_every_step_is_read_before_any_is_taken(file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    file_ledger.make(1)
    before = file_ledger.content()
    monkeypatch.setattr(schema, "VERSION", 3)
    with pytest.raises(StorageError, match=r"cannot be reached: No such file"):
        migrate(file_ledger)
    assert file_ledger.content() == before


def test_a_backup_is_a_whole_private_database_of_the_version_before(
    file_ledger: Ledger, tmp_path: Path
) -> None:
    file_ledger.make(
        1,
        ROWS,
        f'{HEALTH}; CREATE TABLE "my ""notes" (id INTEGER PRIMARY KEY, said VARCHAR);'
        'INSERT INTO "my ""notes" VALUES (1, NULL); CREATE VIEW mine AS SELECT * FROM "my ""notes";'
        "CREATE INDEX by_name ON provider_attempts (provider_name)",
    )
    before = file_ledger.content()
    done = migrate(file_ledger, tmp_path / "back up" / "it's.1")
    assert done.backup_path == str(tmp_path / "back up" / "it's.1")
    files = {name: mode for name, (_, _, mode) in files_in(tmp_path).items()}
    assert files == {"back up": "drwx------", "back up/it's.1": "-rw-------", "ledger": files["ledger"]}
    backup = Ledger(file_ledger.backend, done.backup_path)
    assert backup.content() == before
    assert backup.ask("SELECT * FROM mine") == [(1, None)]
    assert migrate(backup).changed


@SHARED
@pytest.mark.parametrize("kind", ["the ledger itself", "empty file", "folder", "dangling link"])
def test_a_backup_never_overwrites_anything(file_ledger: Ledger, tmp_path: Path, kind: str) -> None:
    file_ledger.make(1, ROWS)
    backup = tmp_path / "backup"
    match kind:
        case "the ledger itself":
            backup = Path(file_ledger.place)
        case "empty file":
            backup.touch()
        case "folder":
            backup.mkdir()
        case _:
            backup.symlink_to(tmp_path / "nowhere")
    before = files_in(tmp_path)
    with pytest.raises(DatabaseExistsError, match=r"a backup cannot be made at .*something is there"):
        migrate(file_ledger, backup)
    assert files_in(tmp_path) == before


@pytest.fixture(autouse=True)
def sqlite_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_sqlite, "_BUSY_SECONDS", 0.0)


LOSSES = {
    "a row less": "DELETE FROM copy.provider_attempts WHERE queue_ms = 0.0",
    "a value differs": "UPDATE copy.provider_attempts SET model = 'n' WHERE model IS NULL",
    "a row of the owner's own less": "DELETE FROM copy.notes WHERE x = 2",
    "a row of the owner's own more": "INSERT INTO copy.notes VALUES (3)",
    "a value of the owner's own differs": "UPDATE copy.notes SET x = 3 WHERE x = 2",
    "a version differs": "UPDATE copy.turnout_schema_versions SET version = 5",
}


@SHARED
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_a_backup_that_is_not_alike_stops_all(
    file_ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    file_ledger.make(1, ROWS, "CREATE TABLE notes (x INTEGER); INSERT INTO notes VALUES (1), (2)")
    before = file_ledger.content()
    _lose_amid_the_copy(monkeypatch, file_ledger.backend, loss)
    with pytest.raises(StorageError, match=r"backup of .* is not like it; nothing was changed"):
        migrate(file_ledger, tmp_path / "backup")
    assert file_ledger.content() == before
    assert sorted(files_in(tmp_path)) == ["ledger"]


def _lose_amid_the_copy(monkeypatch: pytest.MonkeyPatch, backend: StorageBackend, loss: str) -> None:
    """Between the copying and the comparing."""
    if backend is StorageBackend.SQLITE:
        compare = admin_sqlite._alike

        def alike(connection: sqlite3.Connection, table: str) -> bool:
            connection.execute(loss)
            return compare(connection, table)

        monkeypatch.setattr(admin_sqlite, "_alike", alike)
        return
    content = admin_duckdb._content

    def lossy(connection: Any) -> list[Any]:
        if connection.execute("SELECT current_database()").fetchone() == ("ledger_copy",):
            connection.execute(loss.replace("copy.", ""))
        return content(connection)

    monkeypatch.setattr(admin_duckdb, "_content", lossy)


def test_who_has_the_database_open_keeps_it_from_being_migrated(file_ledger: Ledger, tmp_path: Path) -> None:
    file_ledger.make(1, ROWS)
    with _held_elsewhere(file_ledger):
        before = {name: content for name, content in files_in(tmp_path).items() if not name.endswith("-shm")}
        with pytest.raises(StorageLockedError, match=r"stop (that one|every program that uses it)"):
            migrate(file_ledger, tmp_path / "backup")
        after = {name: content for name, content in files_in(tmp_path).items() if not name.endswith("-shm")}
        assert after == before
    assert migrate(file_ledger).changed


@contextmanager
def _held_elsewhere(ledger: Ledger) -> Iterator[None]:
    """By another process, which is at rest."""
    driver = ledger.backend.value.replace("sqlite", "sqlite3")
    hold = f"import {driver} as d; c = d.connect({ledger.place!r});"
    hold += "c.execute('SELECT * FROM provider_attempts').fetchall(); print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.communicate("\n", timeout=30)


@SHARED
def test_a_store_in_the_same_process_keeps_it_from_being_migrated(
    file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ledger.make(1)
    with file_ledger.connection() as connection:
        connection.execute("SELECT * FROM provider_attempts").fetchall()
        with pytest.raises(StorageLockedError):
            migrate(file_ledger)


def test_nobody_opens_a_database_that_is_being_migrated(
    file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ledger.make(1, ROWS)
    tried: list[StorageError] = []
    alone = ALONE[file_ledger.backend]
    take = alone.take
    monkeypatch.setattr("turnout.storage.sqlite.connect", partial(sqlite_file.connect, busy_seconds=0.0))

    def took(self: Any, step: Any) -> None:
        with (
            closing(STORES[file_ledger.backend](file_ledger.place)) as store,
            pytest.raises(StorageLockedError) as caught,
        ):
            store.query_recent(since=NOON)
        tried.append(caught.value)
        take(self, step)

    monkeypatch.setattr(alone, "take", took)
    assert migrate(file_ledger).changed
    assert len(tried) == 1


@SHARED
def test_who_was_quicker_is_let_be(file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    file_ledger.make(1, ROWS)
    files: Any = (
        DuckDBAdministration if file_ledger.backend is StorageBackend.DUCKDB else SQLiteAdministration
    )
    inspect = files.inspect

    def overtaken(self: Any) -> Any:
        seen = inspect(self)
        file_ledger.script(schema.script(file_ledger.backend, 2))
        return seen

    monkeypatch.setattr(files, "inspect", overtaken)
    assert not migrate(file_ledger).changed
    assert file_ledger.content().versions == {"metrics": 2}


def test_the_log_that_a_migration_makes_is_private(
    file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ledger.make(1, ROWS)
    Path(file_ledger.place).chmod(0o600)
    seen: dict[str, str] = {}
    alone = ALONE[file_ledger.backend]
    take = alone.take

    def took(self: Any, step: Any) -> None:
        take(self, step)
        seen.update({name: mode for name, (_, _, mode) in files_in(Path(file_ledger.place).parent).items()})

    monkeypatch.setattr(alone, "take", took)
    before = os.umask(0)
    try:
        migrate(file_ledger)
    finally:
        os.umask(before)
    assert len(seen) == 2
    assert {*seen.values()} == {"-rw-------"}


def test_a_backup_of_whatever_tables_the_owner_has_is_compared(tmp_path: Path) -> None:
    ledger = Ledger(StorageBackend.SQLITE, str(tmp_path / "ledger"))
    ledger.make(
        1,
        ROWS,
        "CREATE TABLE keyed (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID; INSERT INTO keyed VALUES (1, 2), (2, 3);"
        'CREATE TABLE "a ""name" (rowid, "of column"); INSERT INTO "a ""name" VALUES (1, x\'ff\'), (1, 2.5);'
        "CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, t TEXT);"
        "INSERT INTO counted (t) VALUES (CAST(x'ff' AS TEXT)); ANALYZE",
    )
    assert migrate(ledger, tmp_path / "backup").backup_path == str(tmp_path / "backup")
