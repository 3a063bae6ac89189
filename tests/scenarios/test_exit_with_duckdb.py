"""Rows told late still reach DuckDB when the interpreter ends without a close()."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnout import DuckDBMetricsStore

pytestmark = pytest.mark.slow

BEGIN = """
import atexit, sys, threading
from turnout import CallVariant, DuckDBMetricsStore, ProviderRouter
from turnout.testing import ScriptedAdapters

call = CallVariant("openai_chat", "chat.completions.create", "regular", {"messages": []})

def router_of(*answers, **ledger):
    return ProviderRouter(
        [{"provider_id": "p", "name": "p", "protocol": "openai_chat", "model": "m", "api_key": "k"}],
        adapter_factory=ScriptedAdapters({"p": list(answers)}),
        metrics_store={"backend": "duckdb", "path": sys.argv[1]},
        ledger=ledger,
    )
"""

ROWS_WAIT = """
router = router_of("answer")
router.invoke(call)
assert router.flush()
for _ in range(5):
    router.invoke(call)
"""

DROPPED = """
def use():
    router = router_of("answer", flush_seconds=60.0)
    for number in range(500):
        router.invoke(call)
        if not number:
            assert router.flush()

use()
"""

ENDS_WHILE_OPENING = """
opening = threading.Event()
opened = DuckDBMetricsStore._open

def slow(store):
    import duckdb
    opening.set()
    threading.main_thread().join()
    return opened(store)

DuckDBMetricsStore._open = slow
router = router_of("answer")
router.invoke(call)
assert opening.wait(30)
"""

FIRST_ROW_WHILE_HOOKS_RUN = """
hooks_run, kept, go_on = threading.Event(), threading.Event(), threading.Event()
record = DuckDBMetricsStore.record_attempts

def told(store, rows):
    assert hooks_run.wait(30)
    record(store, rows)
    kept.set()

def slow(call):
    assert go_on.wait(30)
    return "answer"

DuckDBMetricsStore.record_attempts = told
router = router_of("answer", slow)
router.invoke(call)
future = router.submit(call)

@atexit.register
def my_own_hook():
    # Runs before turnout's own; the ledger writes its first row meanwhile.
    hooks_run.set()
    assert kept.wait(30)
    go_on.set()
"""


def rows_after(script: str, path: Path) -> int:
    """How many rows are kept once a program has ended, without a word and without a close()."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script, str(path)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "LOGURU_LEVEL": "WARNING"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    store = DuckDBMetricsStore(path)
    try:
        return len(store.query_recent(since=datetime(2000, 1, 1, tzinfo=UTC)))
    finally:
        store.close()


def test_rows_that_wait_at_exit_are_written_before_the_driver_ends(tmp_path: Path) -> None:
    assert rows_after(ROWS_WAIT, tmp_path / "metrics.duckdb") == 6


def test_rows_of_a_router_that_was_dropped_just_before_the_exit_are_written(tmp_path: Path) -> None:
    assert rows_after(DROPPED, tmp_path / "metrics.duckdb") == 500


def test_a_program_that_ends_while_the_file_is_being_opened_keeps_its_rows(tmp_path: Path) -> None:
    assert rows_after(ENDS_WHILE_OPENING, tmp_path / "metrics.duckdb") == 1


def test_a_first_row_that_is_written_while_exit_hooks_run_costs_no_other(tmp_path: Path) -> None:
    assert rows_after(FIRST_ROW_WHILE_HOOKS_RUN, tmp_path / "metrics.duckdb") == 2
