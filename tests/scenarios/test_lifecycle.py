"""A router's life: closing, resizing, a full queue, and calls back into it."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import (
    ConfigError,
    DeadlineExceededError,
    PreferencePolicy,
    ReentrantCallError,
    RouterBusyError,
    RouterClosedError,
    StreamRestart,
)
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Cut, Ending, Silence

LONG_AGO = datetime.fromtimestamp(0, UTC)


class Gate:
    """A provider whose calls arrive, and go on when it is opened."""

    def __init__(self) -> None:
        self.arrived: SimpleQueue[str] = SimpleQueue()
        self.opened = threading.Event()

    def __call__(self, call: Any) -> str:
        said = str(call.arguments["messages"][0]["content"])
        self.arrived.put(said)
        assert self.opened.wait(30)
        return f"answer to {said}"


def refuses(router: Any) -> bool:
    """Whether the router takes no more work; waits for that, in small steps, for at most half a minute."""
    pause = threading.Event()
    for _ in range(30_000):
        try:
            router.resize(4)
        except RouterClosedError:
            return True
        pause.wait(0.001)
    return False


# closing


def test_a_closed_router_refuses_work_and_still_tells_of_health(rig: Any) -> None:
    router = rig.scripted(
        ScriptedAdapters({"a": [ConnectionError("down"), "a"]}), "a", health={"failure_threshold": 1}
    )
    client = router.client()
    with pytest.raises(Exception, match="down"):
        router.invoke(rig.chat())
    router.close()

    doors: list[Callable[[], Any]] = [
        lambda: router.invoke(rig.chat()),
        lambda: router.submit(rig.chat()),
        lambda: asyncio.run(router.ainvoke(rig.chat())),
        lambda: router.submit(rig.chat(), block=True, timeout=1.0),
        router.flush,
        lambda: router.resize(2),
        lambda: client.chat.completions.create(model="m", messages=[]),
    ]
    for door in doors:
        with pytest.raises(RouterClosedError):
            door()

    assert router.health_report()["a"].consecutive_failures == 1
    router.reset_health("a")
    assert router.health_report()["a"].consecutive_failures == 0
    assert router.stats().workers == 0


def test_closing_twice_is_closing_once(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")
    router.submit(rig.chat()).result(30)

    router.close()
    router.close(timeout=1.0)

    with pytest.raises(RouterClosedError):
        router.invoke(rig.chat())


def test_a_router_is_a_context_manager_that_closes_after_an_error_too(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")

    with contextlib.suppress(LookupError), router as entered:
        assert entered is router
        raise LookupError

    with pytest.raises(RouterClosedError):
        router.invoke(rig.chat())


def test_close_waits_for_what_was_submitted_running_and_queued(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a", pool={"max_workers": 1})
    futures = [router.submit(rig.chat(str(number))) for number in range(3)]
    assert gate.arrived.get(timeout=30) == "0"

    closer = threading.Thread(target=router.close, name="closer")
    closer.start()
    assert refuses(router)
    assert closer.is_alive()
    gate.opened.set()
    closer.join(30)

    assert not closer.is_alive()
    assert [future.result(0) for future in futures] == ["answer to 0", "answer to 1", "answer to 2"]


def test_close_with_a_timeout_cuts_what_does_not_end_in_it(rig: Any) -> None:
    sim = rig.simulate(a=Silence())
    router = rig.router(rig.providers(sim))
    future = router.submit(rig.chat())
    sim.wait_for(lambda: sim.total("a") == 1)

    router.close(timeout=0.1)

    assert future.cancelled()
    assert sim.wait_for(lambda: sim.requests("a")[0].closed_at)
    assert sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED


def test_nothing_told_before_close_is_lost(rig: Any) -> None:
    store = MemoryMetricsStore()
    adapters = ScriptedAdapters({"a": ["a"], "b": [ConnectionError("down")]})
    router = rig.scripted(
        adapters,
        "ab",
        metrics_store=store,
        health={"failure_threshold": 10_000},
        ledger={"flush_seconds": 60.0},
    )
    for _ in range(300):
        router.submit(rig.chat())

    router.close()

    rows = store.query_recent(since=LONG_AGO)
    assert len(rows) == len(adapters.calls) == 450
    assert router.stats().ledger.written == 450


def test_streams_in_callers_hands_stay_readable_after_close(rig: Any) -> None:
    store = MemoryMetricsStore()
    sim = rig.simulate(a=Answer(text="one two three", chunks=3))
    router = rig.router(rig.providers(sim), metrics_store=store)
    stream = router.invoke(rig.chat(stream=True))
    first = next(stream)

    router.close()
    assert router.stats().streams == 1
    said = [chunk.choices[0].delta.content or "" for chunk in [first, *stream]]

    assert "".join(said) == "one two three"
    assert stream.report().answered_by.provider_id == "a"
    # What it reports after the ledger's end is counted, and the client it used is closed with it.
    assert router.stats().ledger.dropped == 1
    assert router.stats().streams == 0
    assert sim.wait_for(lambda: sim.connections("a") == 0)


def test_a_stream_that_breaks_after_close_still_starts_over(rig: Any) -> None:
    told: list[StreamRestart] = []
    sim = rig.simulate(a=Cut(after_chunks=1), b=Answer(text="whole"))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy(), on_restart=told.append)
    stream = router.invoke(rig.chat(stream=True))
    next(stream)

    router.close()
    rest = list(stream)

    assert "".join(chunk.choices[0].delta.content or "" for chunk in rest[-6:]).endswith("whole")
    assert len(told) == 1
    assert router.health_report()["a"].consecutive_failures == 1


# the queue and the workers


def test_a_full_queue_refuses_and_a_caller_may_wait_for_a_place(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a", pool={"max_workers": 1, "max_queue": 1})
    running = router.submit(rig.chat("running"))
    assert gate.arrived.get(timeout=30) == "running"
    queued = router.submit(rig.chat("queued"))

    with pytest.raises(RouterBusyError, match="1 calls are waiting already"):
        router.submit(rig.chat("refused"))
    with pytest.raises(DeadlineExceededError, match="a place in the queue") as caught:
        router.submit(rig.chat("late"), block=True, timeout=0.05)
    assert isinstance(caught.value.__cause__, RouterBusyError)
    assert (router.stats().queued, router.stats().pending) == (1, 2)

    waited: SimpleQueue[Future[Any]] = SimpleQueue()
    waiter = threading.Thread(target=lambda: waited.put(router.submit(rig.chat("waited"), block=True)))
    waiter.start()
    gate.opened.set()

    futures = [running, queued, waited.get(timeout=30)]
    waiter.join(30)
    assert [future.result(30) for future in futures] == [
        "answer to running",
        "answer to queued",
        "answer to waited",
    ]


def test_the_time_in_the_queue_counts_towards_the_timeout(rig: Any) -> None:
    gate = Gate()
    clock = ManualClock()
    adapters = ScriptedAdapters({"a": [gate]})
    router = rig.scripted(adapters, "a", pool={"max_workers": 1}, clock=clock)
    router.submit(rig.chat("running"))
    assert gate.arrived.get(timeout=30) == "running"

    late = router.submit(rig.chat("late"), timeout=5.0)
    clock.advance(5.0)
    gate.opened.set()

    with pytest.raises(DeadlineExceededError):
        late.result(30)
    assert len(adapters.calls) == 1


def test_workers_may_be_more_or_fewer_while_calls_run(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a", pool={"max_workers": 1})
    futures = [router.submit(rig.chat(str(number))) for number in range(6)]
    gate.arrived.get(timeout=30)

    router.resize(4)
    for _ in range(3):
        gate.arrived.get(timeout=30)
    assert router.stats().max_workers == router.stats().workers == 4

    router.resize(1)
    assert router.stats().max_workers == 1
    gate.opened.set()
    assert not wait(futures, 30).not_done
    more = [router.submit(rig.chat(str(number))) for number in range(6, 12)]
    assert [future.result(30) for future in more] == [f"answer to {number}" for number in range(6, 12)]


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "3"])
def test_a_number_of_workers_that_cannot_be_is_refused(rig: Any, wrong: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")

    with pytest.raises(ConfigError, match="max_workers"):
        router.resize(wrong)


# calls back into the router


class Curious:
    """A policy that does what it must not: it calls the router."""

    def __init__(self) -> None:
        self.router: Any = None
        self.call: Any = None
        self.seen: list[Exception] = []

    def order(self, eligible: Any, context: Any) -> Any:
        try:
            self.router.invoke(self.call)
        except Exception as error:
            self.seen.append(error)
            raise
        return eligible


def test_a_policy_that_calls_the_router_is_refused_at_once(rig: Any, logged: Any) -> None:
    policy = Curious()
    adapters = ScriptedAdapters({"a": ["a"], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=policy)
    policy.router, policy.call = router, rig.chat("from the policy")

    answers = [router.invoke(rig.chat()), router.submit(rig.chat()).result(30)]

    # It raised, so the configured order serves; the policy's own call reached nobody.
    assert answers == ["a", "a"]
    assert [type(error) for error in policy.seen] == [ReentrantCallError, ReentrantCallError]
    assert len(adapters.calls) == 2
    assert len(logged.at("WARNING")) == 1
    assert logged.at("ERROR") == []


def test_waiting_on_a_worker_for_a_call_of_the_same_router_is_refused(rig: Any) -> None:
    futures: list[Any] = []
    seen: list[Exception] = []

    def impatient(call: Any) -> str:
        future = router.submit(rig.chat("inner"))
        futures.append(future)
        for ask in (future.result, future.exception):
            try:
                ask(30)
            except ReentrantCallError as error:
                seen.append(error)
        return "outer"

    router = rig.scripted(ScriptedAdapters({"a": [impatient, "inner"]}), "a", pool={"max_workers": 1})

    assert router.submit(rig.chat()).result(30) == "outer"
    assert futures[0].result(30) == "inner"
    assert len(seen) == 2


def test_a_done_callback_or_an_adapter_may_invoke(rig: Any) -> None:
    def nested(call: Any) -> str:
        return f"outer of {router.invoke(rig.chat())}"

    router = rig.scripted(ScriptedAdapters({"a": [nested, "inner"]}), "a", pool={"max_workers": 1})
    answers: SimpleQueue[Any] = SimpleQueue()

    future = router.submit(rig.chat())
    future.add_done_callback(lambda done: answers.put(router.invoke(rig.chat())))

    assert future.result(30) == "outer of inner"
    assert answers.get(timeout=30) == "inner"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RuntimeError("bug")])
def test_a_worker_outlives_a_callback_that_raises_anything(rig: Any, error: BaseException) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a", pool={"max_workers": 1})

    def callback(done: Any) -> None:
        raise error

    future = router.submit(rig.chat("first"))
    future.add_done_callback(callback)
    gate.opened.set()

    assert future.result(30) == "answer to first"
    assert router.submit(rig.chat("second")).result(30) == "answer to second"
    assert router.stats().workers == 1
