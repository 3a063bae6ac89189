"""What the ledger does while its store takes its time."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.unit.actors.test_ledger import WAIT, Rig, Store, attempt
from tests.unit.actors.test_ledger_spool import ledger_of
from turnout import CallType, StorageError
from turnout.actors import delivery
from turnout.actors.ledger_messages import Answered, Asking, Observed
from turnout.committing import Committing
from turnout.decisions.aggregates import Partition, ScoreAggregate, ScoreAggregateQuery
from turnout.errors import ReentrantCallError, ThreadsStillRunningError
from turnout.runtime.actor import Rests
from turnout.runtime.steps import Hear, Walk
from turnout.storage.spool import Spool

START = attempt(0).started_at
QUERY = ScoreAggregateQuery((Partition("p-1", "m", "openai_chat"),), CallType.REGULAR, START, START)


class Hanging(Store):
    """Says when it is at work, and goes on when it is let."""

    def __init__(self) -> None:
        super().__init__(self._hang)
        self.at_work, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        self._hang()
        return super().query_score_aggregates(query)

    def let_go(self) -> None:
        self.go.release(1_000)

    def _hang(self) -> None:
        self.at_work.release()
        assert self.go.acquire(timeout=WAIT)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def store() -> Iterator[Hanging]:
    store = Hanging()
    yield store
    store.let_go()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def in_files(folder: Path) -> int:
    """How many rows wait there. A file may be renamed meanwhile."""
    while True:
        with suppress(FileNotFoundError):
            return sum(len(file.read_bytes().splitlines()) - 1 for file in folder.iterdir())


def test_rows_of_a_store_that_hangs_are_in_files_soon_and_arrive_once(
    rig: Rig, store: Hanging, spool: Spool, tmp_path: Path
) -> None:
    ledger = ledger_of(rig, store, spool)
    ledger.put(attempt(1))
    rig.until(lambda: store.at_work.acquire(blocking=False))
    ledger.put(attempt(2))
    rig.until(lambda: ledger.stats().waiting == 0)
    # That which the store is at, too: whether it will be taken, nobody knows.
    assert in_files(tmp_path / "spool") == 2
    assert store.kept() == []
    store.let_go()
    assert ledger.flush(WAIT)
    assert len(store.kept()) == 2
    assert ledger.stats().written == 2


def test_a_commit_does_not_wait_for_a_question(rig: Rig, store: Hanging, spool: Spool) -> None:
    ledger = ledger_of(rig, store, spool, durability="committed")
    heard: SimpleQueue[object] = SimpleQueue()
    assert ledger.put_to_store([QUERY], rig.runtime.actor("listener", Listener(heard)))
    assert store.at_work.acquire(timeout=WAIT)
    ledger.put(attempt(1))
    safe: SimpleQueue[bool] = SimpleQueue()
    ledger.commit(safe.put)
    assert safe.get(timeout=WAIT)
    assert isinstance(heard.get(timeout=WAIT), Asking)
    assert heard.empty()
    store.let_go()
    assert isinstance(heard.get(timeout=WAIT), Answered)


def test_what_comes_during_a_question_is_told_at_once_and_is_not_in_its_answer(
    rig: Rig, store: Hanging, spool: Spool
) -> None:
    heard: SimpleQueue[Any] = SimpleQueue()
    ledger = ledger_of(rig, store, spool)
    here = rig.runtime.actor("listener", Listener(heard))
    ledger.taught(here)
    ledger.put(attempt(1))
    store.go.release()
    assert ledger.put_to_store([QUERY], here)
    for _ in range(2):
        assert store.at_work.acquire(timeout=WAIT)
    ledger.put(attempt(2))
    # Long enough for it to go to a file, and from there to the store if it were let.
    rig.until(lambda: ledger.stats().spooled == 1)
    told = [heard.get(timeout=WAIT) for _ in range(3)]
    assert [type(message) for message in told] == [Observed, Asking, Observed]
    assert [one.key for message in told[::2] for one in message.attempts] == [1, 2]
    rig.clock.advance(10.0)
    store.let_go()
    answered = heard.get(timeout=WAIT)
    assert isinstance(answered, Answered)
    assert [one.attempt_weight for (one,) in (of.values() for of in answered.answers)] == [1.0]


def test_a_ledger_ends_though_its_store_hangs_and_its_rows_are_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_LAST_SECONDS", 0.1)
    rig, store = Rig(), Hanging()
    try:
        ledger = ledger_of(rig, store, Spool(tmp_path / "spool"))
        ledger.put(attempt(1))
        rig.until(lambda: store.at_work.acquire(blocking=False))
        ledger.put(attempt(2))
        with pytest.raises(ThreadsStillRunningError, match="turnout-t-store"):
            rig.runtime.stop(1.0)
        assert ledger.stats().waiting == 0
        assert in_files(tmp_path / "spool") == 2
    finally:
        store.let_go()
        rig.close()


def test_a_store_that_uses_its_own_router_is_told_so(rig: Rig) -> None:
    ledgers: list[Any] = []
    raised: list[str] = []

    def use() -> None:
        with pytest.raises(ReentrantCallError, match="from within its own store"):
            ledgers[0].flush(WAIT)
        with pytest.raises(ReentrantCallError, match="from within its own store"):
            ledgers[0].ask([QUERY])
        raised.append("both")

    ledgers.append(rig.ledger(Store(use)))
    ledgers[0].put(attempt(1))
    assert ledgers[0].flush(WAIT)
    assert raised == ["both"]


def test_a_call_whose_row_there_was_no_room_for_counts_as_uncommitted(
    rig: Rig, store: Hanging, tmp_path: Path
) -> None:
    (tmp_path / "spool").write_text("in the way")
    ledger = ledger_of(
        rig, store, Spool(tmp_path / "spool"), durability="committed", max_rows=1, batch_rows=1
    )

    class Full:
        def walk(self, progress: Any) -> Walk:
            ledger.put(attempt(1))
            ledger.put(attempt(2))
            progress.attempts.append(attempt(2))
            yield from ()
            return "answer"

    class Progress:
        def __init__(self) -> None:
            self.attempts: list[Any] = []
            self.invocation = type("", (), {"deadline": type("", (), {"at": float("inf")})})

    walk = Committing(Full(), ledger, rig.clock).walk(Progress())  # type: ignore[arg-type]
    step = next(walk)
    assert isinstance(step, Hear)
    with pytest.raises(StopIteration) as end:
        walk.send(True)
    assert end.value.value == "answer"
    assert ledger.stats().uncommitted == 1


def test_a_store_that_fails_to_answer_is_told_of_as_it_is(rig: Rig, store: Hanging) -> None:
    class Fails(Store):
        def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
            raise StorageError("no such table")

    ledger = rig.ledger(Fails())
    with pytest.raises(StorageError, match="no such table"):
        ledger.ask([QUERY])


def test_callers_make_way_where_rows_pile_up_for_want_of_a_turn_and_for_a_bounded_time(
    rig: Rig, store: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("turnout.actors.ledger.time.sleep", sleep)
    monkeypatch.setattr("turnout.actors.ledger.time.monotonic", lambda: now[0])
    ledger = rig.ledger(store, batch_rows=10, max_rows=10_000, flush_seconds=1000.0)
    for number in range(30):
        ledger.put(attempt(number))
    assert slept == []
    assert store.at_work.acquire(timeout=WAIT)
    for number in range(30, 3_000):
        ledger.put(attempt(number))
    # Nobody knows whether the ledger had an errand at the first of them.
    assert 1_000 <= len(slept) <= 2_001
    assert ledger.stats().dropped == 0


class Listener(Rests):
    def __init__(self, heard: "SimpleQueue[Any]") -> None:
        self._heard = heard

    def receive(self, message: object) -> None:
        self._heard.put(message)
