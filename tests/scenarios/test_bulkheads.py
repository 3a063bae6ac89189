"""Default shares: no provider has more than half of the workers where others need them."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import DeadlineExceededError, Fault
from turnout.invocation import Progress
from turnout.runtime.steps import TakeLane
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters

WAIT = 30.0


class Gate:
    """A provider whose calls arrive, and go on when it is opened."""

    def __init__(self) -> None:
        self.arrived: SimpleQueue[None] = SimpleQueue()
        self.opened = threading.Event()

    def __call__(self, call: Any) -> str:
        self.arrived.put(None)
        assert self.opened.wait(WAIT)
        return f"answer of {call.provider_id}"

    def wait_for(self, calls: int) -> None:
        for _ in range(calls):
            self.arrived.get(timeout=WAIT)


def provider(name: str, **settings: Any) -> dict[str, Any]:
    known = {"provider_id": name, "name": name, "protocol": "openai_chat", "model": "m", "api_key": "k"}
    return known | settings


def in_line(router: Any, calls: int) -> None:
    """Wait until so many calls stand in line."""
    while router.stats().in_line != calls:
        threading.Event().wait(0.001)


def test_while_one_provider_hangs_the_other_serves_with_the_other_half_of_the_workers(rig: Any) -> None:
    gate, together = Gate(), threading.Barrier(4)

    def meet(call: Any) -> str:
        together.wait(WAIT)
        return "answer of b"

    adapters = ScriptedAdapters({"a": [gate], "b": [meet]})
    router = rig.scripted(adapters, "ab", policy="preference", pool={"max_workers": 8})
    hanging = [router.submit(rig.chat()) for _ in range(4)]
    gate.wait_for(4)

    served = [router.submit(rig.chat()) for _ in range(40)]

    assert [future.result(WAIT) for future in served] == ["answer of b"] * 40
    assert not any(future.done() for future in hanging)
    gate.opened.set()
    assert [future.result(WAIT) for future in hanging] == ["answer of a"] * 4


def test_where_every_share_is_taken_calls_stand_in_line_without_a_thread(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate], "b": [gate]}), "ab", pool={"max_workers": 5})
    futures = [router.submit(rig.chat()) for _ in range(10)]
    gate.wait_for(4)

    # The fifth worker puts all the others into the lines.
    in_line(router, 6)
    assert router.stats().lines == {"a": 6, "b": 6}
    assert router.stats().queued == 0
    with pytest.raises(DeadlineExceededError, match=r"room at .*a.* or .*b"):
        router.submit(rig.chat(), timeout=0.05).result(WAIT)

    gate.opened.set()
    assert not wait(futures, WAIT).not_done
    assert (router.stats().in_line, router.stats().lines) == (0, {"a": 0, "b": 0})


@pytest.mark.parametrize("beside", [[], [{"enabled": False}]], ids=["alone", "beside a disabled one"])
def test_a_provider_without_another_has_the_whole_pool(rig: Any, beside: list[dict[str, Any]]) -> None:
    gate = Gate()
    providers = [provider("a"), *(provider("b", **settings) for settings in beside)]
    router = rig.router(providers, adapter_factory=ScriptedAdapters({"a": [gate]}), pool={"max_workers": 4})

    futures = [router.submit(rig.chat()) for _ in range(4)]

    gate.wait_for(4)
    gate.opened.set()
    assert not wait(futures, WAIT).not_done


def test_a_provider_with_a_bound_of_its_own_has_no_share(rig: Any) -> None:
    gate = Gate()
    router = rig.router(
        [provider("a", max_concurrency=4), provider("b")],
        adapter_factory=ScriptedAdapters({"a": [gate], "b": ["answer of b"]}),
        policy="preference",
        pool={"max_workers": 4},
    )
    futures = [router.submit(rig.chat()) for _ in range(4)]
    gate.wait_for(4)

    # It bounds callers who bring a thread of their own, too.
    assert router.invoke(rig.chat()) == "answer of b"

    gate.opened.set()
    assert not wait(futures, WAIT).not_done


def test_a_caller_who_brings_a_thread_is_not_bounded_by_the_share(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(
        ScriptedAdapters({"a": [gate], "b": ["answer of b"]}),
        "ab",
        policy="preference",
        pool={"max_workers": 2},
    )
    worker = router.submit(rig.chat())
    gate.wait_for(1)

    with ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(router.invoke, rig.chat()) for _ in range(6)]
        gate.wait_for(6)
        assert router.submit(rig.chat()).result(WAIT) == "answer of b"
        gate.opened.set()

    assert [answer.result() for answer in answers] == ["answer of a"] * 6
    assert worker.result(WAIT) == "answer of a"


def test_a_submitted_call_takes_of_the_share_also_where_its_waiter_makes_it(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(
        ScriptedAdapters({"a": [gate], "b": ["answer of b"]}),
        "ab",
        policy="preference",
        pool={"max_workers": 2},
    )
    hangs = router.submit(rig.chat())
    gate.wait_for(1)

    with ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(lambda: router.submit(rig.chat()).result()) for _ in range(6)]
        assert [answer.result(WAIT) for answer in answers] == ["answer of b"] * 6
    assert not hangs.done()
    gate.opened.set()
    assert hangs.result(WAIT) == "answer of a"


def test_calls_within_calls_on_one_thread_never_wait_for_what_it_has_itself(rig: Any) -> None:
    depth = iter(range(3))

    def within(call: Any) -> Any:
        return "leaf" if next(depth, None) is None else router.submit(rig.chat()).result()

    router = rig.scripted(
        ScriptedAdapters({name: [within] for name in "ab"}),
        "ab",
        pool={"max_workers": 2},
        health={"failure_threshold": 99},
    )
    assert router.invoke(rig.chat()) == "leaf"


def test_an_adapter_that_waits_on_a_worker_for_its_own_router_is_told_so_and_benches_nobody(rig: Any) -> None:
    gate = Gate()

    def within(call: Any) -> Any:
        return router.submit(rig.chat()).result()

    router = rig.scripted(
        ScriptedAdapters({"a": [within], "b": [gate]}),
        "ab",
        policy="preference",
        pool={"max_workers": 3},
    )
    answer = router.submit(rig.chat())
    # The call within the call has come to the next, and the call itself stands in line behind it.
    gate.wait_for(1)
    in_line(router, 1)
    gate.opened.set()
    assert answer.result(WAIT) == "answer of b"
    (failed, _) = answer.report().attempts
    assert (failed.by.name, failed.fault) == ("a", Fault.UNKNOWN)
    assert router.health_report()["a"].consecutive_failures == 0


def test_a_call_within_a_call_of_another_router_keeps_to_its_share(rig: Any) -> None:
    gate = Gate()
    inner = rig.scripted(
        ScriptedAdapters({"a": [gate], "b": [gate]}), "ab", policy="preference", pool={"max_workers": 2}
    )
    outer = rig.scripted(ScriptedAdapters({"a": [lambda call: inner.submit(rig.chat()).result()]}), "a")
    answers = [outer.submit(rig.chat()) for _ in range(6)]
    gate.wait_for(2)
    in_line(inner, 4)
    assert gate.arrived.empty()
    gate.opened.set()
    assert {answer.result(WAIT) for answer in answers} <= {"answer of a", "answer of b"}


def test_who_waits_for_room_waits_where_its_attempts_take_it(rig: Any) -> None:
    router = rig.router(
        [provider(name, min_interval_seconds=60) for name in "ab"],
        adapter_factory=ScriptedAdapters({"a": ["a"], "b": ["b"]}),
        clock=ManualClock(),
    )
    for _ in "ab":
        router.invoke(rig.chat())
    plant = router._engine.plant
    targets = plant.execution.eligibility.targets

    def waits_at(*, pooled: bool) -> Any:
        future = router.submit(rig.chat())
        future.cancel()
        progress = Progress(future._progress.invocation)
        progress.pooled = pooled
        walk = plant.execution.walk(progress)
        step = next(walk)
        assert isinstance(step, TakeLane)
        walk.close()
        return {id(lane) for lane in step.lanes}

    assert waits_at(pooled=True) == {id(target.pooled_lane) for target in targets}
    assert waits_at(pooled=False) == {id(target.lane) for target in targets}


def test_shares_grow_and_shrink_with_the_pool(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(
        ScriptedAdapters({"a": [gate], "b": [gate]}), "ab", policy="preference", pool={"max_workers": 2}
    )
    targets = router._engine.plant.execution.eligibility.targets
    futures = [router.submit(rig.chat()) for _ in range(12)]
    gate.wait_for(2)

    router.resize(9)
    gate.wait_for(6)
    in_line(router, 4)
    assert [target.pooled_lane.width for target in targets] == [4, 4]

    router.resize(1)
    assert [target.pooled_lane.width for target in targets] == [1, 1]
    gate.opened.set()
    assert not wait(futures, WAIT).not_done
    assert [target.pooled_lane.free for target in targets] == [1, 1]


def test_a_single_worker_is_every_providers_share(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"], "b": ["b"]}), "ab", pool={"max_workers": 1})

    answers = [router.submit(rig.chat()).result(WAIT) for _ in range(4)]

    assert sorted(answers) == ["a", "a", "b", "b"]


def test_a_stream_in_its_readers_hands_occupies_no_share(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [["x", FINISHED]], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab", policy="preference", pool={"max_workers": 2})

    streams = [router.submit(rig.chat(stream=True)).result(WAIT) for _ in range(8)]

    assert [list(stream) for stream in streams] == [["x"]] * 8


def test_a_call_that_is_awaited_occupies_no_share_and_its_failover_does(rig: Any) -> None:
    awaited, gate = Gate(), Gate()
    release: SimpleQueue[Any] = SimpleQueue()

    async def hangs(call: Any) -> str:
        opened = asyncio.Event()
        release.put((asyncio.get_running_loop(), opened))
        awaited.arrived.put(None)
        await opened.wait()
        raise TimeoutError

    router = rig.scripted(
        ScriptedAdapters({"a": [hangs], "b": [gate]}), "ab", policy="preference", pool={"max_workers": 3}
    )
    futures = [router.submit(rig.chat()) for _ in range(4)]
    awaited.wait_for(4)

    for _ in range(4):
        loop, opened = release.get(timeout=WAIT)
        loop.call_soon_threadsafe(opened.set)
    gate.wait_for(1)
    in_line(router, 3)

    gate.opened.set()
    assert [future.result(WAIT) for future in futures] == ["answer of b"] * 4
