"""Where calls wait for their commits, their rows outlast a crash of the machine: the disk is asked to keep them."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import a_row
from turnout import ApiProtocol, CallType, CallVariant, ProviderRouter, SQLiteMetricsStore, StorageError
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.rows import Row
from turnout.storage.spool import Spool
from turnout.testing import ManualClock, ScriptedAdapters

NORMAL, FULL = 1, 2
PROVIDER = {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}
CALL = CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, {"messages": []})


class Synced:
    """What the disk was asked to keep for good, and how much of each there was then."""

    def __init__(self, fsync: Callable[[int], None]) -> None:
        self._fsync = fsync
        self.seen: list[tuple[os.stat_result, int]] = []

    def __call__(self, descriptor: int) -> None:
        self._fsync(descriptor)
        status = os.fstat(descriptor)
        self.seen.append((status, status.st_size))

    def of(self, path: Path) -> list[int]:
        """The sizes that ``path`` had when it was asked for."""
        return [size for status, size in self.seen if os.path.samestat(status, path.stat())]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    synced = Synced(os.fsync)
    monkeypatch.setattr(os, "fsync", synced)
    return synced


def the_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_durable_rows_are_on_the_disk_with_the_file_and_the_folders_that_are_new(
    tmp_path: Path, synced: Synced
) -> None:
    folder = tmp_path / "new" / "spool"
    with closing(Spool(folder)) as spool:
        spool.append([a_row(1)], durable=True)
        file = the_file(folder)
        first = file.stat().st_size
        assert synced.of(file) == [first]
        # Without its name in its folder the file itself would be lost, and without theirs the folders.
        assert [len(synced.of(one)) for one in (folder, folder.parent, tmp_path)] == [1, 1, 1]
        # The file's rows come before its name.
        assert os.path.samestat(synced.seen[0][0], file.stat())

        spool.append([a_row(2), a_row(3)], durable=True)
        assert synced.of(file) == [first, file.stat().st_size]
        assert len(synced.seen) == 5


def test_each_new_file_is_on_the_disk_with_its_name(tmp_path: Path, synced: Synced) -> None:
    with closing(Spool(tmp_path)) as spool:
        for number in range(3):
            spool.append([a_row(number)], durable=True)
            spool.seal()
            assert len(synced.of(tmp_path)) == number + 1


def test_rows_that_need_not_outlast_the_machine_are_not_waited_for(tmp_path: Path, synced: Synced) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        spool.append([a_row(1)])
        assert synced.seen == []
        # What is durable later takes all before it along, its name too.
        spool.append([a_row(2)], durable=True)
        file = the_file(tmp_path / "spool")
        assert synced.of(file) == [file.stat().st_size]
        assert len(synced.of(file.parent)) == 1


def test_rows_that_the_disk_would_not_keep_are_not_taken_for_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with closing(Spool(tmp_path)) as spool:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", broken)
            with pytest.raises(StorageError, match="Input/output error"):
                spool.append([a_row(1)], durable=True)
        taken: list[Row] = []
        spool.append([a_row(2)], durable=True)
        spool.taken_in(taken.extend)
        assert taken == [a_row(2)]


@pytest.fixture
def router() -> Iterator[Callable[..., ProviderRouter]]:
    made: list[ProviderRouter] = []

    def router(store: Any, **ledger: Any) -> ProviderRouter:
        # No time passes in which rows would be tried again.
        settings: Any = {"adapter_factory": ScriptedAdapters({"a": ["answer"]}), "clock": ManualClock()}
        made.append(ProviderRouter([PROVIDER], metrics_store=store, ledger=ledger, **settings))
        return made[-1]

    yield router
    for each in made:
        each.close()


def synchronous(store: SQLiteMetricsStore) -> int:
    """How the connection that writes is set."""
    with store._handle.writing() as connection:
        ((mode,),) = connection.execute("PRAGMA synchronous").fetchall()
        return int(mode)


@pytest.mark.parametrize(("durability", "mode"), [("committed", FULL), ("batched", NORMAL)])
def test_sqlite_waits_for_the_disk_at_each_commit_where_calls_wait_for_it(
    router: Any, tmp_path: Path, durability: str, mode: int
) -> None:
    with closing(SQLiteMetricsStore(tmp_path / "ledger")) as store:
        a_router = router(store, durability=durability)
        a_router.invoke(CALL)
        assert a_router.flush()
        assert synchronous(store) == mode
        # As it is for a connection that is opened anew.
        store.release()
        store.record_attempts([a_row()])
        assert synchronous(store) == mode
        a_router.close()


class Away(MemoryMetricsStore):
    """A store that takes nothing until it is ``back``."""

    back = False

    def record_attempts(self, rows: Any) -> None:
        if not self.back:
            raise StorageError("away")
        super().record_attempts(rows)


def test_a_call_that_waits_for_its_rows_ends_once_the_disk_has_their_spool_file(
    router: Any, tmp_path: Path, synced: Synced
) -> None:
    store = Away()
    a_router = router(store, durability="committed", spool_dir=str(tmp_path))
    sizes = []
    for _ in range(3):
        a_router.invoke(CALL)
        file = the_file(tmp_path / "Away")
        sizes.append(file.stat().st_size)
        assert synced.of(file) == sizes
    assert len(synced.of(file.parent)) == 1
    assert a_router.stats().ledger.uncommitted == 0
    store.back = True


def test_a_call_that_waits_for_nothing_has_its_spool_file_written_and_the_disk_left_in_peace(
    router: Any, tmp_path: Path, synced: Synced
) -> None:
    store = Away()
    a_router = router(store, durability="batched", spool_dir=str(tmp_path))
    a_router.invoke(CALL)
    assert not a_router.flush()
    assert the_file(tmp_path / "Away").stat().st_size > 0
    assert synced.seen == []
    store.back = True
