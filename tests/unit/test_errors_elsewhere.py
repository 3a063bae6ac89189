"""Errors that are copied, or sent to another process."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from turnout import (
    DeadlineExceededError,
    Fault,
    NoEligibleProvidersError,
    ProviderHTTPError,
    ProviderTimeoutError,
    RouterExhaustedError,
    ThreadsStillRunningError,
)
from turnout.errors import Exclusion, FailedAttempt, TurnoutError


class Awkward(Exception):
    """Cannot be made of its text alone, as those of SDKs."""

    def __init__(self, text: str, *, response: object) -> None:
        super().__init__(text)
        self.response = response


def failed(error: BaseException) -> FailedAttempt:
    return FailedAttempt("a", "A", "m", Fault.SERVER_ERROR, error, 'A (id="a"): it was down')


EXCLUSION = Exclusion("b", "B", "in_cooldown", "is benched")
HTTP = ProviderHTTPError(
    "A, model m, answered HTTP 500",
    response=object(),
    original=Awkward("down", response=object()),
    fault=Fault.SERVER_ERROR,
    status_code=500,
    body={"code": "down"},
)
ERRORS: list[TurnoutError] = [
    RouterExhaustedError([failed(HTTP), failed(Awkward("x", response=1))], [EXCLUSION], 7.0),
    NoEligibleProvidersError([EXCLUSION], 3.0),
    DeadlineExceededError(2.0, [failed(HTTP)], [EXCLUSION], "a retry", [("at a", 1.5)]),
    ThreadsStillRunningError(["turnout-x-health"]),
    ProviderTimeoutError("A did not answer", by_caller=True, provider_id="a"),
    HTTP,
]
WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_says_and_holds_elsewhere_what_it_did_here(error: TurnoutError, way: str) -> None:
    other: Any = WAYS[way](error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    plain = {
        "retry_after_seconds",
        "exclusions",
        "names",
        "spent",
        "by_caller",
        "status_code",
        "body",
        "fault",
    }
    for name in plain & vars(error).keys():
        assert getattr(other, name) == getattr(error, name)
    assert [str(one) for one in getattr(other, "attempts", ())] == [
        str(one) for one in getattr(error, "attempts", ())
    ]


def test_what_an_sdk_gave_does_not_leave_the_process() -> None:
    other = pickle.loads(pickle.dumps(HTTP))
    assert (other.response, other.original) == (None, None)
    assert copy.copy(HTTP).response is HTTP.response


def test_a_providers_error_that_cannot_travel_arrives_as_what_it_said() -> None:
    other = pickle.loads(pickle.dumps(ERRORS[0]))
    assert [type(one.error).__name__ for one in other.attempts] == ["ProviderHTTPError", "RuntimeError"]
    assert str(other.attempts[1].error) == 'A (id="a"): it was down'
