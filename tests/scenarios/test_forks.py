"""Who forks, when, and what a forked child finds; each in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PREAMBLE = """
import os, signal, sys, threading
from turnout import *
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import ScriptedAdapters

call = CallVariant("openai_chat", "chat.completions.create", "regular", {"messages": []})

def router_of(store, *answers, **settings):
    provider = {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}
    adapters = ScriptedAdapters({"a": list(answers) or ["answer"]})
    return ProviderRouter([provider], metrics_store=store, adapter_factory=adapters, **settings)

def own_threads():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("turnout-"))

def in_child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        # A child that waited for ever would outlive the test.
        signal.alarm(40)
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def run(code: str, *arguments: str) -> list[str]:
    """The lines that a fresh process prints for `code`; it must end well and say nothing on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code, *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        # Python 3.12 and later warn of every fork() of a process with threads; these tests are about just that.
        env={
            **os.environ,
            "LOGURU_LEVEL": "WARNING",
            "PYTHONWARNINGS": "ignore:This process:DeprecationWarning",
        },
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


WRITES_IN_BOTH = """
go_on = threading.Event()
go_on.set()
router = router_of(DuckDBMetricsStore(sys.argv[1]), lambda call: go_on.wait(20))
router.invoke(call)
assert router.flush()

def writes():
    router.invoke(call)
    print("child", router.flush(20), router.stats().ledger.failing)

def forks(*_):
    in_child(writes)
"""

A_THREAD_OF_THE_USERS = """
thread = threading.Thread(target=forks, name="turnout-app")
thread.start()
thread.join()
"""

A_WORKER = """
forked = threading.Event()
go_on.clear()
future = router.submit(call)
future.add_done_callback(forks)
future.add_done_callback(lambda future: forked.set())
go_on.set()
assert forked.wait(40)
"""

ANOTHERS_LEDGER = """
class Forking(MemoryMetricsStore):
    def record_attempts(self, rows):
        forks()
        super().record_attempts(rows)

other = router_of(Forking())
other.invoke(call)
print("other", other.flush(40))
"""

PARENT_GOES_ON = """
router.invoke(call)
print("parent", router.flush(20), router.stats().ledger.failing)
"""


@pytest.mark.parametrize(
    ("who", "says"),
    [
        pytest.param(A_THREAD_OF_THE_USERS, [], id="a thread of the user's"),
        pytest.param(A_WORKER, [], id="a worker of its own"),
        pytest.param(ANOTHERS_LEDGER, ["other True"], id="the ledger of another router"),
    ],
)
def test_whoever_forks_a_child_may_write_where_the_parent_does(
    tmp_path: Path, who: str, says: list[str]
) -> None:
    lines = run(WRITES_IN_BOTH + who + PARENT_GOES_ON, str(tmp_path / "metrics.duckdb"))

    assert lines == ["child True None", *says, "parent True None"]


DROPPED_BEFORE = """
def use():
    router = router_of({"backend": "duckdb", "path": sys.argv[1]}, ledger={"flush_seconds": 60.0})
    router.invoke(call)
    assert router.flush(20)
    for _ in range(100):
        router.invoke(call)

def writes():
    own = router_of({"backend": "duckdb", "path": sys.argv[1]})
    own.invoke(call)
    print("child", own.flush(20), own.stats().ledger.failing)
    own.close()

use()
in_child(writes)
store = DuckDBMetricsStore(sys.argv[1])
from datetime import UTC, datetime
print(len(store.query_recent(since=datetime.fromtimestamp(0, UTC))))
store.close()
"""


def test_a_child_may_write_where_a_router_did_that_was_dropped_just_before(tmp_path: Path) -> None:
    assert run(DROPPED_BEFORE, str(tmp_path / "metrics.duckdb")) == ["child True None", "102"]


CLOSED = """
router = router_of({"backend": "sqlite", "path": sys.argv[1]}, policy=RoundRobinPolicy())
router.invoke(call)

def asks():
    if sys.argv[2] == "by the child":
        router.close()
    print(router.health_report()["a"].state.value, router.stats().workers, router.stats().ledger.waiting)
    router.reset_health("a")
    try:
        router.reset_health("b")
    except ConfigError as error:
        print("ids" in str(error))
    for door in (lambda: router.invoke(call), lambda: router.submit(call), router.flush):
        try:
            door()
        except RouterClosedError as error:
            print(type(error).__name__)
    print(own_threads())
    router.close()

if sys.argv[2] == "by the parent":
    router.close()
in_child(asks)
router.close()
"""


@pytest.mark.parametrize("closed", ["by the parent", "by the child"])
def test_a_router_that_was_closed_starts_no_thread_in_a_forked_child(tmp_path: Path, closed: str) -> None:
    assert run(CLOSED, str(tmp_path / "metrics.sqlite"), closed) == [
        "closed 0 0",
        "True",
        *["RouterClosedError"] * 3,
        "[]",
    ]
