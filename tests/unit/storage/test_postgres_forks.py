"""A store on PostgreSQL in a process that forks, or ends. Each case runs in an interpreter of its own."""

import subprocess
import sys

import pytest

COMMON = """
import gc, os, sys, threading
from datetime import UTC, datetime
from uuid import uuid4
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

def row():
    known = (str(uuid4()), str(uuid4()), 1, "primary", NOON, "scope", "a", "A", None, None, "regular", True, "ok")
    return Row(*known, None, None, 1.0, 1.0, 0.0, None, None, None, None, "unknown", None, None)

def in_child(work):
    pid = os.fork()
    if pid:
        return pid
    work()
    sys.exit(7)

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

store = PostgresMetricsStore(sys.argv[1])
store.record_attempts([row()])
"""

BOTH_WRITE = """
def work():
    assert not any(thread.name.startswith("turnout") for thread in threading.enumerate())
    for _ in range(20):
        store.record_attempts([row()])
    assert len(store.query_recent(since=NOON)) > 20
    store.close()
children = [in_child(work) for _ in range(3)]
for _ in range(20):
    store.record_attempts([row()])
assert [ended(child) for child in children] == [7] * 3
assert len(store.query_recent(since=NOON)) == 81
store.close()
"""

CHILD_LETS_IT_FALL = """
from psycopg_pool import ConnectionPool
def work():
    global store
    del store
    gc.collect()
    # Collected, it would wait for the locks of threads that are not here.
    assert any(isinstance(each, ConnectionPool) for each in gc.get_objects())
assert ended(in_child(work)) == 7
(before,) = store._pool.run(lambda connection: connection.execute("SELECT pg_backend_pid()").fetchone())
assert ended(in_child(lambda: store.close())) == 7
(after,) = store._pool.run(lambda connection: connection.execute("SELECT pg_backend_pid()").fetchone())
assert before == after
store.close()
"""

CHILD_OF_A_BUSY_PARENT = """
stop = threading.Event()
def write():
    while not stop.is_set():
        store.record_attempts([row()])
writers = [threading.Thread(target=write, daemon=True) for _ in range(3)]
for writer in writers:
    writer.start()
def work():
    before = len(store.query_recent(since=NOON))
    store.record_attempts([row()])
    store.close()
children = [in_child(work) for _ in range(5)]
assert [ended(child) for child in children] == [7] * 5
stop.set()
for writer in writers:
    writer.join()
store.record_attempts([row()])
store.close()
"""

NEVER_CLOSED = """
store.query_recent(since=NOON)
"""

DROPPED = """
del store
gc.collect()
assert not any(thread.name.startswith("turnout") for thread in threading.enumerate())
"""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(BOTH_WRITE, id="parent and children all write"),
        pytest.param(
            CHILD_LETS_IT_FALL, id="a child that lets it fall, or closes it, leaves the parent's alone"
        ),
        pytest.param(
            CHILD_OF_A_BUSY_PARENT,
            id="children of a parent whose threads are writing",
            marks=pytest.mark.slow,
        ),
        pytest.param(NEVER_CLOSED, id="a process ends without closing it"),
        pytest.param(DROPPED, id="nobody holds it any more"),
    ],
)
def test_neither_fork_nor_end_harms_a_store(case: str, postgres_ledger: str) -> None:
    script = [sys.executable, "-W", "error", "-c", COMMON + case, postgres_ledger]
    done = subprocess.run(script, check=False, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
