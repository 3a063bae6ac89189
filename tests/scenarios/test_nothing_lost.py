"""Rows outlive what becomes of their process: kill -9, forks, other processes, a full disk, a store that is away."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnout import DuckDBMetricsStore, ProviderRouter, SQLiteMetricsStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STORES = {"duckdb": DuckDBMetricsStore, "sqlite": SQLiteMetricsStore}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
#: How often a process is killed in one test; over all of them, twenty times in each mode.
KILLS = 10
PROVIDER = {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}

PREAMBLE = """
import os, resource, signal, sys, threading, time
from itertools import count
from turnout import *

class Answers:
    def invoke(self, operation, arguments):
        return "answer"

call = CallVariant("openai_chat", "chat.completions.create", "regular", {"messages": []})
store = {"duckdb": DuckDBMetricsStore, "sqlite": SQLiteMetricsStore}[sys.argv[1]]

def router_of(path=sys.argv[2], **settings):
    provider = {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}
    return ProviderRouter([provider], metrics_store=store(path), adapter_factory=lambda config: Answers(), **settings)
"""


def started(code: str, *arguments: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "LOGURU_LEVEL": "ERROR",
            "PYTHONWARNINGS": "ignore:This process:DeprecationWarning",
        },
    )


def said(process: "subprocess.Popen[str]") -> list[str]:
    """The lines that it prints to its good end."""
    out, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


def kept(backend: str, path: Path) -> Counter[str]:
    """How many rows each invocation has, once a router has opened the ledger and taken in what waits."""
    store = STORES[backend](path)
    with ProviderRouter([PROVIDER], metrics_store=store) as router:
        assert router.flush()
        rows = store.query_recent(since=LONG_AGO)
    store.close()
    assert len({row.attempt_id for row in rows}) == len(rows)
    return Counter(row.invocation_id for row in rows)


WRITES_UNTIL_KILLED = """
router = router_of(ledger={"durability": sys.argv[3]}, pool={"max_workers": 32})
# The file is made, and the driver imported, before the race.
router.invoke(call)
assert router.flush()

def calls():
    for number in count(1):
        future = router.submit(call)
        future.result(30)
        # Shorter than a pipe's atomic write.
        os.write(1, f"{future.report().invocation_id} {time.monotonic()}\\n".encode())
        if sys.argv[3] == "batched" and number % 25 == 0:
            # Some 5,000 a second of all together.
            time.sleep(0.02)

for _ in range(32 if sys.argv[3] == "committed" else 4):
    threading.Thread(target=calls, daemon=True).start()
signal.pause()
"""


def killed(
    backend: str, path: Path, durability: str, after: int, by: signal.Signals = signal.SIGKILL
) -> list[tuple[str, float]]:
    """Whom a process told that their calls had ended, and when, until it was killed."""
    process = started(WRITES_UNTIL_KILLED, backend, path, durability)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(after)]
    process.send_signal(by)
    lines += process.stdout.readlines()
    process.communicate()
    assert process.returncode == -by
    told = [line.split() for line in lines if line.endswith("\n")]
    return [(invocation, float(at)) for invocation, at in told]


@pytest.mark.parametrize("backend", STORES)
def test_a_call_that_ended_has_its_row_where_its_process_is_killed_and_commits_are_waited_for(
    backend: str, tmp_path: Path
) -> None:
    path, told = tmp_path / "ledger", []
    for kill in range(KILLS):
        told += killed(backend, path, "committed", after=300 + 100 * kill)
        assert kept(backend, path) >= Counter(invocation for invocation, _ in told)


@pytest.mark.parametrize("backend", STORES)
def test_a_killed_process_loses_no_more_than_the_rows_of_its_last_moment(
    backend: str, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    path, lost_seconds = tmp_path / "ledger", []
    for kill in range(KILLS):
        told = killed(backend, path, "batched", after=1_500 + 300 * kill)
        rows = kept(backend, path)
        end = max(at for _, at in told)
        missing = [at for invocation, at in told if not rows[invocation]]
        lost_seconds.append(max((end - at for at in missing), default=0.0))
        # What is missing is of the end, however slow the machine is.
        assert not {invocation for invocation, _ in told[:500]} - rows.keys()
    measured(
        f"kill -9, {backend}, batched: rows missing of the last {max(lost_seconds) * 1e3:.0f} ms at most"
    )


CALLS = 500

ONE_OF_FOUR = f"""
with router_of() as router:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range({CALLS}):
        future = router.submit(call)
        future.result(30)
        print(future.report().invocation_id)
