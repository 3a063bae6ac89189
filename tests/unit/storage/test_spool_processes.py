"""A spool whose process is killed, forks, finds the disk full, or has company. Real processes, real limits."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.rows import Row
from turnout.storage.spool import Spool

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

COMMON = """
import os, sys, threading
from datetime import UTC, datetime
from turnout.errors import StorageError
from turnout.storage.rows import Row
from turnout.storage.spool import Spool

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
folder = sys.argv[1]

def row(number):
    identity = f"01900000-0000-7000-8000-{number:012x}"
    known = (identity, identity, 1, "primary", NOON, "scope", "a", "A", None, None, "regular", True, "ok")
    return Row(*known, None, None, 1.0, 1.0, 0.0, None, None, None, None, "unknown", None, None)

def rows(first, last):
    return [row(number) for number in range(first, last + 1)]

def taken():
    found = []
    Spool(folder).taken_in(found.extend)
    return found
"""

APPENDS_UNTIL_KILLED = """
spool = Spool(folder, file_bytes=20_000)
for first in range(1, 10**9, 3):
    spool.append(rows(first, first + 2), durable=first % 2 == 0)
    sys.stdout.write(f"{first + 2}\\n")
    sys.stdout.flush()
"""

FULL_AND_FREE_AGAIN = """
import resource
spool = Spool(folder)
spool.append(rows(1, 2))
(file,) = (os.path.join(folder, name) for name in os.listdir(folder))
size = os.stat(file).st_size
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

def limited(bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, hard))

# No room for a whole row, for the first row of a new file, for anything.
for room in (size + 100, 900, 10, 0):
    limited(room)
    for durable in (False, True):
        try:
            spool.append(rows(3, 40), durable=durable)
        except StorageError as error:
            assert folder in str(error) and "make room" in str(error), error
        else:
            raise AssertionError("the system took what it cannot have taken")
    kept = [os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder)]
    assert kept == [size], kept

# What fits is taken, though more was refused.
limited(size)
spool.append(rows(3, 3))
limited(soft)
spool.append(rows(4, 40))
spool.close()
assert taken() == rows(1, 40)
"""

CHILD_HAS_A_FILE_OF_ITS_OWN = """
spool = Spool(folder)
spool.append(rows(1, 1))
for forgets in (True, False):
    pid = os.fork()
    if not pid:
        if forgets:
            spool.forget_parent()
        spool.taken_in(lambda _: os._exit(7))
        spool.append(rows(2, 2))
        spool.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    # Had the child sealed, deleted or unlocked the parent's file, it would be gone, or be taken here.
    assert taken() == rows(2, 2)
spool.append(rows(3, 3))
spool.close()
assert taken() == [row(1), row(3)]
"""

CHILD_THAT_NEVER_LOOKS = """
spool = Spool(folder)
spool.append(rows(1, 1))
wait, go = os.pipe()
pid = os.fork()
if not pid:
    os.close(go)
    os.read(wait, 1)
    os._exit(0)
# What the parent sealed it gives over, whoever shares its lock.
spool.seal()
assert taken() == rows(1, 1)
os.close(go)
os.waitpid(pid, 0)

spool.append(rows(2, 2))
wait, go = os.pipe()
pid = os.fork()
if not pid:
    os.close(go)
    os.read(wait, 1)
    os._exit(0)
# As if the parent were killed: the child keeps its lock alive, which delays the rows and loses none.
spool.forget_parent()
assert taken() == []
assert not spool.is_empty
os.close(go)
os.waitpid(pid, 0)
assert taken() == rows(2, 2)
"""

CHILD_FORKED_WHILE_ROWS_ARE_TAKEN_IN = """
spool = Spool(folder)
spool.append(rows(1, 2))
wait, go = os.pipe()

def write(_):
    if not os.fork():
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
    raise StorageError("gone")

try:
    spool.taken_in(write)
except StorageError:
    pass
assert taken() == rows(1, 2)
os.close(go)
os.wait()
"""

FORKS_WHILE_IT_APPENDS = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
spool = Spool(folder, file_bytes=3_000)
end = threading.Event()
count = 0

def append():
    global count
    while not end.is_set():
        spool.append([row(count + 1)])
        count += 1

thread = threading.Thread(target=append)
thread.start()
children = []
for child in range(8):
    pid = os.fork()
    if not pid:
        spool.forget_parent()
        for number in range(10):
            spool.append([row(10**6 * (child + 1) + number)])
        # As after a kill: nothing is sealed.
        os._exit(0)
    children.append(pid)
assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 8
end.set()
thread.join()
spool.close()
found = [int(each.attempt_id[-12:], 16) for each in taken()]
wanted = [10**6 * (child + 1) + number for child in range(8) for number in range(10)]
assert sorted(found) == sorted([*range(1, count + 1), *wanted]), (len(found), count)
"""


