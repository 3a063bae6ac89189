"""What the health report says of a provider while its circuit goes round."""

from typing import Any

import pytest

from turnout import (
    Fault,
    NoEligibleProvidersError,
    PreferencePolicy,
    ProviderConnectionError,
    ProviderError,
    RouterExhaustedError,
)
from turnout.decisions.circuit import State
from turnout.testing import ManualClock, ScriptedAdapters

REFUSED = ProviderConnectionError("the wire is cut")
LIMITED = ProviderError("slow down, please", fault=Fault.RATE_LIMIT, retry_after_seconds=30.0)


def test_the_report_follows_a_circuit_round(rig: Any) -> None:
    clock = ManualClock()
    during: list[Any] = []

    def probed(call: Any) -> str:
        during.append(router.health_report()["a"])
        return "a"

    adapters = ScriptedAdapters({"a": [REFUSED, LIMITED, REFUSED, probed], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), clock=clock)

    def told() -> tuple[Any, ...]:
        health = router.health_report()["a"]
        left, why = health.cooldown_remaining_seconds, health.why
        return health.state, left, why, health.last_error, health.probes_out

    assert told() == (State.CLOSED, None, None, None, 0)
    router.invoke(rig.chat())
    assert told() == (State.CLOSED, None, "connection", "the wire is cut", 0)
    router.invoke(rig.chat())
    assert told() == (State.OPEN, 30.0, "rate_limit", "slow down, please", 0)
    clock.advance(29.0)
    assert told() == (State.OPEN, 1.0, "rate_limit", "slow down, please", 0)
    clock.advance(1.0)
    assert told() == (State.HALF_OPEN, None, "rate_limit", "slow down, please", 0)
    router.invoke(rig.chat())
    assert told() == (State.OPEN, 120.0, "connection", "the wire is cut", 0)
    clock.advance(120.0)
    assert router.invoke(rig.chat()) == "a"
    (health,) = during
    assert (health.state, health.probes_out, health.cooldown_remaining_seconds) == (State.HALF_OPEN, 1, None)
    assert told() == (State.CLOSED, None, None, None, 0)


def test_a_provider_without_words_of_its_own_is_told_of_by_the_kind_of_its_failure(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [ProviderError("", fault=Fault.AUTH)], "b": ["b"]})
    router = rig.scripted(adapters, "ab", clock=ManualClock())

    router.invoke(rig.chat())

    health = router.health_report()["a"]
    assert (health.state, health.auth_disabled) == (State.DISABLED, True)
    assert (health.why, health.last_error) == ("auth", "auth")
    assert health.cooldown_remaining_seconds is None


def test_while_a_provider_is_probed_another_call_is_told_so(rig: Any) -> None:
    clock = ManualClock()
    told: list[NoEligibleProvidersError] = []

    def probed(call: Any) -> str:
        with pytest.raises(NoEligibleProvidersError) as caught:
            router.invoke(rig.chat())
        told.append(caught.value)
        return "a"

    router = rig.scripted(ScriptedAdapters({"a": [LIMITED, probed]}), "a", clock=clock)
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    clock.advance(30.0)

    assert router.invoke(rig.chat()) == "a"
    (error,) = told
    assert "is being probed by another call" in str(error)
    assert "slow down, please" in str(error)


def test_a_deadline_that_leaves_a_provider_most_of_its_time_counts_as_its_timeout(rig: Any) -> None:
    clock = ManualClock()
    left = iter([79.9, 80.0, 119.0])

    def silent(call: Any) -> None:
        clock.advance(seconds)
        raise ProviderError("cut")

    router = rig.scripted(
        ScriptedAdapters({"a": [silent]}), "a", clock=clock, health={"failure_threshold": 9}
    )
    counted = []
    for seconds in left:
        error = router.submit(rig.chat(), timeout=seconds).exception(30)
        assert isinstance(error, TimeoutError)
        counted.append(router.health_report()["a"].consecutive_failures)

    # Its own time is 120 s, most of which is 96 s.
    assert counted == [0, 0, 1]
    assert router.health_report()["a"].why == "timeout"
