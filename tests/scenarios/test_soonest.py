"""Where every provider is benched and the soonest one may be tried: who that is, and what is told of the others."""

from threading import Event
from typing import Any

import pytest

from turnout import (
    Fault,
    FilterReason,
    NoEligibleProvidersError,
    PreferencePolicy,
    ProviderError,
    RouterExhaustedError,
)
from turnout.actors.health import AskPermit
from turnout.testing import ManualClock, ScriptedAdapters

BENCHES = {"a": 50.0, "b": 20.0, "c": 35.0}


class Held:
    """A provider whose call lasts until it is let go."""

    def __init__(self, answer: str) -> None:
        self.begun, self.go_on = Event(), Event()
        self._answer = answer

    def __call__(self, call: object) -> str:
        self.begun.set()
        assert self.go_on.wait(30)
        return self._answer


def all_benched(rig: Any, then: dict[str, Any], clock: ManualClock, **health: Any) -> Any:
    """A router whose providers are benched for as long as ``BENCHES`` says; ``then`` is what comes after."""

    def limited(name: str) -> ProviderError:
        return ProviderError("busy", fault=Fault.RATE_LIMIT, retry_after_seconds=BENCHES[name])

    script = {name: [limited(name), after] for name, after in then.items()}
    router = rig.scripted(
        ScriptedAdapters(script),
        "".join(then),
        policy=PreferencePolicy(),
        clock=clock,
        health={"when_all_benched": "soonest", **health},
    )
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    return router


def not_tried(told: Any) -> dict[str, FilterReason]:
    return {one.provider_id: one.reason for one in told.exclusions}


def test_errors_and_reports_name_those_that_are_benched_and_were_not_tried(rig: Any) -> None:
    router = all_benched(rig, dict.fromkeys("abc", ConnectionError("down")), ManualClock())

    future = router.submit(rig.chat())
    error = future.exception(30)

    assert isinstance(error, RouterExhaustedError)
    assert [one.provider_id for one in error.attempts] == ["b"]
    assert not_tried(error) == not_tried(future.report())
    assert not_tried(error) == {"a": FilterReason.IN_COOLDOWN, "c": FilterReason.IN_COOLDOWN}
    for name in "ac":
        assert f"not tried: {name}: is benched for {BENCHES[name]:.1f} s" in str(error)


def test_an_answer_reports_those_that_are_benched_and_were_not_tried(rig: Any) -> None:
    router = all_benched(rig, {"a": "a", "b": "b"}, ManualClock())

    future = router.submit(rig.chat())

    assert future.result(30) == "b"
    assert not_tried(future.report()) == {"a": FilterReason.IN_COOLDOWN}


def test_where_the_soonest_is_probed_by_another_call_the_next_soonest_is_tried(rig: Any) -> None:
    held = {name: Held(name) for name in "abc"}
    router = all_benched(rig, held, ManualClock())

    # By the end of their benches.
    futures = []
    for name in "bca":
        futures.append(router.submit(rig.chat()))
        assert held[name].begun.wait(30)
    with pytest.raises(NoEligibleProvidersError) as caught:
        router.invoke(rig.chat())

    assert not_tried(caught.value) == dict.fromkeys("abc", FilterReason.IN_COOLDOWN)
    assert [one.probes_out for one in router.health_report().values()] == [1, 1, 1]
    for each in held.values():
        each.go_on.set()
    assert [future.result(30) for future in futures] == ["b", "c", "a"]


def test_as_many_calls_try_the_soonest_as_may_probe_it(rig: Any) -> None:
    held = {name: Held(name) for name in "ab"}
    router = all_benched(rig, held, ManualClock(), half_open_probes=2)

    futures = [router.submit(rig.chat()) for _ in range(4)]
    for each in held.values():
        assert each.begun.wait(30)
    while sum(one.probes_out for one in router.health_report().values()) < 4:
        router.stats()

    assert [one.probes_out for one in router.health_report().values()] == [2, 2]
    with pytest.raises(NoEligibleProvidersError):
        router.invoke(rig.chat())
    for each in held.values():
        each.go_on.set()
    assert sorted(future.result(30) for future in futures) == ["a", "a", "b", "b"]


@pytest.mark.parametrize("half_open", [False, True])
def test_a_call_that_comes_too_late_for_the_soonest_ones_permit_tries_the_next(
    rig: Any, half_open: bool
) -> None:
    clock = ManualClock()
    router = all_benched(rig, {"a": "a", "b": "b"}, clock)
    if half_open:
        clock.advance(20.0)
    health = router._engine.plant.health
    number = health.permit_number

    def taken_by_another() -> int:
        """Another call's question comes first."""
        health.permit_number = number
        assert health.actor.ask(AskPermit("b", number(), 999.0, True))
        return int(number())

    health.permit_number = taken_by_another

    assert router.invoke(rig.chat()) == "a"
    assert router.health_report()["b"].probes_out == 1


def test_a_provider_that_asks_for_three_seconds_is_never_said_to_be_benched_for_more(rig: Any) -> None:
    busy = ProviderError("busy", fault=Fault.RATE_LIMIT, retry_after_seconds=3.0)
    router = rig.scripted(
        ScriptedAdapters({name: [busy] * 30 for name in "ab"}),
        "ab",
        clock=ManualClock(),
        health={"when_all_benched": "soonest"},
    )

    for _ in range(20):
        with pytest.raises(RouterExhaustedError) as caught:
            router.invoke(rig.chat())
        assert caught.value.retry_after_seconds == 3.0
    assert [one.cooldown_remaining_seconds for one in router.health_report().values()] == [3.0, 3.0]
