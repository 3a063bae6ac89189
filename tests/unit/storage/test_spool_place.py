"""Where the rows of a store wait: one place for all who have the same database."""

from pathlib import Path
from typing import Any

import pytest

from turnout.errors import ConfigError
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.spool_place import spool_folder
from turnout.storage.sqlite import SQLiteMetricsStore


class Named:
    def __init__(self, **known: Any) -> None:
        vars(self).update(known)


@pytest.mark.parametrize("kind", [DuckDBMetricsStore, SQLiteMetricsStore])
def test_rows_of_a_database_file_wait_beside_it(kind: Any, tmp_path: Path) -> None:
    store = kind(tmp_path / "metrics.db")
    assert spool_folder(store) == str(tmp_path / "metrics.db.spool")
    assert list(tmp_path.iterdir()) == []


def test_a_file_has_one_spool_by_whatever_link_it_is_opened(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "folder").symlink_to(real)
    (real / "metrics.db").touch()
    (tmp_path / "link.db").symlink_to(real / "metrics.db")
    paths = [real / "metrics.db", tmp_path / "folder" / "metrics.db", tmp_path / "link.db"]
    for spool_dir in (None, tmp_path / "spools"):
        assert len({spool_folder(SQLiteMetricsStore(path), spool_dir) for path in paths}) == 1


def test_rows_of_a_named_store_wait_under_its_name_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = Named(spool_name="postgres-0123456789abcdef")
    assert spool_folder(store) == str(tmp_path / ".turnout" / "spool" / "postgres-0123456789abcdef")


@pytest.mark.parametrize(
    "store", [MemoryMetricsStore(), Named(), Named(path=None), Named(path="some/key"), Named(path=7)]
)
def test_a_store_that_says_neither_has_no_spool_unless_one_is_given(store: Any, tmp_path: Path) -> None:
    assert spool_folder(store) is None
    assert spool_folder(store, tmp_path) == str(tmp_path / type(store).__name__)


def test_databases_of_one_name_have_folders_of_their_own_in_a_given_one(tmp_path: Path) -> None:
    stores = [SQLiteMetricsStore(tmp_path / name / "metrics.db") for name in ("a", "b")]
    folders = [spool_folder(store, tmp_path / "spools") for store in stores]
    assert len(set(folders)) == 2
    for folder in folders:
        assert folder is not None
        assert Path(folder).parent == tmp_path / "spools"
        assert Path(folder).name.startswith("metrics.db-")
    named = Named(spool_name="postgres-1")
    assert spool_folder(named, "~/spools") == str(Path.home() / "spools" / "postgres-1")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/etc", ".hidden", "a\0", "a\n", "é", "x" * 201, 7]
)
def test_a_name_that_is_no_plain_file_name_is_refused(name: Any, tmp_path: Path) -> None:
    for spool_dir in (None, tmp_path):
        with pytest.raises(ConfigError, match="spool_name"):
            spool_folder(Named(spool_name=name), spool_dir)


def test_a_postgresql_has_one_place_for_its_rows_whatever_the_password() -> None:
    names = {
        PostgresMetricsStore(f"postgresql://app{password}@db.example.com:5432/routing").spool_name
        for password in ("", ":secret-1", ":secret-2")
    }
    other = PostgresMetricsStore("postgresql://app@db.example.com:5432/other").spool_name
    assert len(names | {other}) == 2
    store = PostgresMetricsStore("postgresql://app:secret-1@db.example.com:5432/routing")
    assert spool_folder(store) == str(Path.home() / ".turnout" / "spool" / names.pop())
