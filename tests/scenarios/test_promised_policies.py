"""Policies made word for word as it was promised that they can be, by each of the three ways of calling."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from tests.scenarios.test_scores import failed, row, until_ordered
from turnout import (
    HistoryScope,
    MemoryMetricsStore,
    ScoreBasedPolicy,
    ScoreWeights,
    StickyRoutingPolicy,
)
from turnout.testing import ManualClock, ScriptedAdapters

HOUR = timedelta(hours=1)
DAY = 24 * HOUR
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "submit": lambda router, call: router.submit(call).result(20),
    "invoke": lambda router, call: router.invoke(call),
    "ainvoke": lambda router, call: asyncio.run(router.ainvoke(call)),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


# Asked for first, it is closed after the routers.
@pytest.fixture
def store() -> Iterator[MemoryMetricsStore]:
    with closing(MemoryMetricsStore()) as store:
        yield store


def adapters(**down: Exception) -> ScriptedAdapters:
    return ScriptedAdapters({name: [down.get(name, name)] for name in "abcd"})


@pytest.mark.parametrize("way", CALLS.values(), ids=CALLS.keys())
def test_preferred_ids_given_by_name_lead_in_their_order(rig: Any, way: Any) -> None:
    scripted = adapters(b=ConnectionError("down"))
    policy = StickyRoutingPolicy(sticky_provider_ids=["b", "a"])
    router = rig.scripted(scripted, "abcd", policy=policy)

    assert [way(router, rig.chat()) for _ in range(2)] == ["a", "a"]
    assert [call.provider_id for call in scripted.calls] == ["b", "a", "b", "a"]


@pytest.mark.parametrize("way", CALLS.values(), ids=CALLS.keys())
def test_behind_preferred_ids_the_rest_takes_turns_of_its_own(rig: Any, way: Any) -> None:
    scripted = adapters(b=ConnectionError("down"))
    policy = StickyRoutingPolicy(sticky_provider_ids=["b"])
    router = rig.scripted(scripted, "abcd", policy=policy, health={"failure_threshold": 99})

    assert [way(router, rig.chat()) for _ in range(4)] == ["a", "c", "d", "a"]


@pytest.mark.parametrize("way", CALLS.values(), ids=CALLS.keys())
def test_behind_preferred_ids_the_rest_may_go_by_score(
    store: MemoryMetricsStore, rig: Any, way: Any, clock: ManualClock
) -> None:
    store.record_attempts([failed(clock, "a", DAY), row(clock, "d", DAY)])
    down = ConnectionError("down")
    policy = StickyRoutingPolicy(
        sticky_provider_ids=["c", "b"],
        fallback_policy=ScoreBasedPolicy(),
    )
    scripted = adapters(b=down, c=down)
    router = rig.scripted(scripted, "abcd", policy=policy, metrics_store=store, clock=clock)
    until_ordered(router, "cbda")

    assert way(router, rig.chat()) == "d"
    assert [call.provider_id for call in scripted.calls] == ["c", "b", "d"]


@pytest.mark.parametrize("way", CALLS.values(), ids=CALLS.keys())
def test_scores_go_by_the_weights_the_lookback_and_the_scope_that_were_given(
    store: MemoryMetricsStore, rig: Any, way: Any, clock: ManualClock
) -> None:
    policy = ScoreBasedPolicy(
        weights=ScoreWeights(success_weight=2.0, speed_weight=1.0),
        lookback_hours=336.0,
        history_scope=HistoryScope.CURRENT,
    )
    # By success and speed alike a, which is quick and fails now and then, would lead b, which is slow and sure.
    store.record_attempts([row(clock, "a", HOUR) for _ in range(6)])
    store.record_attempts([failed(clock, "a", HOUR) for _ in range(4)])
    store.record_attempts([row(clock, "b", HOUR, latency_ms=2000.0) for _ in range(10)])
    # What is too long ago, or of another scope, says nothing of c, which is as new; of d it is just not too long ago.
    store.record_attempts([failed(clock, "c", 337 * HOUR) for _ in range(10)])
    store.record_attempts(
        [failed(clock, "c", HOUR)._replace(metrics_scope="another-application") for _ in range(10)]
    )
    store.record_attempts([failed(clock, "d", 335 * HOUR) for _ in range(10)])
    router = rig.scripted(adapters(), "abcd", policy=policy, metrics_store=store, clock=clock)
    until_ordered(router, "bcad")

    assert way(router, rig.chat()) == "b"


def test_scores_that_fade_are_made_with_a_half_life_alone(
    store: MemoryMetricsStore, rig: Any, clock: ManualClock
) -> None:
    policy = ScoreBasedPolicy(half_life_hours=72.0)
    # Three days ago weighs half, six days ago a quarter: two failures of then are less than one of now.
    store.record_attempts([failed(clock, "a", HOUR)])
    store.record_attempts([failed(clock, "b", 3 * DAY)])
    store.record_attempts([failed(clock, "c", 6 * DAY) for _ in range(3)])
    # Six half-lives are all that counts.
    store.record_attempts([failed(clock, "d", 19 * DAY) for _ in range(9)])
    router = rig.scripted(adapters(), "abcd", policy=policy, metrics_store=store, clock=clock)

    until_ordered(router, "dbca")
