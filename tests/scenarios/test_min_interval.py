"""``min_interval_seconds``: how soon after one another attempts at one provider begin, whoever makes them."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import DeadlineExceededError
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters

WAIT = 30.0


def routed(rig: Any, scripts: dict[str, Sequence[Any]], *, paced: str = "a", **settings: Any) -> Any:
    """A router over the providers of ``scripts``, in their order; those in ``paced`` begin one attempt in 10 s."""
    return rig.router(
        [
            {
                "provider_id": name,
                "name": name,
                "protocol": "openai_chat",
                "model": "m",
                "api_key": "k",
                "min_interval_seconds": 10.0 if name in paced else 0,
            }
            for name in scripts
        ],
        adapter_factory=ScriptedAdapters(scripts),
        policy="preference",
        **settings,
    )


def in_line(router: Any, calls: int) -> None:
    while router.stats().in_line != calls:
        threading.Event().wait(0.001)


def test_callers_together_are_held_to_the_interval_workers_and_others_alike(rig: Any) -> None:
    clock = ManualClock()
    began: SimpleQueue[float] = SimpleQueue()
    router = routed(rig, {"a": [lambda call: began.put(clock.monotonic())]}, clock=clock)

    with ThreadPoolExecutor(4) as threads:
        own = [threads.submit(router.invoke, rig.chat()) for _ in range(4)]
        futures = [router.submit(rig.chat()) for _ in range(4)]
        # By little: one that is served just before an advance may begin after it.
        while wait([*own, *futures], 0.02).not_done:
            clock.advance(1.0)

    instants = [began.get_nowait() for _ in range(8)]
    assert all(after - before >= 10.0 for before, after in pairwise(instants))


def test_calls_that_wait_for_their_time_hold_no_worker_and_keep_their_order(rig: Any) -> None:
    clock = ManualClock()
    said: list[str] = []

    def says(call: Any) -> None:
        said.append(call.arguments["messages"][0]["content"])

    router = routed(rig, {"a": [says]}, clock=clock, pool={"max_workers": 1})
    futures = []
    for number in range(4):
        futures.append(router.submit(rig.chat(str(number))))
        in_line(router, number)

    for future in futures:
        future.result(WAIT)
        clock.advance(10.0)

    assert said == ["0", "1", "2", "3"]


def test_a_provider_whose_time_has_not_come_is_passed_over_for_one_that_is_free(rig: Any) -> None:
    clock = ManualClock()
    router = routed(rig, {"a": ["a"], "b": ["b"]}, clock=clock)

    answers = [router.invoke(rig.chat()) for _ in range(3)]
    clock.advance(9.9)
    answers.append(router.invoke(rig.chat()))
    clock.advance(0.1)
    answers.append(router.invoke(rig.chat()))

    assert answers == ["a", "b", "b", "b", "a"]


def test_of_several_that_are_waited_for_the_first_to_be_free_serves(rig: Any) -> None:
    clock = ManualClock()
    router = routed(rig, {"a": ["a"], "b": ["b"]}, paced="ab", clock=clock)
    assert router.invoke(rig.chat()) == "a"
    clock.advance(4.0)
    assert router.invoke(rig.chat()) == "b"

    first, second = router.submit(rig.chat()), router.submit(rig.chat())
    in_line(router, 2)
    clock.advance(6.0)
    in_line(router, 1)
    clock.advance(4.0)

    assert sorted([first.result(WAIT), second.result(WAIT)]) == ["a", "b"]
    assert [router.stats().lines[name] for name in "ab"] == [0, 0]


def test_who_cannot_wait_so_long_is_told_within_the_deadline(rig: Any) -> None:
    clock = ManualClock()
    router = routed(rig, {"a": ["a"]}, clock=clock)
    assert router.invoke(rig.chat()) == "a"

    late = router.submit(rig.chat(), timeout=5.0)
    in_line(router, 1)
    clock.advance(5.0)
    with pytest.raises(DeadlineExceededError, match="room at"):
        late.result(WAIT)

    # It has cost no slot.
    clock.advance(5.0)
    assert router.invoke(rig.chat()) == "a"


def test_a_call_that_is_cancelled_while_it_waits_leaves_its_turn_to_the_next(rig: Any) -> None:
    clock = ManualClock()
    router = routed(rig, {"a": ["a"]}, clock=clock)
    router.invoke(rig.chat())
    gone, stays = router.submit(rig.chat()), router.submit(rig.chat())
    in_line(router, 2)

    assert gone.cancel()
    in_line(router, 1)
    clock.advance(10.0)

    assert stays.result(WAIT) == "a"


def test_a_stream_that_starts_over_after_close_still_waits_for_its_time(rig: Any) -> None:
    clock = ManualClock()
    scripts: dict[str, Sequence[Any]] = {"a": [["x", ConnectionError()]], "b": [["y", FINISHED]]}
    router = routed(rig, scripts, paced="b", clock=clock)
    target = router._engine.plant.execution.eligibility.targets[1]
    target.pace.begun(clock.monotonic(), target.lane.try_take())
    chunks: list[Any] = []
    stream = router.invoke(rig.chat(stream=True), on_restart=lambda restart: chunks.clear())
    chunks.append(next(stream))
    router.close()

    reader = threading.Thread(target=lambda: chunks.extend(stream))
    reader.start()
    in_line(router, 1)
    clock.advance(10.0)
    reader.join(WAIT)

    assert not reader.is_alive()
    assert chunks == ["y"]
