"""Threads that fork at once, and a ledger that is asked to let go of what its store lets go of itself."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from turnout.actors.ledger import Ledger
from turnout.clock import SystemClock
from turnout.config import LedgerConfig
from turnout.runtime.threads import ThreadRuntime
from turnout.storage.sqlite import SQLiteMetricsStore


def test_only_who_brought_a_store_to_rest_lets_it_go_on(tmp_path: Path) -> None:
    store = SQLiteMetricsStore(tmp_path / "m.db")
    handle: Any = store._handle
    handle.before_fork()
    with ThreadPoolExecutor(1) as another:
        another.submit(handle.after_fork_in_parent).result(30)
    assert handle._turn.locked()
    handle.after_fork_in_parent()
    with handle.writing():
        assert handle._turn.locked()
    assert not handle._turn.locked()
    store.close()


def test_a_fork_does_not_wait_for_the_ledger_of_a_store_that_is_at_rest(tmp_path: Path) -> None:
    store = SQLiteMetricsStore(tmp_path / "m.db")
    runtime = ThreadRuntime("forks", clock=SystemClock(), max_workers=1, max_queue=1, idle_seconds=1.0)
    ledger = Ledger(store, "forks", LedgerConfig(), runtime, closes_store=True)
    runtime.start()
    handle: Any = store._handle
    handle.before_fork()
    try:
        # Asked, it could only answer once the fork is over.
        assert ledger.release(0.0)
    finally:
        handle.after_fork_in_parent()
        runtime.stop(30.0)