"""


#: A router that is told of no store.
BY_DEFAULT = """
def router_of():
    provider = {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}
    return ProviderRouter([provider], adapter_factory=lambda config: Answers())
"""


@pytest.mark.parametrize(
    ("code", "ledger"),
    [(ONE_OF_FOUR, "ledger"), (BY_DEFAULT + ONE_OF_FOUR, ".turnout/metrics.duckdb")],
    ids=["one path", "the default"],
)
def test_four_processes_with_one_duckdb_file_lose_no_row(
    code: str, ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ledger
    processes = [started(code, "duckdb", tmp_path / "ledger") for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [line for process in processes for line in said(process)]
    assert len(told) == 4 * CALLS
    assert kept("duckdb", path) == Counter(told)
    assert not list(path.with_name(f"{path.name}.spool").glob("*.*"))
    assert {*tmp_path.iterdir()} <= {path.parent, *tmp_path.glob("ledger*")}


FORKS = """
router = router_of()
told = []
stop = threading.Event()

def calls():
    while not stop.is_set():
        future = router.submit(call)
        future.result(30)
        told.append(future.report().invocation_id)

threads = [threading.Thread(target=calls) for _ in range(4)]
for thread in threads:
    thread.start()
read, write = os.pipe()
children = []
for number in range(8):
    pid = os.fork()
    if pid == 0:
        signal.alarm(40)
        told = []
        for _ in range(200):
            future = router.submit(call)
            future.result(30)
            told.append(future.report().invocation_id)
        with open(write, "w") as pipe:
            pipe.write("".join(f"{one}\\n" for one in told))
        # As a child ends that has something to flush.
        if number % 2:
            router.close()
            os._exit(0)
        sys.exit(0)
    children.append(pid)
os.close(write)
with open(read) as pipe:
    from_children = pipe.read().split()
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
stop.set()
for thread in threads:
    thread.join(30)
router.close()
print(*codes)
print(len(from_children))
print("\\n".join(told + from_children))
"""


@pytest.mark.parametrize("backend", STORES)
def test_a_router_that_forks_under_load_loses_no_row_of_parent_or_children(
    backend: str, tmp_path: Path
) -> None:
    path = tmp_path / "ledger"
    codes, from_children, *told = said(started(FORKS, backend, path))
    assert (codes, from_children) == ("0 0 0 0 0 0 0 0", "1600")
    assert kept(backend, path) == Counter(told)


FULL_DISK = """
# What the system refuses past this size, as it would on a full disk.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
warned = []
from loguru import logger
logger.remove()
logger.add(lambda message: warned.append(message.record["message"]), level="WARNING")
router = router_of(ledger={"max_rows": 1_000, "batch_rows": 100})
router.invoke(call)
assert router.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
for _ in range(5_000):
    assert router.invoke(call) == "answer"
    if _ % 500 == 0:
        router.flush()
full = router.stats().ledger
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
while router.stats().ledger.waiting or not router.flush():
    time.sleep(0.05)
end = router.stats().ledger
router.close()
print(full.dropped > 0, full.waiting <= 1_100, full.failing is not None)
print(end.failing, end.dropped)
print(sum("files either" in one for one in warned), sum("further ones are dropped" in one for one in warned))
"""


@pytest.mark.parametrize("backend", STORES)
def test_a_full_disk_is_survived_counted_and_warned_of_once(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    full, end, warned = said(started(FULL_DISK, backend, path))
    assert (full, warned) == ("True True True", "1 1")
    failing, dropped = end.split()
    assert failing == "None"
    assert kept(backend, path).total() == 5_001 - int(dropped)


HUNDRED_THOUSAND = """
class Away(MemoryMetricsStore):
    def record_attempts(self, rows):
        raise StorageError("away")

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024 // 1024
store = lambda path: Away()
router = router_of()
router.invoke(call)
before = resident()
while router.stats().ledger.waiting < 100_000:
    for _ in range(1_000):
        router.invoke(call)
print(resident() - before)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory is read from /proc, which Linux has"
)
def test_a_hundred_thousand_rows_that_wait_take_less_than_a_hundred_megabytes(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    (megabytes,) = said(started(HUNDRED_THOUSAND, "sqlite", tmp_path / "unused"))
    measured(f"100,000 waiting rows: {megabytes} MB")
    assert int(megabytes) < 100
