"""Cancelling: at every stage, by future and by task, without harm to anyone."""

import asyncio
import threading
from concurrent.futures import CancelledError, as_completed
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import Outcome, PreferencePolicy, RouterExhaustedError
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import FINISHED, ScriptedAdapters, ScriptedStream
from turnout.testing.simulator import Answer, Ending, Silence, Stall, Status

LONG_AGO = datetime.fromtimestamp(0, UTC)


class Gate:
    """A provider whose calls arrive, and go on when it is opened."""

    def __init__(self, answer: Any = "answer") -> None:
        self.answer = answer
        self.arrived: SimpleQueue[None] = SimpleQueue()
        self.opened = threading.Event()

    def __call__(self, call: Any) -> Any:
        self.arrived.put(None)
        assert self.opened.wait(30)
        return self.answer


def test_a_queued_call_that_is_cancelled_reaches_no_provider(rig: Any) -> None:
    gate = Gate()
    adapters = ScriptedAdapters({"a": [gate]})
    router = rig.scripted(adapters, "a", pool={"max_workers": 1})
    running = router.submit(rig.chat())
    gate.arrived.get(timeout=30)
    queued: Any = router.submit(rig.chat())

    assert queued.cancel()

    assert queued.cancelled()
    assert [*as_completed([queued], timeout=30)] == [queued]
    with pytest.raises(CancelledError):
        queued.result(0)
    gate.opened.set()
    assert running.result(30) == "answer"
    router.close()
    assert len(adapters.calls) == 1
    assert queued.report().attempts == ()
    assert router.stats().pending == 0


def test_a_call_in_flight_that_is_cancelled_is_cut_and_goes_nowhere_else(rig: Any) -> None:
    store = MemoryMetricsStore()
    sim = rig.simulate(a=Silence(), b=Answer())
    router = rig.router(
        rig.providers(sim), policy=PreferencePolicy(), metrics_store=store, health={"failure_threshold": 1}
    )
    future = router.submit(rig.chat())
    sim.wait_for(lambda: sim.total("a") == 1)

    assert future.cancel()

    assert sim.wait_for(lambda: sim.requests("a")[0].closed_at)
    assert sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED
    with pytest.raises(CancelledError):
        future.result(0)
    router.close()
    assert sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 0
    assert [attempt.outcome for attempt in future.report().attempts] == [Outcome.IGNORED]
    (row,) = store.query_recent(since=LONG_AGO)
    assert (row.outcome, row.success) == (Outcome.IGNORED, None)


def test_a_call_that_waits_for_room_is_cancelled_and_takes_none(rig: Any) -> None:
    gate = Gate()
    adapters = ScriptedAdapters({"a": [gate]})
    sim = rig.simulate(a=Answer())
    router = rig.router([rig.provider(sim, "a", max_concurrency=1)], adapter_factory=adapters)
    running = router.submit(rig.chat())
    gate.arrived.get(timeout=30)
    waiting = [router.submit(rig.chat()) for _ in range(3)]

    assert waiting[0].cancel()
    assert waiting[2].cancel()
    gate.opened.set()

    assert running.result(30) == "answer"
    assert waiting[1].result(30) == "answer"
    assert router.invoke(rig.chat()) == "answer"
    assert len(adapters.calls) == 3


def test_a_stream_that_opens_for_a_cancelled_call_is_closed(rig: Any) -> None:
    stream = ScriptedStream(["x", FINISHED])
    gate = Gate(stream)
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a")
    future = router.submit(rig.chat(stream=True))
    gate.arrived.get(timeout=30)

    assert future.cancel()
    gate.opened.set()
    router.close()

    assert stream.closed
    assert router.stats().streams == 0
    assert router.health_report()["a"].consecutive_failures == 0


