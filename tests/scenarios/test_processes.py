"""Processes: fork, exit with calls in flight, and Ctrl-C, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnout.testing.simulator import Answer, Ending, Silence

pytestmark = pytest.mark.slow

PREAMBLE = """
import os, signal, sys, threading, time
from pathlib import Path
from turnout import *
from turnout.testing import ScriptedAdapters
from turnout.testing.simulator import Answer, Silence, SimulatedProvider, Simulator

def provider(name, url=None, **settings):
    return ProviderConfig(provider_id=name, name=name, protocol="openai_chat", model="m", api_key="k",
                          base_url=url, **settings)

def chat(**arguments):
    call_type = CallType.STREAMING if arguments.get("stream") else CallType.REGULAR
    return CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", call_type,
                       {"messages": [{"role": "user", "content": "hi"}], **arguments})

def said(answer):
    return answer.choices[0].message.content

def in_child(work):
    # What the child prints comes first; the parent goes on once it has ended well.
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
"""


#: Python 3.12 and later warn of every fork() of a process with threads; these tests are about just that.
FORK_IS_MEANT = "ignore:This process:DeprecationWarning"


def run(code: str, *arguments: str, **environment: str) -> list[str]:
    """The lines that a fresh process prints for `code`; it must end well and say nothing on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code, *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "LOGURU_LEVEL": "CRITICAL", "PYTHONWARNINGS": FORK_IS_MEANT, **environment},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


FORK_WITHOUT_NETWORK = """
router = ProviderRouter([provider("a")], metrics_store=None, adapter_factory=ScriptedAdapters({"a": ["answer"]}))
print("parent", router.invoke(chat()), router.submit(chat()).result(20))

def work():
    print("child", router.invoke(chat()), router.submit(chat()).result(20))
    router.close()
    try:
        router.invoke(chat())
    except RouterClosedError:
        print("child closed")

in_child(work)
print("parent", router.invoke(chat()), router.submit(chat()).result(20))
router.close()
"""


def test_a_forked_child_has_threads_of_its_own_and_the_parent_keeps_its() -> None:
    assert run(FORK_WITHOUT_NETWORK) == [
        "parent answer answer",
        "child answer answer",
        "child closed",
        "parent answer answer",
    ]


FORK_OVER_HTTP = """
router = ProviderRouter([provider("a", sys.argv[1])], metrics_store=None)
silent = ProviderRouter([provider("silent", sys.argv[2])], metrics_store=None)
print("parent", said(router.invoke(chat())))
stream = router.invoke(chat(stream=True))
next(stream)
waiting = silent.submit(chat())

def work():
    print("child", said(router.invoke(chat())), said(router.submit(chat()).result(20)))
    try:
        list(stream)
    except TurnoutError as error:
        print("child", type(error).__name__)

in_child(work)
print("parent", "".join(chunk.choices[0].delta.content or "" for chunk in stream), said(router.invoke(chat())))
print("parent", waiting.cancel())
router.close()
silent.close()
"""


def test_a_forked_child_opens_connections_of_its_own_while_the_parents_are_in_use(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="hi"), silent=Silence())

    lines = run(FORK_OVER_HTTP, sim.base_url("a"), sim.base_url("silent"))

    assert lines == [
        "parent hi",
        "child hi hi",
        # The parent's open stream is the parent's: the child is told so, and touches nothing.
        "child ProviderStreamInterruptedError",
        "parent hi hi",
        "parent True",
    ]
    used = [request.connection for request in sim.requests("a")]
    assert not {*used[:2]} & {*used[2:4]}


FORK_WITH_LEDGER = """
path = sys.argv[1]
adapters = ScriptedAdapters({"a": ["answer"]})
router = ProviderRouter([provider("a")], metrics_store=DuckDBMetricsStore(path), adapter_factory=adapters)
router.invoke(chat())
assert router.flush()
ready, go_on = os.pipe(), os.pipe()

def work():
    os.read(ready[0], 1)
    print("child", router.invoke(chat()), router.submit(chat()).result(20))
    written = router.flush()
    print("child", written, router.stats().ledger.failing)

sys.stdout.flush()
pid = os.fork()
if pid == 0:
    work()
    sys.stdout.flush()
    os._exit(0)
# The parent takes its database back before the child wants it.
router.invoke(chat())
assert router.flush()
os.write(ready[1], b"x")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
router.invoke(chat())
print("parent", router.flush(), router.stats().ledger)
router.close()
"""


def test_a_forked_child_whose_ledger_is_locked_answers_and_leaves_its_rows_to_the_parent(
    tmp_path: Path,
) -> None:
    child, why, parent = run(FORK_WITH_LEDGER, str(tmp_path / "metrics.duckdb"))

    assert child == "child answer answer"
    assert why.startswith("child False ")
    assert "process" in why or "lock" in why
    assert "written=5" in parent
    # Of the child two, and of its own what came while the file was opened.
    assert int(parent.partition("taken_in=")[2].partition(",")[0]) >= 2
    assert "failing=None" in parent


EXIT_IN_FLIGHT = """
router = ProviderRouter([provider("a", sys.argv[1])], metrics_store=SQLiteMetricsStore(sys.argv[2]))
futures = [router.submit(chat()) for _ in range(5)]
stream = router.invoke(chat(stream=True))
next(stream)
print("ends")
"""


