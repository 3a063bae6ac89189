"""Orders by load, through a router: what is in flight counts, streams until their end."""

import threading
from typing import Any

from turnout import LeastLoadedPolicy, ScoreBasedPolicy, StickyRoutingPolicy
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters, ScriptedCall

WAIT_SECONDS = 20.0


class Held:
    """An answer that comes when the test lets it."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.released = threading.Event()

    def __call__(self, call: ScriptedCall) -> str:
        self.asked.release()
        assert self.released.wait(WAIT_SECONDS)
        return call.provider_id


def in_flight(router: Any) -> list[int]:
    return [len(target.in_flight) for target in router._engine.plant.bulkheads.targets]


def test_calls_go_to_who_has_less_in_flight(rig: Any) -> None:
    held = Held()
    router = rig.scripted(ScriptedAdapters({"a": [held], "b": [held]}), "ab", policy="least_loaded")
    futures = []
    for _ in range(6):
        futures.append(router.submit(rig.chat()))
        # Once it is under way.
        assert held.asked.acquire(timeout=WAIT_SECONDS)
    assert in_flight(router) == [3, 3]
    held.released.set()
    for future in futures:
        future.result(WAIT_SECONDS)
    assert in_flight(router) == [0, 0]


def test_a_stream_counts_until_its_end(rig: Any) -> None:
    adapters = ScriptedAdapters({name: [["1", "2", FINISHED]] for name in "ab"})
    router = rig.scripted(adapters, "ab", policy=LeastLoadedPolicy(clock=ManualClock()))
    streams = []
    for _ in range(4):
        stream = router.invoke(rig.chat(stream=True))
        next(stream)
        streams.append(stream)
    assert in_flight(router) == [2, 2]
    for stream in streams[:2]:
        list(stream)
    for stream in streams[2:]:
        stream.close()
    assert in_flight(router) == [0, 0]


def test_failures_are_in_flight_no_more(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [ConnectionError("down")], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy="least_loaded")
    for _ in range(5):
        assert router.invoke(rig.chat()) == "b"
    assert in_flight(router) == [0, 0]


def test_load_breaks_the_ties_of_scores_behind_a_preference(rig: Any) -> None:
    held = Held()
    adapters = ScriptedAdapters({"a": [ConnectionError("down")], "b": [held], "c": [held]})
    policy = StickyRoutingPolicy(["a"], ScoreBasedPolicy(tie_break_policy=LeastLoadedPolicy()))
    router = rig.scripted(adapters, "abc", policy=policy)
    futures = []
    for _ in range(4):
        futures.append(router.submit(rig.chat()))
        assert held.asked.acquire(timeout=WAIT_SECONDS)
    assert in_flight(router) == [0, 2, 2]
    held.released.set()
    assert sorted(future.result(WAIT_SECONDS) for future in futures) == ["b", "b", "c", "c"]


def test_nothing_is_counted_for_a_policy_that_does_not_ask(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")
    assert [target.in_flight for target in router._engine.plant.bulkheads.targets] == [None]
