"""Rows told late still reach DuckDB when the interpreter ends without a close()."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from turnout import DuckDBMetricsStore

SCRIPT = """
import sys
from turnout import CallVariant, ProviderRouter
from turnout.testing import ScriptedAdapters

call = CallVariant("openai_chat", "chat.completions.create", "regular", {"messages": []})
router = ProviderRouter(
    [{"provider_id": "p", "name": "p", "protocol": "openai_chat", "model": "m", "api_key": "k"}],
    adapter_factory=ScriptedAdapters({"p": ["answer"]}),
    metrics_store={"backend": "duckdb", "path": sys.argv[1]},
)
router.invoke(call)
assert router.flush()
for _ in range(5):
    router.invoke(call)
"""


def test_rows_that_wait_at_exit_are_written_before_the_driver_ends(tmp_path: Path) -> None:
    path = tmp_path / "metrics.duckdb"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "LOGURU_LEVEL": "WARNING"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    store = DuckDBMetricsStore(path)
    assert len(store.query_recent(since=datetime(2000, 1, 1, tzinfo=UTC))) == 6
    store.close()


ENDS_WHILE_OPENING = """
import sys, threading
from turnout import CallVariant, DuckDBMetricsStore, ProviderRouter
from turnout.testing import ScriptedAdapters

opening = threading.Event()
opened = DuckDBMetricsStore._open

def slow(store):
    import duckdb
    opening.set()
    threading.main_thread().join()
    return opened(store)

DuckDBMetricsStore._open = slow
call = CallVariant("openai_chat", "chat.completions.create", "regular", {"messages": []})
router = ProviderRouter(
    [{"provider_id": "p", "name": "p", "protocol": "openai_chat", "model": "m", "api_key": "k"}],
    adapter_factory=ScriptedAdapters({"p": ["answer"]}),
    metrics_store=DuckDBMetricsStore(sys.argv[1]),
)
router.invoke(call)
assert opening.wait(30)
"""


def test_a_program_that_ends_while_the_file_is_being_opened_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "metrics.duckdb"
    done = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_OPENING, str(path)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "LOGURU_LEVEL": "WARNING"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    store = DuckDBMetricsStore(path)
    assert len(store.query_recent(since=datetime(2000, 1, 1, tzinfo=UTC))) == 1
    store.close()


FIRST_ROW_WHILE_HOOKS_RUN = """
import atexit, sys, threading
from turnout import CallVariant, DuckDBMetricsStore, ProviderRouter
from turnout.testing import ScriptedAdapters

kept = threading.Event()
record = DuckDBMetricsStore.record_attempts

def told(store, rows):
    assert hooks_run.wait(30)
    record(store, rows)
    kept.set()

DuckDBMetricsStore.record_attempts = told
hooks_run, go_on = threading.Event(), threading.Event()

def slow(call):
    assert go_on.wait(30)
    return "answer"

call = CallVariant("openai_chat", "chat.completions.create", "regular", {"messages": []})
router = ProviderRouter(
    [{"provider_id": "p", "name": "p", "protocol": "openai_chat", "model": "m", "api_key": "k"}],
    adapter_factory=ScriptedAdapters({"p": ["answer", slow]}),
    metrics_store=DuckDBMetricsStore(sys.argv[1]),
)
router.invoke(call)
future = router.submit(call)

@atexit.register
def my_own_hook():
    # Runs before turnout's own; the ledger writes its first row meanwhile.
    hooks_run.set()
    assert kept.wait(30)
    go_on.set()
"""


def test_a_first_row_that_is_written_while_exit_hooks_run_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "metrics.duckdb"
    done = subprocess.run(
        [sys.executable, "-c", FIRST_ROW_WHILE_HOOKS_RUN, str(path)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "LOGURU_LEVEL": "WARNING"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    store = DuckDBMetricsStore(path)
    assert len(store.query_recent(since=datetime(2000, 1, 1, tzinfo=UTC))) == 2
    store.close()
