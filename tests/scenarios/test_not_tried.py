"""Whom a call did not go to: never anybody whom it went to as well."""

from collections.abc import Sequence
from concurrent.futures import wait
from typing import Any

import pytest

from turnout import (
    DeadlineExceededError,
    Fault,
    FilterReason,
    PreferencePolicy,
    ProviderHTTPError,
    RouterExhaustedError,
)
from turnout.testing import ManualClock, ScriptedAdapters

REFUSED = ProviderHTTPError("HTTP 401", status_code=401, fault=Fault.AUTH)


def limited(seconds: float) -> ProviderHTTPError:
    return ProviderHTTPError("HTTP 429", status_code=429, fault=Fault.RATE_LIMIT, retry_after_seconds=seconds)


def waiting(rig: Any, script: dict[str, Any], clock: ManualClock, **settings: Any) -> Any:
    """A router that waits for benches, over providers named by single letters."""
    return rig.scripted(
        ScriptedAdapters(script),
        "".join(script),
        **{"policy": PreferencePolicy(), "clock": clock, "health": {"when_all_benched": "wait"}, **settings},
    )


def not_tried(told: Any) -> list[tuple[str, FilterReason]]:
    return [(one.provider_id, one.reason) for one in told.exclusions]


def test_a_provider_that_refused_the_credentials_is_told_of_once(rig: Any) -> None:
    future = waiting(rig, {"a": [REFUSED]}, ManualClock()).submit(rig.chat())

    error = future.exception(30)

    assert isinstance(error, RouterExhaustedError)
    assert [one.provider_id for one in error.attempts] == ["a"]
    assert not_tried(error) == not_tried(future.report()) == []
    assert "not tried" not in str(error)


def test_a_provider_that_the_call_benched_itself_is_told_of_once(rig: Any) -> None:
    router = waiting(rig, {"a": [limited(50.0)], "b": [REFUSED]}, ManualClock())
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat(), timeout=10.0)

    # Both are out of the question by now, b for this run.
    future = router.submit(rig.chat(), timeout=10.0)

    assert not_tried(future.exception(30)) == [
        ("a", FilterReason.IN_COOLDOWN),
        ("b", FilterReason.AUTH_DISABLED_THIS_RUN),
    ]
    router.reset_health("b")
    future = router.submit(rig.chat(), timeout=10.0)
    error = future.exception(30)
    assert isinstance(error, RouterExhaustedError)
    assert [one.provider_id for one in error.attempts] == ["b"]
    assert not_tried(error) == not_tried(future.report()) == [("a", FilterReason.IN_COOLDOWN)]


def test_a_provider_that_was_benched_at_first_and_tried_after_a_wait_is_told_of_once(rig: Any) -> None:
    clock = ManualClock()
    router = waiting(rig, {"a": [limited(2.0), "a"], "b": ["b", limited(50.0)]}, clock)
    assert router.invoke(rig.chat()) == "b"

    future = router.submit(rig.chat(), timeout=20.0)
    while wait([future], 0.02).not_done:
        clock.advance(0.3)

    assert future.result(0) == "a"
    assert [one.provider_id for one in future.report().attempts] == ["b", "a"]
    assert not_tried(future.report()) == []


def test_whom_the_policy_leaves_out_after_it_was_tried_is_told_of_once(rig: Any) -> None:
    class OnceAlone:
        asked = 0

        def order(self, eligible: Sequence[Any], context: Any) -> list[Any]:
            self.asked += 1
            return [one for one in eligible if one.provider_id == "a" and self.asked == 1]

    clock = ManualClock()
    router = waiting(rig, {"a": [limited(2.0), "a"], "b": ["b"]}, clock, policy=OnceAlone())

    future = router.submit(rig.chat(), timeout=20.0)
    while wait([future], 0.02).not_done:
        clock.advance(0.3)

    error = future.exception(0)
    assert isinstance(error, RouterExhaustedError)
    assert not_tried(error) == not_tried(future.report()) == [("b", FilterReason.OMITTED_BY_POLICY)]


def test_a_call_whose_time_is_over_tells_of_each_provider_once(rig: Any) -> None:
    clock = ManualClock()

    def slowly(call: object) -> Exception:
        clock.advance(30.0)
        return ConnectionError("down")

    router = waiting(rig, {"a": [limited(2.0), slowly], "b": ["b", limited(50.0)]}, clock)
    assert router.invoke(rig.chat()) == "b"

    future = router.submit(rig.chat(), timeout=20.0)
    while wait([future], 0.02).not_done:
        clock.advance(0.3)

    error = future.exception(0)
    assert isinstance(error, DeadlineExceededError)
    assert {one.provider_id for one in error.attempts} == {"a", "b"}
    assert not_tried(error) == not_tried(future.report()) == []
