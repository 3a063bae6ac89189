"""What the health report, and the log, say of a provider while its circuit goes round."""

from threading import Event
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


KEY_REFUSED = ProviderError("the key was revoked", fault=Fault.AUTH)


def disabled(logged: Any) -> list[str]:
    return [text for text in logged.at("WARNING") if "is disabled for this run" in text]


def test_credentials_refused_to_a_probe_warn_once_and_say_what_to_do(rig: Any, logged: Any) -> None:
    clock = ManualClock()
    adapters = ScriptedAdapters({"a": [LIMITED, REFUSED, KEY_REFUSED], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), clock=clock)

    for _ in range(6):
        router.invoke(rig.chat())
        clock.advance(router.health_report()["a"].cooldown_remaining_seconds or 0.0)

    (warning,) = disabled(logged)
    for part in ("provider a", "mend them, then reset_health()", "the key was revoked"):
        assert part in warning
    # What repeats in between is no news.
    assert len(logged.at("WARNING")) == 2
    assert len([text for text in logged.at("DEBUG") if "is benched" in text]) == 1


def test_credentials_refused_to_calls_in_flight_when_a_bench_begins_warn_once(rig: Any, logged: Any) -> None:
    begun, go_on = [Event(), Event()], Event()

    def revoked(call: Any) -> None:
        begun[call.arguments["n"]].set()
        assert go_on.wait(30)
        raise KEY_REFUSED

    adapters = ScriptedAdapters({"a": [revoked, revoked, LIMITED]})
    router = rig.scripted(adapters, "a", policy=PreferencePolicy(), clock=ManualClock())
    futures = []
    for number in (0, 1):
        futures.append(router.submit(rig.chat(n=number)))
        assert begun[number].wait(30)
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    go_on.set()
    for future in futures:
        assert isinstance(future.exception(30), RouterExhaustedError)

    assert len(disabled(logged)) == 1