def python(script: str, folder: Path) -> list[str]:
    return [sys.executable, "-W", "error", "-c", COMMON + script, str(folder)]


def a_row(number: int) -> Row:
    identity = f"01900000-0000-7000-8000-{number:012x}"
    head = (identity, identity, 1, "primary", NOON, "scope", "a", "A", None, None, "regular", True, "ok")
    return Row(*head, None, None, 1.0, 1.0, 0.0, None, None, None, None, "unknown", None, None)


def number_of(row: Row) -> int:
    return int(row.attempt_id[-12:], 16)


@pytest.mark.parametrize("acknowledged", [1, 40, 400])
def test_rows_that_were_acknowledged_survive_a_kill(acknowledged: int, tmp_path: Path) -> None:
    with subprocess.Popen(python(APPENDS_UNTIL_KILLED, tmp_path / "s"), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(acknowledged)]
        # Its rows are its own while it lives.
        process.send_signal(signal.SIGSTOP)
        spool, store, found = Spool(tmp_path / "s"), MemoryMetricsStore(), list[int]()

        def write(rows: Sequence[Row]) -> None:
            store.record_attempts(rows)
            found.extend(map(number_of, rows))

        spool.taken_in(write)
        assert not spool.is_empty
        process.kill()
        told += map(int, process.stdout.read().split())
    assert process.returncode == -signal.SIGKILL

    assert spool.taken_in(write).damaged_lines == 0
    assert found == list(range(1, len(found) + 1))
    assert told[-1] <= len(found) <= told[-1] + 3
    assert list((tmp_path / "s").iterdir()) == []


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(FULL_AND_FREE_AGAIN, id="a full disk refuses whole batches, and takes rows again later"),
        pytest.param(CHILD_HAS_A_FILE_OF_ITS_OWN, id="a forked child appends"),
        pytest.param(CHILD_THAT_NEVER_LOOKS, id="a forked child holds what it inherited"),
        pytest.param(CHILD_FORKED_WHILE_ROWS_ARE_TAKEN_IN, id="a child is forked while rows are taken in"),
        pytest.param(FORKS_WHILE_IT_APPENDS, id="a process forks while it appends, and its children append"),
    ],
)
def test_no_row_that_was_taken_is_lost_where(case: str, tmp_path: Path) -> None:
    done = subprocess.run(
        python(case, tmp_path / "spool"), check=False, capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_several_append_while_others_take_in_and_every_row_comes_once(tmp_path: Path) -> None:
    folder, each, ended = tmp_path / "spool", 300, threading.Event()
    found: list[list[int]] = [[], [], []]

    def appends(part: int) -> None:
        spool = Spool(folder, file_bytes=2_000)
        for number in range(each):
            spool.append([a_row(part * each + number)])
        spool.close()

    def takes(mine: list[int]) -> None:
        spool = Spool(folder)
        while not ended.is_set():
            spool.taken_in(lambda rows: mine.extend(map(number_of, rows)))

    appenders = [threading.Thread(target=appends, args=(part,)) for part in range(3)]
    takers = [threading.Thread(target=takes, args=(mine,)) for mine in found]
    for thread in [*appenders, *takers]:
        thread.start()
    for thread in appenders:
        thread.join(30)
    ended.set()
    for thread in takers:
        thread.join(30)
    Spool(folder).taken_in(lambda rows: found[0].extend(map(number_of, rows)))
    assert sorted(number for mine in found for number in mine) == list(range(3 * each))


@pytest.mark.slow
def test_a_hundred_thousand_rows_wait_and_come_back(tmp_path: Path, measured: Callable[[str], None]) -> None:
    rows = [a_row(number) for number in range(100_000)]
    spool, store = Spool(tmp_path / "spool", file_bytes=8_000_000), MemoryMetricsStore()
    for start in range(0, 100_000, 2_000):
        spool.append(rows[start : start + 2_000])
    size = sum(path.stat().st_size for path in (tmp_path / "spool").iterdir())
    assert spool.taken_in(store.record_attempts).rows == 100_000
    assert store.query_recent(since=rows[0].started_at) == rows
    assert spool.is_empty
    measured(f"100,000 spooled rows: {size / 1e6:.0f} MB")
