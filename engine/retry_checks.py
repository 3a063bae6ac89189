"""Retry policies as a router is given them, checked: every refusal is a ``ConfigError`` that names the field."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from turnout.config import ProviderConfig
from turnout.errors import ConfigError, ProviderConnectionError
from turnout.faults import Fault
from turnout.policies.retry import (
    RetryPolicy,
    RetryProviderScope,
    SameProviderRetryPolicy,
    seconds_of,
)

Given = RetryPolicy | Mapping[str, Any] | bool | None

_FIELDS: Final = frozenset(field.name for field in fields(SameProviderRetryPolicy))
_WRITABLE: Final = ", ".join(field.name for field in fields(SameProviderRetryPolicy) if field.name != "wait")
_MISSING: Final = object()
#: For a wait that looks at what an attempt ended in.
_EXAMPLE: Final = ProviderConnectionError("an example", fault=Fault.CONNECTION)


def retries_of(configs: Sequence[ProviderConfig], common: Given) -> dict[str, RetryPolicy]:
    """The retry policy of each provider that has one: its own, else the one for all."""
    shared, own = retry_policies(configs, common, "retry_policy")
    policies = {config.provider_id: own.get(config.provider_id, shared) for config in configs}
    return {provider_id: policy for provider_id, policy in policies.items() if policy is not None}


def retry_policies(
    configs: Sequence[ProviderConfig], common: Given, where: str
) -> tuple[RetryPolicy | None, dict[str, RetryPolicy | None]]:
    """The policy for all, which stands ``where`` the user wrote it, and those that providers have of their own. None is
    for no retries."""
    known = [config.provider_id for config in configs]
    shared = _policy_of(common, known, where)
    own = {}
    for config in configs:
        given = config.retry
        if isinstance(given, Mapping):
            given = {"provider_scope": RetryProviderScope.ALL, **given}
        if given is not None:
            own[config.provider_id] = _policy_of(given, known, f"retry of {config.provider_id}")
    return shared, own


def _policy_of(given: Given, known: Collection[str], where: str) -> RetryPolicy | None:
    if given is None or given is False:
        return None
    policy: Any = _built(given, where) if isinstance(given, Mapping) else given
    _check_numbers(policy, where)
    _check_wait(policy, where)
    _check_providers(policy, known, where)
    return policy  # type: ignore[no-any-return]


def _built(given: Mapping[str, Any], where: str) -> SameProviderRetryPolicy:
    strange = [str(name) for name in given if name not in _FIELDS]
    if strange:
        raise ConfigError(
            f"{where}: {strange[0]} is no known field; there are {_WRITABLE} and, in Python, wait"
        )
    try:
        return SameProviderRetryPolicy(**given)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _check_numbers(policy: Any, where: str) -> None:
    attempts = _read(policy, "max_attempts", where)
    asked = _read(policy, "should_retry", where)
    if attempts is _MISSING or not callable(asked):
        raise ConfigError(
            f"{where}: a retry policy needs max_attempts and should_retry(context), which "
            f"{type(policy).__name__} has not; give one, or the fields of SameProviderRetryPolicy"
        )
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        raise ConfigError(f"{where}: max_attempts must be a whole number from 1, not {attempts!r}")
    longest = _read(policy, "max_wait_seconds", where)
    if longest is not _MISSING and (
        isinstance(longest, bool) or not isinstance(longest, int | float) or not longest >= 0
    ):
        raise ConfigError(f"{where}: max_wait_seconds must be a number from 0, not {longest!r}")


def _check_wait(policy: Any, where: str) -> None:
    """Tried out once: what fails now would fail in each call."""
    wait = _read(policy, "wait", where)
    if wait is _MISSING or wait is None:
        return
    if not callable(wait):
        raise ConfigError(
            f"{where}: wait must be one of tenacity's, as wait_random_exponential(max=10), not {wait!r}"
        )
    try:
        seconds = seconds_of(wait, 1, _EXAMPLE)
    except Exception as error:
        raise ConfigError(
            f"{where}: wait must give a number of seconds; it raised {type(error).__name__}"
        ) from error
    if not math.isfinite(seconds):
        raise ConfigError(f"{where}: wait must give a number of seconds, not {seconds!r}")


def _check_providers(policy: Any, known: Collection[str], where: str) -> None:
    named = _read(policy, "provider_ids", where)
    if named is _MISSING or named is None:
        return
    if isinstance(named, str) or not isinstance(named, Collection):
        raise ConfigError(f"{where}: provider_ids must be a list, not {type(named).__name__}")
    strange = [str(name) for name in named if name not in known]
    if strange:
        raise ConfigError(f"{where} selects {', '.join(strange)}; the providers are {', '.join(known)}")


def _read(policy: Any, name: str, where: str) -> Any:
    try:
        return getattr(policy, name, _MISSING)
    except Exception as error:
        raise ConfigError(
            f"{where}: {name} of {type(policy).__name__} raised {type(error).__name__}"
        ) from error
