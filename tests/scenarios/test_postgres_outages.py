"""A real PostgreSQL that is stopped under a router with load, and started again: nobody notices but the ledger."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from turnout import PostgresMetricsStore
from turnout.testing import ScriptedAdapters

CALLERS = 4
WAIT_SECONDS = 30.0


class Load:
    """Threads that call until they are told to end: ``invoke`` and ``submit`` by turns."""

    def __init__(self, router: Any, call: Any) -> None:
        self._router = router
        self._call = call
        self._end = threading.Event()
        self._made = threading.Semaphore(0)
        self.told: list[str] = []
        self.failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._calls) for _ in range(CALLERS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)

    def goes_on(self, calls: int) -> None:
        """Until so many more were answered."""
        for _ in range(calls):
            assert self._made.acquire(timeout=WAIT_SECONDS), self.failed

    def _calls(self) -> None:
        try:
            while not self._end.is_set():
                future = self._router.submit(self._call)
                assert future.result(WAIT_SECONDS) == "answer"
                self.told.append(future.report().invocation_id)
                assert self._router.invoke(self._call) == "answer"
                self._made.release()
        except BaseException as error:
            self.failed.append(error)


@pytest.fixture
def store(postgres_ledger: str) -> Iterator[PostgresMetricsStore]:
    with closing(PostgresMetricsStore(postgres_ledger)) as store:
        yield store


# Asked for first, the store is closed after the routers.
@pytest.mark.slow
@pytest.mark.parametrize("durability", ["batched", "committed"])
def test_a_server_that_is_stopped_and_started_under_load_costs_no_call_and_no_row(
    store: PostgresMetricsStore, postgres: Any, rig: Any, tmp_path: Path, durability: str
) -> None:
    router = rig.scripted(
        ScriptedAdapters({"a": ["answer"]}),
        "a",
        metrics_store=store,
        ledger={"durability": durability, "spool_dir": str(tmp_path)},
    )
    with Load(router, rig.chat()) as load:
        for _ in range(2):
            load.goes_on(300)
            postgres.stop()
            load.goes_on(500)
            postgres.start()
        load.goes_on(300)
    assert load.failed == []
    assert router.flush(WAIT_SECONDS)

    rows = store.query_recent(since=datetime.now(UTC) - timedelta(hours=1))
    assert len(rows) == len({row.attempt_id for row in rows}) == 2 * len(load.told)
    assert Counter(row.invocation_id for row in rows) >= Counter(load.told)
    ledger = router.stats().ledger
    assert (ledger.written, ledger.waiting, ledger.dropped, ledger.failing) == (len(rows), 0, 0, None)
    assert ledger.spooled == ledger.taken_in > 0
    assert ledger.uncommitted == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
