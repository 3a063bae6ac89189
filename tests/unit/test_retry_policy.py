"""SameProviderRetryPolicy: what it takes, what it refuses, and whom it reaches."""

import warnings
from typing import Any

import pytest
from tenacity import wait_fixed

from turnout import ConfigError, ProviderRouter, RetryPolicy, RetryProviderScope, SameProviderRetryPolicy
from turnout.calls import CallType, Identity
from turnout.faults import Fault
from turnout.policies.retry import RetryContext

RETRIED = {Fault.TIMEOUT, Fault.CONNECTION, Fault.SERVER_ERROR, Fault.TRANSIENT}


def failed(
    fault: Fault = Fault.TIMEOUT, *, name: str = "a", first: bool = True, asked: bool = False
) -> RetryContext:
    return RetryContext(Identity(name, name), CallType.REGULAR, fault, OSError(), 1, first, asked)


def router(**settings: Any) -> ProviderRouter:
    provider = {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}
    own = settings.pop("own", None)
    return ProviderRouter([{**provider, "retry": own}], metrics_store=None, **settings)


def test_the_default_is_three_attempts_at_the_first_provider_without_a_wait() -> None:
    policy = SameProviderRetryPolicy()
    assert (policy.max_attempts, policy.provider_scope, policy.wait) == (3, RetryProviderScope.FIRST, None)
    assert isinstance(policy, RetryPolicy)


@pytest.mark.parametrize("fault", Fault)
def test_it_retries_what_is_likely_to_pass(fault: Fault) -> None:
    assert SameProviderRetryPolicy().should_retry(failed(fault)) == (fault in RETRIED)
    assert SameProviderRetryPolicy().should_retry(failed(fault, asked=True))


def test_its_scope_says_whom_it_reaches() -> None:
    first, every = SameProviderRetryPolicy(), SameProviderRetryPolicy(provider_scope=RetryProviderScope.ALL)
    some = SameProviderRetryPolicy(provider_scope=RetryProviderScope.SELECTED, provider_ids=[" b "])
    assert some.provider_ids == ("b",)
    assert [policy.should_retry(failed()) for policy in (first, every, some)] == [True, True, False]
    second = failed(name="b", first=False)
    assert [policy.should_retry(second) for policy in (first, every, some)] == [False, True, True]


def test_more_than_eight_attempts_are_eight_with_one_warning() -> None:
    with pytest.warns(UserWarning, match="max_attempts=12 is taken for 8") as told:
        assert SameProviderRetryPolicy(max_attempts=12).max_attempts == 8
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SameProviderRetryPolicy(max_attempts=8).max_attempts == 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 1},
        {"max_attempts": True},
        {"max_attempts": 2.0},
        {"provider_scope": "some"},
        {"provider_scope": "selected"},
        {"provider_scope": "selected", "provider_ids": "a"},
        {"provider_scope": "selected", "provider_ids": ["a", "a "]},
        {"provider_scope": "selected", "provider_ids": [" "]},
        {"provider_scope": "selected", "provider_ids": [1]},
        {"provider_ids": ["a"]},
        {"wait": 3},
        {"max_wait_seconds": float("nan")},
        {"max_wait_seconds": -1},
        {"attempts": 3},
    ],
)
def test_what_cannot_be_is_refused_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        router(retry_policy=wrong)
    with pytest.raises(ConfigError):
        router(own=wrong)


def test_a_selected_provider_must_be_the_routers() -> None:
    with pytest.raises(ConfigError, match="selects z; the providers are a"):
        router(retry_policy={"provider_scope": "selected", "provider_ids": ["z"]})


def test_an_object_that_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ConfigError, match="should_retry"):
        router(retry_policy=object())


class Given:
    """A policy of one's own, with the attributes given."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update({"max_attempts": 3, **attributes})

    def should_retry(self, context: RetryContext) -> bool:
        return True


class Moody(Given):
    @property
    def wait(self) -> Any:
        raise OSError("no wait today")


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (Given(max_attempts=None), "max_attempts must be a whole number from 1, not None"),
        (Given(max_attempts="3"), "max_attempts"),
        (Given(max_attempts=True), "max_attempts"),
        (Given(max_attempts=0), "max_attempts"),
        (Given(should_retry=True), "should_retry"),
        (Given(max_wait_seconds="5"), "max_wait_seconds must be a number from 0, not '5'"),
        (Given(max_wait_seconds=None), "max_wait_seconds"),
        (Given(max_wait_seconds=float("nan")), "max_wait_seconds"),
        (Given(wait=2), "wait must be one of tenacity's"),
        (Given(wait=lambda state: "5"), "wait must give a number of seconds; it raised TypeError"),
        (Given(wait=lambda state: None), "wait"),
        (Given(wait=lambda state: 1 / 0), "wait must give a number of seconds; it raised ZeroDivisionError"),
        (Given(wait=lambda state: float("nan")), "wait must give a number of seconds, not nan"),
        (Moody(), "wait of Moody raised OSError"),
        (SameProviderRetryPolicy(wait=lambda state: 1 / 0), "wait"),
        (Given(provider_ids=3), "provider_ids must be a list, not int"),
        (Given(provider_ids=[3]), "selects 3; the providers are a"),
    ],
)
def test_a_policy_with_an_attribute_that_cannot_be_is_refused_at_construction(
    policy: Any, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"retry_policy:? .*{named}"):
        router(retry_policy=policy)
    with pytest.raises(ConfigError, match=f"retry of a:? .*{named}"):
        router(own=policy)


@pytest.mark.parametrize(
    "policy", [Given(), Given(max_attempts=1), Given(wait=wait_fixed(1), max_wait_seconds=5)]
)
def test_a_policy_of_ones_own_needs_no_more_than_is_asked_of_it(policy: Any) -> None:
    with router(retry_policy=policy) as built:
        assert built._engine._setup.retry_policies == {"a": policy}


def test_a_misspelt_field_is_told_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match="retry_policy: max_attempt is no known field; there are max_attempts"
    ):
        router(retry_policy={"max_attempt": 3})
