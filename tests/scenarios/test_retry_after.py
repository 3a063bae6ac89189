"""Retry-After over real HTTP: what a provider asks for, and what asks for nothing."""

from concurrent.futures import wait
from typing import Any

import pytest

from turnout import PreferencePolicy, RouterExhaustedError
from turnout.decisions.circuit import State
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Status

LONG_OVER = "Sun, 06 Nov 1994 08:49:37 GMT"


def preferring(rig: Any, sim: Any, clock: ManualClock, **settings: Any) -> Any:
    return rig.router(rig.providers(sim), policy=PreferencePolicy(), clock=clock, **settings)


@pytest.mark.parametrize("named", [0, LONG_OVER])
def test_a_rate_limit_that_lasts_and_asks_for_no_time_benches_as_one_without_retry_after(
    rig: Any, named: Any
) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=Status(429, retry_after=named), F=Answer())
    router = preferring(rig, sim, clock)

    benched = []
    for _ in range(3):
        for _ in range(20):
            router.invoke(rig.chat())
        benched.append(router.health_report()["P"].cooldown_remaining_seconds)
        clock.advance(benched[-1])

    assert sim.total("P") == 3
    assert benched == [60.0, 120.0, 240.0]


@pytest.mark.parametrize("named", [0, 1, LONG_OVER])
def test_a_used_up_quota_benches_for_its_hour_whatever_shorter_time_it_names(rig: Any, named: Any) -> None:
    sim = rig.simulate(P=Status(429, error_code="insufficient_quota", retry_after=named), F=Answer())
    router = preferring(rig, sim, ManualClock())

    for _ in range(10):
        router.invoke(rig.chat())

    assert sim.total("P") == 1
    assert router.health_report()["P"].cooldown_remaining_seconds == 3600.0


def test_a_rate_limit_that_lasts_longer_than_it_says_is_asked_less_and_less(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=Status(429, retry_after=0.25), F=Answer())
    router = preferring(rig, sim, clock)

    for _ in range(240):
        router.invoke(rig.chat())
        clock.advance(0.25)

    # Benched for 0.25, 0.5, 1, 2, 4, 8, 16, 32 seconds of the 60.
    assert sim.total("P") == 8


def test_a_call_waits_for_the_bench_of_a_rate_limit_that_asks_for_no_time(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=[Status(429, retry_after=0), Answer(text="P")])
    router = preferring(rig, sim, clock, health={"when_all_benched": "wait"})

    future = router.submit(rig.chat(), timeout=90.0)
    while router.health_report()["P"].state is not State.OPEN:
        router.stats()
    clock.advance(59.0)
    assert sim.total("P") == 1
    while wait([future], 0.02).not_done:
        clock.advance(1.0)

    assert future.result(0).choices[0].message.content == "P"
    assert [attempt.provider_id for attempt in future.report().attempts] == ["P", "P"]


def test_a_wait_for_the_bench_of_a_rate_limit_that_asks_for_no_time_must_fit_the_deadline(rig: Any) -> None:
    sim = rig.simulate(P=Status(429, retry_after=0))
    router = preferring(rig, sim, ManualClock(), health={"when_all_benched": "wait"})

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat(), timeout=30.0)

    assert caught.value.retry_after_seconds == 60.0
    assert sim.total("P") == 1


def test_a_bench_that_is_over_as_soon_as_it_begins_is_waited_for_like_any_other(rig: Any) -> None:
    router = rig.scripted(
        ScriptedAdapters({"a": [OSError("down"), OSError("still down"), "answer"]}),
        "a",
        health={
            "failure_threshold": 1,
            "failure_cooldown_seconds": 1e-9,
            "max_cooldown_seconds": 1e-9,
            "when_all_benched": "wait",
        },
    )
    assert router.invoke(rig.chat()) == "answer"
