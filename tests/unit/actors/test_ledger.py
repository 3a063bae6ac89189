"""The ledger: nothing told before a flush or the end is lost, and nothing it does is felt by who tells it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest
from loguru import logger

from turnout.actors.ledger import Ledger
from turnout.actors.writing import growing_waits
from turnout.calls import Attempt, CallType, Identity, Outcome, Reason
from turnout.config import LedgerConfig
from turnout.errors import StorageDriverMissingError, StorageError
from turnout.runtime.threads import ThreadRuntime
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.rows import Row
from turnout.testing import ManualClock

WAIT = 20.0
IDENTITY = Identity("p-1", "p", "m", "openai_chat")


def attempt(number: int) -> Attempt:
    return Attempt(
        number, 7, 1, Reason.PRIMARY, IDENTITY, CallType.REGULAR, 1_700_000_000.0, 0.1, 0.0, Outcome.OK, 0
    )


class Store(MemoryMetricsStore):
    """Keeps rows in memory, and does what a test tells it to before it does."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.before = before
        self.batches: list[int] = []
        self.closed = threading.Event()

    def record_attempts(self, rows: Sequence[Row]) -> None:
        self.before()
        super().record_attempts(rows)
        self.batches.append(len(rows))

    def kept(self) -> list[str]:
        since = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
        return [row.attempt_id for row in self.query_recent(since=since)]


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.runtime = ThreadRuntime("t", max_workers=1, max_queue=1, idle_seconds=1.0, clock=self.clock)
        self.logged: list[str] = []
        self._sink = logger.add(
            lambda m: self.logged.append(f"{m.record['level'].name} {m.record['message']}")
        )

    def ledger(self, store: Any, closes_store: bool = False, **config: Any) -> Ledger:
        return Ledger(store, "scope", LedgerConfig(**config), self.runtime, closes_store=closes_store)

    def until(self, condition: Callable[[], bool], step: float = 0.05) -> None:
        """Advance time until it holds."""
        ended = threading.Event()
        bell = threading.Timer(WAIT, ended.set)
        bell.start()
        try:
            while not condition():
                assert not ended.is_set(), self.logged
                self.clock.advance(step)
        finally:
            bell.cancel()

    def close(self) -> None:
        self.runtime.stop(WAIT)
        logger.remove(self._sink)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def test_rows_are_written_after_the_flush_time_without_anyone_asking(rig: Rig) -> None:
    store = Store()
    ledger = rig.ledger(store)
    ledger.put(attempt(1))
    rig.until(lambda: ledger.stats().written == 1)
    assert store.batches == [1]


def test_a_full_batch_is_written_before_its_time(rig: Rig) -> None:
    written = threading.Event()
    ledger = rig.ledger(Store(written.set), batch_rows=10, flush_seconds=1000.0)
    for number in range(11):
        ledger.put(attempt(number))
    assert written.wait(WAIT)


def test_a_sleeping_writer_is_woken_by_the_first_row(rig: Rig) -> None:
    store = Store()
    ledger = rig.ledger(store)
    rig.until(lambda: ledger._writer.asleep)
    ledger.put(attempt(1))
    rig.until(lambda: bool(store.batches))
    assert store.batches == [1]


def test_flush_waits_for_what_was_told_before_it(rig: Rig) -> None:
    store = Store()
    ledger = rig.ledger(store, flush_seconds=1000.0)
    for number in range(3000):
        ledger.put(attempt(number))
    assert ledger.flush(WAIT)
    assert len(store.kept()) == 3000
    assert ledger.stats().waiting == 0


def test_a_failing_store_is_told_once_tried_again_and_loses_nothing(rig: Rig) -> None:
    down = [True]

    def refuse() -> None:
        if down[0]:
            raise StorageError("the disk is away")

    store = Store(refuse)
    ledger = rig.ledger(store)
    for number in range(5):
        ledger.put(attempt(number))
        assert not ledger.flush(WAIT)
    assert ledger.stats().failing == "the disk is away"
    assert ledger.stats().waiting == 5
    down[0] = False
    rig.until(lambda: len(store.kept()) == 5)
    assert ledger.flush(WAIT)
    assert ledger.stats().failing is None
    assert sum(line.startswith("WARNING") for line in rig.logged) == 1
    assert sum("can be written again" in line for line in rig.logged) == 1


def test_waits_between_tries_double_up_to_five_seconds() -> None:
    wait = growing_waits()
    assert [wait(failures) for failures in (1, 2, 3, 4)] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert wait(10_000) == 5.0