def test_an_answer_that_comes_all_the_same_is_dropped(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a")
    future = router.submit(rig.chat())
    gate.arrived.get(timeout=30)

    assert future.cancel()
    gate.opened.set()
    router.close()

    assert future.cancelled()


def test_cancelling_twice_or_too_late_is_what_the_standard_future_says(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate, "later"]}), "a")
    future = router.submit(rig.chat())
    gate.arrived.get(timeout=30)
    done = router.submit(rig.chat())
    assert done.result(30) == "later"
    said: list[bool] = []

    threads = [threading.Thread(target=lambda: said.append(future.cancel())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    gate.opened.set()

    assert said == [True] * 8
    assert not done.cancel()
    assert not done.cancelled()


def test_cancelling_and_answering_at_once_resolves_a_future_once(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")
    ends: SimpleQueue[Any] = SimpleQueue()

    for _ in range(500):
        future = router.submit(rig.chat())
        future.add_done_callback(ends.put)
        won = future.cancel()
        assert ends.get(timeout=30) is future
        assert future.cancelled() is won
        if not won:
            assert future.result(0) == "a"
    assert ends.empty()


# async callers


def test_ainvoke_gives_the_answer_the_error_or_a_stream(rig: Any) -> None:
    sim = rig.simulate(a=[Answer(text="hi"), Status(500), Answer(text="streamed")])
    router = rig.router(rig.providers(sim))

    async def calls() -> list[Any]:
        answer = await router.ainvoke(rig.chat())
        with pytest.raises(RouterExhaustedError):
            await router.ainvoke(rig.chat())
        stream = await router.ainvoke(rig.chat(stream=True))
        return [answer.choices[0].message.content, "".join(c.choices[0].delta.content or "" for c in stream)]

    assert asyncio.run(calls()) == ["hi", "streamed"]


def test_ainvoke_lets_the_loop_run_meanwhile(rig: Any) -> None:
    gates = [Gate(number) for number in range(4)]
    router = rig.scripted(ScriptedAdapters({"a": gates}), "a")

    async def calls() -> list[Any]:
        tasks = [asyncio.create_task(router.ainvoke(rig.chat())) for _ in gates]
        for gate in gates:
            await asyncio.to_thread(gate.arrived.get, timeout=30)
        for gate in gates:
            gate.opened.set()
        return sorted(await asyncio.gather(*tasks))

    assert asyncio.run(calls()) == [0, 1, 2, 3]


def test_cancelling_the_task_around_ainvoke_cuts_the_call(rig: Any) -> None:
    sim = rig.simulate(a=Silence(), b=Answer())
    router = rig.router(rig.providers(sim), policy=PreferencePolicy())

    async def cancelled() -> bool:
        task = asyncio.create_task(router.ainvoke(rig.chat()))
        await asyncio.to_thread(sim.wait_for, lambda: sim.total("a") == 1)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False

    assert asyncio.run(cancelled())
    assert sim.wait_for(lambda: sim.requests("a")[0].closed_at)
    assert sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED
    router.close()
    assert sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 0


def test_a_timeout_around_ainvoke_cuts_the_call_too(rig: Any) -> None:
    sim = rig.simulate(a=Stall(after_chunks=0))
    router = rig.router(rig.providers(sim))

    async def timed() -> None:
        async with asyncio.timeout(0.2):
            await router.ainvoke(rig.chat())

    with pytest.raises(TimeoutError):
        asyncio.run(timed())
    assert sim.wait_for(lambda: all(request.closed_at for request in sim.requests("a")))


def test_ctrl_c_between_the_claim_and_the_end_leaves_nobody_waiting(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    adapters = ScriptedAdapters({"a": [gate, "answer"]})
    router = rig.scripted(adapters, "a", pool={"max_workers": 1})
    running = router.submit(rig.chat())
    gate.arrived.get(timeout=30)
    future = router.submit(rig.chat())
    told: SimpleQueue[Any] = SimpleQueue()
    future.add_done_callback(told.put)
    end = future._end

    def interrupted(ended: Any) -> None:
        monkeypatch.setattr(future, "_end", end)
        raise KeyboardInterrupt

    monkeypatch.setattr(future, "_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        future.result()

    assert told.get(timeout=30) is future
    assert isinstance(future.exception(0), KeyboardInterrupt)
    gate.opened.set()
    assert running.result(30) == "answer"
    router.close()
    assert router.stats().pending == 0
