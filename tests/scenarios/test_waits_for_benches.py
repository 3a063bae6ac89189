"""Calls that wait for a bench to end, and what may end their wait before its time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest

from turnout import Fault, PreferencePolicy, ProviderHTTPError
from turnout.decisions.circuit import State
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Status

WAITS = {"when_all_benched": "wait"}
LIMITED = ProviderHTTPError("busy", status_code=429, fault=Fault.RATE_LIMIT, retry_after_seconds=3600.0)
REFUSED = ProviderHTTPError("who are you", status_code=401, fault=Fault.AUTH)


def who(answer: Any) -> str:
    return str(answer.choices[0].message.content)


def until(router: Any, waiting: int) -> None:
    """Until so many calls wait, in real time."""
    while len(router._engine.plant.health.waiting) != waiting:
        router.stats()


def invoked(router: Any, call: Any) -> "SimpleQueue[Any]":
    """What comes of an invoke on a thread of its own."""
    came: SimpleQueue[Any] = SimpleQueue()

    def invokes() -> None:
        try:
            came.put(router.invoke(call))
        except Exception as error:
            came.put(error)

    Thread(target=invokes, daemon=True).start()
    return came


def test_a_reset_ends_every_wait_for_a_bench(rig: Any) -> None:
    sim = rig.simulate(P=[Status(429, retry_after=3600), Answer(text="P")])
    router = rig.router(rig.providers(sim), clock=ManualClock(), health=WAITS)
    futures = [router.submit(rig.chat())]
    until(router, 1)
    futures += [router.submit(rig.chat()) for _ in range(2)]
    until(router, 3)
    here = invoked(router, rig.chat())
    until(router, 4)
    before = sim.total("P")

    router.reset_health("P")

    assert [who(future.result(30)) for future in futures] == ["P"] * 3
    assert who(here.get(timeout=30)) == "P"
    assert sim.total("P") == before + 4
    assert len(router._engine.plant.health.waiting) == 0


def test_a_reset_of_one_that_was_disabled_ends_the_wait_for_another(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [REFUSED, "a"], "b": [LIMITED]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), clock=ManualClock(), health=WAITS)
    met = router.submit(rig.chat())
    until(router, 1)
    found = router.submit(rig.chat())
    until(router, 2)

    router.reset_health("a")

    assert found.result(30) == "a"
    # It has been there before, and was not benched there: that was no bench that ends.
    met.cancel()


def test_a_reset_wakes_who_waits_after_the_close_too(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [LIMITED, "a"]}), "a", clock=ManualClock(), health=WAITS)
    here = invoked(router, rig.chat())
    until(router, 1)

    router.close()
    until(router, 1)
    router.reset_health()

    assert here.get(timeout=30) == "a"


@contextmanager
def behind_a_probe(rig: Any, clock: ManualClock, outcomes: list[Any], waiting: int) -> Iterator[Any]:
    """A router, futures that wait behind a probe of its one provider, and what lets that probe end."""
    begun, ends = Event(), Event()

    def probed(call: Any) -> Any:
        begun.set()
        assert ends.wait(30)
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes[0]

    adapters = ScriptedAdapters({"a": [LIMITED, probed, *outcomes[1:]]})
    router = rig.scripted(adapters, "a", clock=clock, health=WAITS)
    futures = [router.submit(rig.chat())]
    until(router, 1)
    clock.advance(3600.0)
    assert begun.wait(30)
    futures += [router.submit(rig.chat()) for _ in range(waiting)]
    until(router, waiting)
    try:
        yield router, futures, ends.set
    finally:
        ends.set()


def test_who_waits_behind_a_probe_is_let_in_when_it_has_succeeded(rig: Any) -> None:
    with behind_a_probe(rig, ManualClock(), ["a"], 20) as (_, futures, let_end):
        let_end()
        assert [future.result(30) for future in futures] == ["a"] * 21


def test_who_waits_behind_a_probe_that_fails_waits_for_the_bench_that_follows(rig: Any) -> None:
    clock = ManualClock()
    again = ProviderHTTPError("busy", status_code=429, fault=Fault.RATE_LIMIT, retry_after_seconds=1.0)
    with behind_a_probe(rig, clock, [again, "a"], 5) as (router, futures, let_end):
        let_end()
        until(router, 6)
        left = router.health_report()["a"].cooldown_remaining_seconds
        # Far less than the permit's life.
        assert left is not None
        assert left < 10.0
        clock.advance(left)
        assert [future.result(30) for future in futures] == ["a"] * 6


def test_who_waits_behind_a_probe_is_told_at_once_that_no_time_helps(rig: Any) -> None:
    with behind_a_probe(rig, ManualClock(), [REFUSED], 5) as (router, futures, let_end):
        let_end()
        for future in futures:
            error = future.exception(30)
            assert "credentials were refused" in str(error) or "who are you" in str(error)
        assert router.health_report()["a"].state is State.DISABLED


@pytest.mark.parametrize("moment", ["before it enters", "before it looks a last time"])
def test_news_between_two_steps_of_who_begins_to_wait_is_not_lost(rig: Any, moment: str) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [LIMITED, "a"]}), "a", clock=ManualClock(), health=WAITS)
    waiting = router._engine.plant.health.waiting
    steps: list[Callable[..., Any]] = [waiting.enter, lambda *entry, **how: router.reset_health()]
    if moment == "before it enters":
        steps.reverse()

    def enters(*entry: Any, **how: Any) -> None:
        for step in steps:
            step(*entry, **how)

    waiting.enter = enters

    assert invoked(router, rig.chat()).get(timeout=30) == "a"
