"""What the ledger does with rows that its store cannot take: they wait in files, and reach it all the same, once."""

import threading
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.unit.actors.test_ledger import WAIT, Rig, Store, attempt
from turnout.actors.ledger import Ledger
from turnout.actors.ledger_messages import Asking, Unanswered
from turnout.calls import CallType
from turnout.config import LedgerConfig
from turnout.decisions.aggregates import Partition, ScoreAggregate, ScoreAggregateQuery
from turnout.errors import StorageError, StorageLockedError
from turnout.ids import id_text
from turnout.runtime.actor import Rests
from turnout.storage.attempts import AttemptRows
from turnout.storage.rows import Row
from turnout.storage.spool import Spool


class Outage(Store):
    """A store that takes nothing while ``down``."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(self._refuse)
        self.down = False
        self.tried = 0
        self.error = error or StorageError("the server is away")

    def _refuse(self) -> None:
        self.tried += 1
        if self.down:
            raise self.error


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def ledger_of(rig: Rig, store: Store, spool: Spool, **config: Any) -> Ledger:
    return Ledger(store, "scope", LedgerConfig(**config), rig.runtime, closes_store=False, spool=spool)


def test_rows_that_the_store_refuses_wait_in_files_and_not_in_memory(rig: Rig, spool: Spool) -> None:
    store = Outage()
    store.down = True
    ledger = ledger_of(rig, store, spool, max_rows=10, batch_rows=10)
    for number in range(100):
        ledger.put(attempt(number))
        assert not ledger.flush(WAIT)
    stats = ledger.stats()
    assert (stats.written, stats.waiting, stats.spooled, stats.dropped) == (0, 0, 100, 0)
    assert stats.failing == "the server is away"
    (warning,) = [line for line in rig.logged if line.startswith("WARNING")]
    assert warning.endswith(f"calls go on, rows wait in {spool.folder}")


def test_they_reach_the_store_once_it_can_be_written_again(rig: Rig, spool: Spool) -> None:
    store = Outage()
    ledger = ledger_of(rig, store, spool)
    for number in range(300):
        store.down = 100 <= number < 200
        ledger.put(attempt(number))
        ledger.flush(WAIT)
    rig.until(lambda: ledger.stats().waiting == 0 and spool.is_empty)
    assert len(store.kept()) == len(set(store.kept())) == 300
    assert ledger.flush(WAIT)
    stats = ledger.stats()
    # The first row after the outage finds out that it is over.
    assert (stats.spooled, stats.taken_in, stats.failing) == (101, 101, None)
    assert sum("can be written again" in line for line in rig.logged) == 1


def test_a_store_that_is_down_is_not_asked_for_every_batch(rig: Rig, spool: Spool) -> None:
    store, written = Outage(), threading.Semaphore(0)
    store.down = True
    ledger = ledger_of(rig, store, spool)
    for number in range(50):
        ledger.put(attempt(number))
        ledger.commit(lambda safe: written.release())
        assert written.acquire(timeout=WAIT)
    # Time stands still.
    assert (store.tried, ledger.stats().spooled) == (1, 50)


def test_what_files_held_at_the_start_is_taken_in_without_a_call(rig: Rig, tmp_path: Path) -> None:
    first, store = Outage(), Outage()
    first.down = True
    before = Rig()
    ledger = ledger_of(before, first, Spool(tmp_path / "spool"))
    ledger.put(attempt(1))
    before.close()
    assert before.logged[-1].startswith("WARNING 1 rows wait in")
    assert ledger.stats().dropped == 0
    ledger_of(rig, store, Spool(tmp_path / "spool"))
    rig.until(lambda: len(store.kept()) == 1)


def test_rows_of_a_process_that_finds_the_database_held_are_taken_in_by_the_one_that_holds_it(
    rig: Rig, tmp_path: Path
) -> None:
    held, shared = Outage(StorageLockedError("held by another process")), Store()
    held.down = True
    other = ledger_of(rig, held, Spool(tmp_path / "spool"))
    ledger_of(rig, shared, Spool(tmp_path / "spool"))
    for number in range(10):
        other.put(attempt(number))
    rig.until(lambda: len(shared.kept()) == 10)
    rig.until(lambda: other.stats().spooled == 10)
    # Whoever took them in, they are in the store.
    assert Path(tmp_path / "spool").exists()
    rig.until(lambda: spool_is_empty(tmp_path))


def spool_is_empty(tmp_path: Path) -> bool:
    return Spool(tmp_path / "spool").is_empty


def test_rows_wait_in_memory_where_no_file_can_be_written_and_this_is_told_once(
    rig: Rig, tmp_path: Path
) -> None:
    (tmp_path / "spool").write_text("in the way")
    store = Outage()
    store.down = True
    ledger = ledger_of(rig, store, Spool(tmp_path / "spool"))
    for number in range(5):
        ledger.put(attempt(number))
        assert not ledger.flush(WAIT)
    rig.clock.advance(5.0)
    assert not ledger.flush(WAIT)
    assert (ledger.stats().waiting, ledger.stats().spooled) == (5, 0)
    assert sum("cannot be kept in files either" in line for line in rig.logged) == 1
    (tmp_path / "spool").unlink()
    rig.until(lambda: ledger.stats().spooled == 5)
    store.down = False
    rig.until(lambda: len(store.kept()) == 5)


def test_new_rows_and_commits_do_not_wait_for_all_files_to_be_taken_in(rig: Rig, tmp_path: Path) -> None:
    backlog, taken = Spool(tmp_path / "spool", file_bytes=1), threading.Semaphore(0)
    for number in range(20):
        backlog.append(AttemptRows([attempt(number)], "scope"))
    go = threading.Semaphore(0)
    seen: list[str] = []

    def one_at_a_time() -> None:
        taken.release()
        assert go.acquire(timeout=WAIT)

    class Slow(Store):
        def record_attempts(self, rows: Sequence[Row]) -> None:
            super().record_attempts(rows)
            seen.extend(row.attempt_id for row in rows)

    store, heard = Slow(one_at_a_time), SimpleQueue[bool]()
    ledger = ledger_of(rig, store, Spool(tmp_path / "spool"), durability="committed", batch_rows=1)
    assert taken.acquire(timeout=WAIT)
    # While the first file is taken in.
    ledger.put(attempt(1_000))
    ledger.commit(heard.put)
    assert heard.get(timeout=WAIT)
    assert not seen
    ledger.put(attempt(1_001))
    for _ in range(3):
        go.release()
    rig.until(lambda: id_text(1_001) in seen, step=0.0)
    assert len(seen) <= 3
    for _ in range(40):
        go.release()
    rig.until(lambda: len(store.kept()) == 22)


def test_a_file_that_the_store_refuses_holds_up_neither_rows_nor_other_files(
    rig: Rig, tmp_path: Path
) -> None:
    files = Spool(tmp_path / "spool", file_bytes=1)
    for number in (1, 2, 3):
        files.append(AttemptRows([attempt(number)], "scope"))

    class Choosy(Store):
        def record_attempts(self, rows: Sequence[Row]) -> None:
            if any(row.attempt_id == id_text(1) for row in rows):
                raise StorageError("not this one")
            super().record_attempts(rows)

    store = Choosy()
    ledger = ledger_of(rig, store, Spool(tmp_path / "spool"))
    ledger.put(attempt(4))
    rig.until(lambda: sorted(store.kept()) == [id_text(2), id_text(3), id_text(4)])
    assert ledger.flush(WAIT)
    rig.clock.advance(1000.0)
    assert ledger.stats().failing is None
    assert not Spool(tmp_path / "spool").is_empty
    assert sum("cannot be taken in yet (not this one)" in line for line in rig.logged) == 1


def test_an_outage_ends_though_the_oldest_file_is_refused(rig: Rig, tmp_path: Path) -> None:
    Spool(tmp_path / "spool", file_bytes=1).append(AttemptRows([attempt(1)], "scope"))

    class Choosy(Outage):
        def record_attempts(self, rows: Sequence[Row]) -> None:
            if any(row.attempt_id == id_text(1) for row in rows):
                raise StorageError("not this one")
            super().record_attempts(rows)

    store = Choosy()
    store.down = True
    ledger = ledger_of(rig, store, Spool(tmp_path / "spool"))
    ledger.put(attempt(2))
    assert not ledger.flush(WAIT)
    store.down = False
    rig.until(lambda: store.kept() == [id_text(2)] and ledger.stats().failing is None)


def test_a_file_is_counted_as_written_once_however_often_it_was_tried(rig: Rig, spool: Spool) -> None:
    store = Outage()
    store.down = True
    ledger = ledger_of(rig, store, spool)
    for number in range(7):
        ledger.put(attempt(number))
        assert not ledger.flush(WAIT)
    store.down = False
    assert ledger.flush(WAIT)
    assert (ledger.stats().written, ledger.stats().taken_in) == (7, 7)


def test_rows_that_another_router_took_in_are_flushed(rig: Rig, tmp_path: Path) -> None:
    away, shared = Outage(), Store()
    away.down = True
    ledger = ledger_of(rig, away, Spool(tmp_path / "spool"))
    ledger.put(attempt(1))
    assert not ledger.flush(WAIT)
    ledger_of(rig, shared, Spool(tmp_path / "spool"))
    rig.until(lambda: len(shared.kept()) == 1)
    assert ledger.flush(WAIT)


def test_a_store_that_raises_anything_at_all_is_asked_again(rig: Rig) -> None:
    class Cancels(Store):
        def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
            raise CancelledError

    heard: SimpleQueue[object] = SimpleQueue()

    class Listens(Rests):
        def receive(self, message: object) -> None:
            heard.put(message)

    ledger = rig.ledger(Cancels())
    here = rig.runtime.actor("listener", Listens())
    now = datetime.now(UTC)
    query = ScoreAggregateQuery((Partition("p-1", "m", "openai_chat"),), CallType.REGULAR, now, now)
    for _ in range(2):
        assert ledger.put_to_store([query], here)
        assert isinstance(heard.get(timeout=WAIT), Asking)
        assert isinstance(heard.get(timeout=WAIT), Unanswered)


def test_many_that_wait_for_a_commit_are_served_by_one(rig: Rig, spool: Spool) -> None:
    entered, go, done = threading.Event(), threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        entered.set()
        assert go.wait(WAIT)

    store = Store(hang)
    ledger = ledger_of(rig, store, spool, durability="committed")
    told: list[bool] = []

    def hear(safe: bool) -> None:
        told.append(safe)
        done.release()

    def commit(number: int) -> None:
        ledger.put(attempt(number))
        ledger.commit(hear)

    commit(0)
    assert entered.wait(WAIT)
    for number in range(1, 65):
        commit(number)
    go.set()
    for _ in range(65):
        assert done.acquire(timeout=WAIT)
    assert told == [True] * 65
    assert store.batches == [1, 64]


def test_a_commit_is_told_of_rows_that_are_safe_in_a_file(rig: Rig, spool: Spool) -> None:
    store, told = Outage(), threading.Event()
    store.down = True
    ledger = ledger_of(rig, store, spool, durability="committed")
    ledger.put(attempt(1))
    ledger.commit(lambda safe: told.set() if safe else None)
    assert told.wait(WAIT)
    assert ledger.stats().spooled == 1


def test_a_commit_of_what_is_nowhere_safe_says_so(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    store = Outage()
    store.down = True
    ledger = ledger_of(rig, store, Spool(tmp_path / "spool"), durability="committed")
    told: SimpleQueue[bool] = SimpleQueue()
    ledger.put(attempt(1))
    ledger.commit(told.put)
    assert told.get(timeout=WAIT) is False


def test_a_commit_asked_for_after_the_end_is_answered(spool: Spool) -> None:
    rig, told = Rig(), SimpleQueue[bool]()
    ledger = ledger_of(rig, Store(), spool, durability="committed")
    rig.close()
    ledger.commit(told.put)
    assert told.get(timeout=WAIT) is False


def test_a_store_that_can_be_made_durable_is_before_its_first_row(rig: Rig, spool: Spool) -> None:
    class Durable(Store):
        durable = False

        def make_durable(self) -> None:
            self.durable = True

        def record_attempts(self, rows: Sequence[Row]) -> None:
            assert self.durable
            super().record_attempts(rows)

    store = Durable()
    ledger = ledger_of(rig, store, spool, durability="committed")
    ledger.put(attempt(1))
    assert ledger.flush(WAIT)


def test_the_latest_attempts_are_kept_also_without_a_store(rig: Rig) -> None:
    ledger = Ledger(None, "scope", LedgerConfig(), rig.runtime, closes_store=False)
    for number in range(5_000):
        ledger.put(attempt(number))
    rig.until(lambda: len(ledger.recent()) == 4_096 and ledger.recent()[-1].key == 4_999)
    assert ledger.stats() == type(ledger.stats())()
    assert ledger.flush(0.0)
