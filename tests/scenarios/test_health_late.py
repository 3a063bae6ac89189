"""Health, where results come late: what was in flight when a bench began is no news about it."""

from threading import Barrier, Event
from typing import Any

import pytest

from turnout import Fault, ProviderHTTPError, RouterExhaustedError
from turnout.testing import ManualClock, ScriptedAdapters

RATE_LIMITED = ProviderHTTPError("HTTP 429", status_code=429, fault=Fault.RATE_LIMIT)


def test_failures_that_were_in_flight_together_count_once(rig: Any) -> None:
    together = Barrier(4)

    def fail(call: Any) -> None:
        together.wait(30)
        raise ConnectionError("down")

    adapters = ScriptedAdapters({"a": [fail]})
    router = rig.scripted(adapters, "a", clock=ManualClock(), health={"failure_threshold": 1})

    futures = [router.submit(rig.chat()) for _ in range(4)]
    for future in futures:
        with pytest.raises(RouterExhaustedError):
            future.result(30)

    health = router.health_report()["a"]
    assert (health.consecutive_failures, health.cooldown_remaining_seconds) == (1, 60.0)


def test_a_late_success_does_not_end_a_bench(rig: Any) -> None:
    begun, go_on = Event(), Event()

    def slow(call: Any) -> str:
        begun.set()
        assert go_on.wait(30)
        return "late"

    router = rig.scripted(ScriptedAdapters({"a": [slow, RATE_LIMITED]}), "a", clock=ManualClock())

    future = router.submit(rig.chat())
    assert begun.wait(30)
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    go_on.set()

    assert future.result(30) == "late"
    assert router.health_report()["a"].cooldown_remaining_seconds == 60.0


def test_a_late_refusal_of_credentials_is_news_whenever_it_comes(rig: Any) -> None:
    begun, go_on = Event(), Event()

    def refused(call: Any) -> None:
        begun.set()
        assert go_on.wait(30)
        raise ProviderHTTPError("HTTP 401", status_code=401, fault=Fault.AUTH)

    router = rig.scripted(ScriptedAdapters({"a": [refused, RATE_LIMITED]}), "a", clock=ManualClock())

    future = router.submit(rig.chat())
    assert begun.wait(30)
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    go_on.set()
    with pytest.raises(RouterExhaustedError):
        future.result(30)

    assert router.health_report()["a"].auth_disabled


def test_a_call_that_would_probe_a_provider_that_has_just_answered_again_goes_to_it(rig: Any) -> None:
    clock = ManualClock()
    router = rig.scripted(ScriptedAdapters({"a": [RATE_LIMITED, "probe", "call"]}), "a", clock=clock)
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    clock.advance(60.0)
    health = router._engine.plant.health
    number = health.permit_number

    def overtaken() -> int:
        """Another call's probe is answered before this one's question."""
        health.permit_number = number
        assert router.invoke(rig.chat()) == "probe"
        return int(number())

    health.permit_number = overtaken

    assert router.invoke(rig.chat()) == "call"


def test_a_failure_of_a_call_that_began_before_a_reset_is_no_news_about_what_is_new(rig: Any) -> None:
    begun, go_on = Event(), Event()

    def fails(call: Any) -> None:
        begun.set()
        assert go_on.wait(30)
        raise ConnectionError("down")

    router = rig.scripted(ScriptedAdapters({"a": [fails]}), "a", health={"failure_threshold": 1})

    future = router.submit(rig.chat())
    assert begun.wait(30)
    router.reset_health()
    go_on.set()
    with pytest.raises(RouterExhaustedError):
        future.result(30)

    assert router.health_report()["a"].consecutive_failures == 0
    assert router.health_report()["a"].cooldown_remaining_seconds is None


def test_a_shorter_bench_never_shortens_a_longer_one(rig: Any) -> None:
    begun, go_on = Event(), Event()

    def limited(call: Any) -> None:
        begun.set()
        assert go_on.wait(30)
        raise RATE_LIMITED

    spent = ProviderHTTPError("HTTP 402", status_code=402, fault=Fault.QUOTA)
    router = rig.scripted(ScriptedAdapters({"a": [limited, spent]}), "a", clock=ManualClock())

    future = router.submit(rig.chat())
    assert begun.wait(30)
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    go_on.set()
    with pytest.raises(RouterExhaustedError):
        future.result(30)

    assert router.health_report()["a"].cooldown_remaining_seconds == 3600.0


def test_the_callers_own_faults_never_open_a_circuit(rig: Any) -> None:
    own = ProviderHTTPError("HTTP 400", status_code=400, fault=Fault.BAD_REQUEST)
    router = rig.scripted(ScriptedAdapters({"a": [own]}), "a", health={"failure_threshold": 1})

    for _ in range(5):
        with pytest.raises(RouterExhaustedError):
            router.invoke(rig.chat())

    assert router.health_report()["a"].consecutive_failures == 0