def test_a_missing_driver_is_one_warning_and_nothing_is_kept(rig: Rig) -> None:
    def refuse() -> None:
        raise StorageDriverMissingError('pip install "turnout[duckdb]"')

    ledger = rig.ledger(Store(refuse))
    ledger.put(attempt(1))
    ledger.flush(WAIT)
    for number in range(100):
        ledger.put(attempt(number))
    assert not ledger.flush(WAIT)
    assert [line for line in rig.logged if line.startswith("WARNING")] == [
        'WARNING the ledger keeps nothing: pip install "turnout[duckdb]"'
    ]
    stats = ledger.stats()
    assert (stats.written, stats.waiting, stats.dropped) == (0, 0, 101)


def test_more_rows_than_may_wait_are_dropped_counted_and_told_once(rig: Rig) -> None:
    entered, go = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        assert go.wait(WAIT)

    store = Store(hang)
    ledger = rig.ledger(store, batch_rows=1, max_rows=10)
    ledger.put(attempt(0))
    ledger.put(attempt(1))
    assert entered.wait(WAIT)
    for number in range(2, 100):
        ledger.put(attempt(number))
    stats = ledger.stats()
    assert stats.waiting + stats.dropped == 100
    assert stats.waiting <= 11
    (told,) = rig.logged
    assert told.startswith("WARNING 10 rows wait for the ledger")
    go.set()
    assert ledger.flush(WAIT)
    assert len(store.kept()) + (dropped := ledger.stats().dropped) == 100
    rig.until(lambda: len(rig.logged) > 1)
    assert rig.logged[1:] == [f"WARNING the ledger has dropped {dropped} rows that there was no room for"]


def test_rows_that_are_dropped_while_the_store_fails_are_told_of_in_each_outage(rig: Rig) -> None:
    broken = True

    def fail() -> None:
        if broken:
            raise OSError("disk full")

    store = Store(fail)
    ledger = rig.ledger(store, batch_rows=1, max_rows=10)
    for outage in range(2):
        broken, before = True, len(rig.logged)
        for number in range(100):
            ledger.put(attempt(1000 * outage + number))
        assert not ledger.flush(WAIT)
        broken = False
        assert ledger.flush(WAIT)
        rig.until(lambda: "dropped" in rig.logged[-1])
        told = [line[:30] for line in rig.logged[before:] if not line.startswith("DEBUG")]
        assert sorted(told) == [
            "INFO the ledger can be written",
            "WARNING 10 rows wait for the l",
            "WARNING the ledger cannot be w",
            "WARNING the ledger has dropped",
        ]
    assert len(store.kept()) + ledger.stats().dropped == 200


def test_a_hanging_store_holds_up_nobody_who_tells(rig: Rig) -> None:
    entered, go = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        assert go.wait(WAIT)

    store = Store(hang)
    ledger = rig.ledger(store, batch_rows=1)
    ledger.put(attempt(0))
    ledger.put(attempt(1))
    assert entered.wait(WAIT)
    for number in range(2, 5000):
        ledger.put(attempt(number))
    assert not ledger.flush(0.001)
    go.set()
    assert ledger.flush(WAIT)
    assert len(store.kept()) == 5000


def test_the_end_writes_what_is_left_and_closes_only_its_own_store() -> None:
    for own in (True, False):
        rig, store = Rig(), Store()
        store.close = store.closed.set  # type: ignore[method-assign]
        ledger = rig.ledger(store, closes_store=own, flush_seconds=1000.0)
        for number in range(1234):
            ledger.put(attempt(number))
        rig.close()
        assert len(store.kept()) == 1234
        assert store.closed.is_set() is own


def test_what_comes_after_the_end_is_dropped_and_counted() -> None:
    rig, store = Rig(), Store()
    ledger = rig.ledger(store)
    rig.close()
    ledger.put(attempt(1))
    assert ledger.stats().dropped == 1
    assert not ledger.flush(WAIT)


def test_rows_told_from_many_threads_are_each_written_once(rig: Rig) -> None:
    store = Store()
    ledger = rig.ledger(store, batch_rows=50)

    def tell(first: int) -> None:
        for number in range(first, first + 1000):
            ledger.put(attempt(number))

    threads = [threading.Thread(target=tell, args=(start * 1000,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert ledger.flush(WAIT)
    assert len(set(store.kept())) == len(store.kept()) == 8000


def test_what_a_provider_sent_never_costs_the_batch(rig: Rig) -> None:
    store = Store()
    ledger = rig.ledger(store)
    ledger.put(attempt(1)._replace(error_code="\ud800\x00" + "x" * 1000))
    ledger.put(attempt(2))
    assert ledger.flush(WAIT)
    assert len(store.kept()) == 2
