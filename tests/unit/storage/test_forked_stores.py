"""A store in a process that forks. Each case runs in an interpreter of its own, which nothing else has touched."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMON = """
import gc, os, sys
from datetime import UTC, datetime
from turnout.errors import StorageLockedError
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
path = sys.argv[1]

def row(number):
    identity = f"01900000-0000-7000-8000-{number:012x}"
    known = (identity, identity, 1, "primary", NOON, "scope", "a", "A", None, None, "regular", True, "ok")
    return Row(*known, None, None, 1.0, 1.0, 0.0, None, None, None, None, "unknown", None, None)

def in_child(work):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    work()
    sys.exit(7)
"""

SQLITE_WRITES_IN_BOTH = """
store = SQLiteMetricsStore(path)
store.record_attempts([row(1)])
def work():
    store.record_attempts([row(2)])
    assert len(store.query_recent(since=NOON)) == 2
    store.close()
assert in_child(work) == 7
store.record_attempts([row(3)])
assert [r.attempt_id[-1] for r in store.query_recent(since=NOON)] == ["1", "2", "3"]
store.close()
"""

SQLITE_CHILD_OUTLIVES_PARENTS_CLOSE = """
store = SQLiteMetricsStore(path)
store.record_attempts([row(1)])
ready, go = os.pipe(), os.pipe()
pid = os.fork()
if not pid:
    store.record_attempts([row(2)])
    os.write(ready[1], b"x"); os.read(go[0], 1)
    store.record_attempts([row(3)])
    store.close()
    sys.exit(0)
os.read(ready[0], 1)
store.close()
os.write(go[1], b"x")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
again = SQLiteMetricsStore(path)
assert len(again.query_recent(since=NOON)) == 3
again.close()
"""

DUCKDB_STAYS_THE_PARENTS = """
store = DuckDBMetricsStore(path)
store.record_attempts([row(1)])
def work():
    for each in (store, DuckDBMetricsStore(path)):
        try:
            each.record_attempts([row(2)])
        except StorageLockedError as error:
            assert path in str(error) and "release()" in str(error), error
        else:
            raise AssertionError("the child wrote into the parent's database")
        each.close()
assert in_child(work) == 7
store.record_attempts([row(3)])
assert len(store.query_recent(since=NOON)) == 2
store.close()
again = DuckDBMetricsStore(path)
assert len(again.query_recent(since=NOON)) == 2
again.close()
"""

DUCKDB_CHILD_THAT_NEVER_LOOKS = """
store = DuckDBMetricsStore(path)
store.record_attempts([row(1)])
def work():
    global store
    del store
    gc.collect()
before = (os.stat(path).st_mtime_ns, os.stat(path + ".wal").st_mtime_ns)
assert in_child(work) == 7
assert (os.stat(path).st_mtime_ns, os.stat(path + ".wal").st_mtime_ns) == before
store.record_attempts([row(2)])
assert len(store.query_recent(since=NOON)) == 2
store.close()
"""

DUCKDB_RELEASED_FIRST = """
store = DuckDBMetricsStore(path)
store.record_attempts([row(1)])
store.release()
def work():
    store.record_attempts([row(2)])
    assert len(store.query_recent(since=NOON)) == 2
    store.close()
assert in_child(work) == 7
store.record_attempts([row(3)])
assert len(store.query_recent(since=NOON)) == 3
store.close()
"""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(SQLITE_WRITES_IN_BOTH, id="sqlite: parent and child both write"),
        pytest.param(
            SQLITE_CHILD_OUTLIVES_PARENTS_CLOSE,
            id="sqlite: the child writes on after the parent closed",
        ),
        pytest.param(
            DUCKDB_STAYS_THE_PARENTS,
            id="duckdb: the child is refused and the parent goes on",
        ),
        pytest.param(
            DUCKDB_CHILD_THAT_NEVER_LOOKS,
            id="duckdb: a child that ends leaves the file alone",
        ),
        pytest.param(
            DUCKDB_RELEASED_FIRST,
            id="duckdb: released before the fork, the child may have it",
        ),
    ],
)
def test_a_fork_harms_no_store(case: str, tmp_path: Path) -> None:
    script = [
        sys.executable,
        "-W",
        "error",
        "-c",
        COMMON + case,
        str(tmp_path / "ledger"),
    ]
    done = subprocess.run(script, check=False, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
