"""Children of ``multiprocessing`` end as any process does: calls in flight come to their end, and rows are written."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnout import SQLiteMetricsStore

pytestmark = pytest.mark.slow

PROGRAM = '''
import multiprocessing, sys, threading
from turnout import CallVariant, ProviderRouter, SQLiteMetricsStore
from turnout.testing import ScriptedAdapters

call = CallVariant("openai_chat", "chat.completions.create", "regular", {"messages": []})

def router_of(*answers):
    """A router whose ledger writes at its end alone."""
    return ProviderRouter(
        [{"provider_id": "p", "name": "p", "protocol": "openai_chat", "model": "m", "api_key": "k"}],
        adapter_factory=ScriptedAdapters({"p": list(answers)}),
        metrics_store=SQLiteMetricsStore(sys.argv[1]),
        ledger={"flush_seconds": 60.0},
    )

def late(call):
    """Answers once the program's own code is over."""
    threading.main_thread().join(20)
    return "answer"

def calls(inherited):
    global router
    router = inherited or router_of(*ANSWERS)
    for _ in range(5):
        router.invoke(call)
    router.submit(call)

def calls_in_a_thread(inherited):
    router = router_of("answer")

    def calls():
        late(call)
        router.invoke(call)

    threading.Thread(target=calls).start()

def drops(inherited):
    router_of("answer").invoke(call)

ANSWERS = [*["answer"] * 5, late]

if __name__ == "__main__":
    method, target = sys.argv[2:]
    shared = router_of(*ANSWERS) if method == "fork" and target == "calls" else None
    child = multiprocessing.get_context(method).Process(target=globals()[target], args=(shared,))
    child.start()
    child.join(40)
    sys.exit(child.exitcode)
'''


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize(("target", "rows"), [("calls", 6), ("calls_in_a_thread", 1), ("drops", 1)])
def test_what_a_child_process_did_is_written_before_it_ends(
    tmp_path: Path, method: str, target: str, rows: int
) -> None:
    program, path = tmp_path / "program.py", tmp_path / "metrics.sqlite"
    program.write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, str(program), str(path), method, target],
        capture_output=True,
        text=True,
        timeout=50,
        # Python 3.12 and later warn of every fork() of a process with threads.
        env={
            **os.environ,
            "LOGURU_LEVEL": "WARNING",
            "PYTHONWARNINGS": "ignore:This process:DeprecationWarning",
        },
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    store = SQLiteMetricsStore(path)
    try:
        assert len(store.query_recent(since=datetime.fromtimestamp(0, UTC))) == rows
    finally:
        store.close()
