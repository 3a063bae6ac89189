"""SIGTERM: a program that ends by it in an orderly way keeps every row, and one that is ended by it keeps what it would
keep at a kill -9."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.scenarios.test_nothing_lost import STORES, kept, killed, said, started

pytestmark = pytest.mark.slow

ENDS_IN_ORDER = """
router = router_of(ledger={"durability": sys.argv[3], "flush_seconds": float(sys.argv[4])})
router.invoke(call)
assert router.flush()

def calls():
    try:
        while True:
            future = router.submit(call)
            future.result(30)
            os.write(1, f"{future.report().invocation_id}\\n".encode())
    except RouterClosedError:
        pass

def end(*_):
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
for _ in range(4):
    threading.Thread(target=calls, daemon=True).start()
while True:
    # Wherever that is when the signal comes.
    router.invoke(call)
"""


@pytest.mark.parametrize(("durability", "flush_seconds"), [("batched", 60.0), ("committed", 0.05)])
@pytest.mark.parametrize("backend", STORES)
def test_a_program_that_exits_normally_at_sigterm_loses_no_row(
    backend: str, durability: str, flush_seconds: float, tmp_path: Path
) -> None:
    path = tmp_path / "ledger"
    process = started(ENDS_IN_ORDER, backend, path, durability, str(flush_seconds))
    assert process.stdout is not None
    told = [process.stdout.readline().strip() for _ in range(400)]
    process.send_signal(signal.SIGTERM)
    told += said(process)
    rows = kept(backend, path)
    assert rows >= Counter(told)
    assert {*rows.values()} == {1}
    assert not list((tmp_path / "ledger.spool").glob("*.*"))


@pytest.mark.parametrize("backend", STORES)
def test_a_process_that_sigterm_ends_has_the_rows_that_it_waited_for(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    told = killed(backend, path, "committed", after=500, by=signal.SIGTERM)
    assert kept(backend, path) >= Counter(invocation for invocation, _ in told)


@pytest.mark.parametrize("backend", STORES)
def test_a_process_that_sigterm_ends_misses_rows_of_its_last_moment_alone(
    backend: str, tmp_path: Path
) -> None:
    path = tmp_path / "ledger"
    told = [invocation for invocation, _ in killed(backend, path, "batched", 2_000, signal.SIGTERM)]
    rows = kept(backend, path)
    assert rows >= Counter(told[:500])
    assert {*rows.values()} == {1}