def test_an_interpreter_that_exits_with_calls_in_flight_lets_them_end_and_writes_them(
    rig: Any, tmp_path: Path
) -> None:
    import sqlite3

    sim = rig.simulate(a=Answer(latency_seconds=0.3))
    path = tmp_path / "metrics.sqlite"

    assert run(EXIT_IN_FLIGHT, sim.base_url("a"), str(path)) == ["ends"]

    assert sim.total("a") == 6
    connection = sqlite3.connect(path)
    (rows,) = connection.execute("SELECT count(*) FROM provider_attempts WHERE outcome = 'ok'").fetchone()
    connection.close()
    assert rows == 5


EXIT_IN_SILENCE = """
router = ProviderRouter([provider("a", sys.argv[1])], metrics_store=DuckDBMetricsStore(sys.argv[2]))
futures = [router.submit(chat()) for _ in range(3)]
while router.stats().queued:
    time.sleep(0.01)
print("ends")
"""


def test_an_interpreter_that_exits_in_a_silence_cuts_it_in_bounded_time(rig: Any, tmp_path: Path) -> None:
    sim = rig.simulate(a=Silence())

    assert run(EXIT_IN_SILENCE, sim.base_url("a"), str(tmp_path / "metrics.duckdb")) == ["ends"]

    sim.wait_for(lambda: all(request.closed_at for request in sim.requests("a")))
    assert {request.outcome for request in sim.requests("a")} == {Ending.CLIENT_CLOSED}


INTERRUPT = """
stream = sys.argv[1] == "stream"
with Simulator([SimulatedProvider("a", Silence()), SimulatedProvider("b")]) as sim:
    router = ProviderRouter(
        [provider("a", sim.base_url("a"), max_concurrency=1), provider("b", sim.base_url("b"))],
        policy=PreferencePolicy(), metrics_store=None,
    )
    def interrupt():
        sim.wait_for(lambda: sim.total("a") == 1, 30)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        router.invoke(chat(**({"stream": True} if stream else {})))
    except KeyboardInterrupt:
        print("interrupted")
    sim.wait_for(lambda: sim.requests("a")[0].closed_at is not None, 30)
    print(sim.requests("a")[0].outcome, sim.total("b"))
    print(router.health_report()["a"].consecutive_failures)
    # The one place at a is free again, for a call of either kind.
    sim.script("a", Answer(text="a again"))
    print(said(router.invoke(chat())), "/", said(router.submit(chat()).result(20)))
    router.close()
"""


@pytest.mark.parametrize("kind", ["regular", "stream"])
def test_an_interrupt_ends_the_call_and_leaves_no_place_taken(kind: str) -> None:
    assert run(INTERRUPT, kind) == ["interrupted", "client_closed 0", "0", "a again / a again"]


INTERRUPT_MID_STREAM = """
from turnout.testing.simulator import Stall
with Simulator([SimulatedProvider("a"), SimulatedProvider("b")]) as sim:
    router = ProviderRouter(
        [provider("a", sim.base_url("a"), max_concurrency=1), provider("b", sim.base_url("b"))],
        policy=PreferencePolicy(), metrics_store=None, on_restart=lambda restart: None,
    )
    # The SDK builds its models at the first stream, where pydantic takes an interrupt for an error of its own.
    assert len(list(router.invoke(chat(stream=True)))) > 2
    sim.script("a", Stall(after_chunks=1))
    seen = threading.Event()
    def interrupt():
        assert seen.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
    def read():
        with router.invoke(chat(stream=True)) as stream:
            for chunk in stream:
                if chunk.choices[0].delta.content:
                    seen.set()
    threading.Thread(target=interrupt).start()
    try:
        read()
    except KeyboardInterrupt:
        print("interrupted")
    sim.wait_for(lambda: sim.requests("a")[1].closed_at is not None, 30)
    print(sim.requests("a")[1].outcome, sim.total("b"), router.stats().streams)
    print(router.health_report()["a"].consecutive_failures)
    sim.script("a", Answer(text="a again"))
    print(said(router.invoke(chat())), "/", said(router.submit(chat()).result(20)))
    router.close()
"""


def test_an_interrupt_in_the_middle_of_a_stream_ends_it_and_leaves_no_place_taken() -> None:
    assert run(INTERRUPT_MID_STREAM) == ["interrupted", "client_closed 0 0", "0", "a again / a again"]


INTERRUPT_WAITING = """
gate, arrived = threading.Event(), threading.Event()
def blocked(call):
    arrived.set()
    assert gate.wait(20)
    return "first"
adapters = ScriptedAdapters({"a": [blocked, "later"]})
router = ProviderRouter([provider("a", max_concurrency=1)], metrics_store=None, adapter_factory=adapters)
first = router.submit(chat())
assert arrived.wait(20)
def interrupt():
    lane = router._engine.plant.execution.eligibility.targets[0].lane
    while not lane.waiting:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    router.invoke(chat())
except KeyboardInterrupt:
    print("interrupted")
gate.set()
print(first.result(20), router.invoke(chat()), router.submit(chat()).result(20))
print(len(adapters.calls))
router.close()
"""


def test_an_interrupt_while_waiting_for_room_leaves_the_line() -> None:
    assert run(INTERRUPT_WAITING) == ["interrupted", "first later later", "3"]
