"""What is left of a file whose maker was killed, and who clears it away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ledgers import Ledger, a_row, files_in
from turnout.storage import files, workshop
from turnout.storage.schema.admin import create_database, migrate_database

KILLED = """
import os, signal, sys
from turnout.storage.schema import admin_duckdb, admin_sqlite
from turnout.storage.schema.admin import migrate_database

backend, place = sys.argv[1:]
alone = admin_duckdb.AloneDuckDB if backend == "duckdb" else admin_sqlite.AloneSQLite
copy = alone.copy_to

def killed(self, path):
    copy(self, path)
    os.kill(os.getpid(), signal.SIGTERM)

alone.copy_to = killed
migrate_database(backend, place, backup_path=place + ".old")
"""


def test_a_backup_that_was_stopped_is_cleared_away_by_the_next(file_ledger: Ledger, tmp_path: Path) -> None:
    file_ledger.make(1, [a_row()])
    command = [sys.executable, "-c", KILLED, file_ledger.backend.value, file_ledger.place]
    assert subprocess.run(command, timeout=50).returncode == -15
    left = [name for name in files_in(tmp_path) if name.startswith(".turnout-unfinished-")]
    assert len(left) >= 2
    migrate_database(file_ledger.backend, file_ledger.place, backup_path=f"{file_ledger.place}.old")
    assert sorted(files_in(tmp_path)) == ["ledger", "ledger.old"]


def test_what_is_still_being_made_is_let_be(tmp_path: Path) -> None:
    def build(path: str) -> None:
        Path(path).write_text("half")
        create_database("sqlite", tmp_path / "other")
        Path(path).write_text(Path(path).read_text() + " and half")

    assert files.create_private(str(tmp_path / "slow"), build)
    assert (tmp_path / "slow").read_text() == "half and half"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "slow"]


def test_a_folder_that_was_swept_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = workshop._lock
    swept: list[Path] = []

    def late(descriptor: int) -> bool | None:
        if not swept:
            swept.extend(tmp_path.iterdir())
            swept[0].rmdir()
        return lock(descriptor)

    monkeypatch.setattr(workshop, "_lock", late)
    with workshop.workshop(tmp_path) as folder:
        assert [str(one) for one in tmp_path.iterdir()] == [folder]
        assert folder != str(swept[0])
    assert list(tmp_path.iterdir()) == []


def test_what_only_looks_like_it_is_let_be(tmp_path: Path) -> None:
    (tmp_path / ".turnout-settings").mkdir()
    (tmp_path / ".turnout-unfinished-file").touch()
    (tmp_path / ".turnout-unfinished-link").symlink_to(tmp_path / ".turnout-settings")
    (tmp_path / ".turnout-settings" / "mine").touch()
    before = files_in(tmp_path)
    create_database("sqlite", tmp_path / "ledger")
    assert files_in(tmp_path).keys() == {*before, "ledger"}


def test_where_there_are_no_locks_nothing_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / ".turnout-unfinished-x"
    left.mkdir()

    def has_none(*_: object) -> None:
        raise OSError(os.strerror(38))

    monkeypatch.setattr("fcntl.flock", has_none)
    create_database("sqlite", tmp_path / "ledger")
    assert left.exists()
    monkeypatch.setattr(workshop, "_system", None)
    create_database("sqlite", tmp_path / "second")
    assert sorted(file.name for file in tmp_path.iterdir()) == [left.name, "ledger", "second"]
