"""When an error says to try again: at the end of a bench that kept this very call from somebody, or not at all."""

from collections.abc import Sequence
from typing import Any

import pytest

from turnout import (
    ApiProtocol,
    Fault,
    NoEligibleProvidersError,
    PreferencePolicy,
    ProviderError,
    RouteError,
    RouterExhaustedError,
)
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Status


def failing(fault: Fault, retry_after: float | None = None) -> ProviderError:
    return ProviderError(fault.value, fault=fault, retry_after_seconds=retry_after)


LIMITED = failing(Fault.RATE_LIMIT, 5.0)
DOWN = failing(Fault.CONNECTION)


class Only:
    """Sends a call to those of these names alone."""

    names = "ab"

    def order(self, eligible: Sequence[Any], context: Any) -> list[Any]:
        return [one for one in eligible if one.provider_id in self.names]


def told_by(router: Any, call: Any, kind: type[RouteError] = RouterExhaustedError) -> float | None:
    """When to try again, as the error has it, in its text and as a number."""
    with pytest.raises(kind) as caught:
        router.invoke(call)
    seconds: float | None = caught.value.retry_after_seconds  # type: ignore[attr-defined]
    assert ("try again" in str(caught.value)) == (seconds is not None)
    return seconds


def test_the_bench_of_a_provider_that_cannot_take_the_call_does_not_count(rig: Any) -> None:
    sim = rig.simulate(a=Status(429, retry_after=5), b=Status(429, retry_after=100))
    router = rig.router(
        [rig.provider(sim, "a"), rig.provider(sim, "b", protocol=ApiProtocol.OPENAI_RESPONSES)],
        clock=ManualClock(),
    )

    assert told_by(router, rig.chat()) == 5.0
    assert told_by(router, rig.responses()) == 100.0
    assert told_by(router, rig.responses(), NoEligibleProvidersError) == 100.0


def test_the_bench_of_a_provider_that_the_policy_left_out_does_not_count(rig: Any) -> None:
    policy = Only()

    def meanwhile(call: object) -> ProviderError:
        policy.names = "b"
        assert told_by(router, rig.chat()) == 5.0
        return DOWN

    adapters = ScriptedAdapters({"a": [meanwhile], "b": [LIMITED]})
    router = rig.scripted(adapters, "ab", policy=policy, clock=ManualClock())

    policy.names = "a"
    assert told_by(router, rig.chat()) is None


@pytest.mark.parametrize("benched_first", [False, True])
def test_the_bench_of_a_provider_that_is_too_small_does_not_count(rig: Any, benched_first: bool) -> None:
    sim = rig.simulate(
        a=Status(429, retry_after=5),
        b=Status(400, error_code="context_length_exceeded"),
    )
    router = rig.router(
        [rig.provider(sim, name, model="m") for name in "ab"], policy=PreferencePolicy(), clock=ManualClock()
    )
    if benched_first:
        told_by(router, rig.chat())

    assert told_by(router, rig.chat()) is None


def test_the_bench_of_a_larger_provider_counts_where_the_call_was_too_long(rig: Any) -> None:
    sim = rig.simulate(
        a=Status(429, retry_after=5),
        b=Status(400, error_code="context_length_exceeded"),
    )
    router = rig.router(rig.providers(sim), policy=PreferencePolicy(), clock=ManualClock())

    assert told_by(router, rig.chat()) == 5.0


@pytest.mark.parametrize("fault", [Fault.BAD_REQUEST, Fault.CONTENT_FILTER, Fault.INVALID_OPERATION])
@pytest.mark.parametrize("benched_first", [False, True])
def test_no_bench_counts_where_the_call_is_the_callers_to_mend(
    rig: Any, fault: Fault, benched_first: bool
) -> None:
    adapters = ScriptedAdapters({"a": [LIMITED], "b": [failing(fault)]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), clock=ManualClock())
    if benched_first:
        told_by(router, rig.chat())

    assert told_by(router, rig.chat()) is None


def test_the_bench_of_one_that_could_have_answered_counts_whoever_else_failed(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [LIMITED], "b": [DOWN]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), clock=ManualClock())

    assert told_by(router, rig.chat()) == 5.0
    assert told_by(router, rig.chat()) == 5.0
