"""What a router is built from, checked: every refusal is a ``ConfigError`` that says what would do."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

from turnout.calls import ApiProtocol, StreamFailurePolicy
from turnout.clock import Clock, SystemClock
from turnout.config import LONGEST_SECONDS, ProviderConfig, StoreConfig
from turnout.errors import ConfigError, NoProvidersConfiguredError
from turnout.policies.contract import OrderingPolicy, Policy
from turnout.policies.least_loaded import LeastLoadedPolicy
from turnout.policies.preference import PreferencePolicy
from turnout.policies.round_robin import RoundRobinPolicy
from turnout.policies.score import ScoreBasedPolicy
from turnout.settings import settings_of
from turnout.storage.contract import MetricsStore

#: The policies that a word stands for.
POLICY_NAMES: Final = ("round_robin", "preference", "score", "least_loaded")


class Unset:
    """Not given, where None means something else."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()


def checked_providers(providers: Sequence[ProviderConfig | Mapping[str, Any]]) -> tuple[ProviderConfig, ...]:
    if not isinstance(providers, Iterable):
        raise ConfigError(f"providers must be a sequence of ProviderConfig, not {type(providers).__name__}")
    configs = tuple(settings_of(ProviderConfig, provider) for provider in providers)
    if not configs:
        raise NoProvidersConfiguredError("a router needs at least one ProviderConfig")
    ids = [config.provider_id for config in configs]
    repeated = sorted({provider_id for provider_id in ids if ids.count(provider_id) > 1})
    if repeated:
        raise ConfigError(f"provider_id must be unique in a router; given twice: {', '.join(repeated)}")
    return configs


def checked_scope(scope: str) -> str:
    if not isinstance(scope, str) or not scope.strip() or not scope.isprintable():
        raise ConfigError("metrics_scope must be a printable text that is not blank")
    return scope


CallableT = TypeVar("CallableT", bound=Callable[..., Any] | None)


def checked_callable(name: str, given: CallableT) -> CallableT:
    if given is not None and not callable(given):
        raise ConfigError(f"{name} must be callable, not {type(given).__name__}")
    return given


def checked_protocols(given: Collection[ApiProtocol]) -> frozenset[ApiProtocol]:
    """The protocols that adapters of the user's own serve; their words do as well."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"supported_protocols must be a collection of ApiProtocol, not {given!r}")
    try:
        return frozenset(ApiProtocol(protocol) for protocol in given)
    except ValueError:
        known = ", ".join(protocol.value for protocol in ApiProtocol)
        raise ConfigError(f"supported_protocols may hold {known}, not {given!r}") from None


def clock_of(given: Clock | None) -> Clock:
    if given is None:
        return SystemClock()
    # A class has the methods of its objects, and none that could be called.
    if isinstance(given, type) or not all(
        callable(getattr(given, method, None)) for method in ("monotonic", "wall", "wait")
    ):
        raise ConfigError(f"clock must be an object with monotonic(), wall() and wait(), not {given!r}")
    return given


def rng_of(given: Random | None) -> Random:
    if given is None:
        return Random()
    if not isinstance(given, Random):
        raise ConfigError(f"rng must be a random.Random, not {given!r}")
    return given


def policy_of(given: Policy | OrderingPolicy | str | None) -> Policy | OrderingPolicy:
    match given:
        case None:
            return RoundRobinPolicy()
        case str():
            return _policy_named(given)
        case type():
            raise ConfigError(f"policy must be an object: give {given.__name__}(...), not the class")
        case _:
            return given


def _policy_named(name: str) -> Policy:
    match name:
        case "round_robin":
            return RoundRobinPolicy()
        case "preference":
            return PreferencePolicy()
        case "score":
            return ScoreBasedPolicy()
        case "least_loaded":
            return LeastLoadedPolicy()
        case _:
            known = ", ".join(f'"{word}"' for word in POLICY_NAMES)
            raise ConfigError(f"policy must be {known} or an object, not {name!r}")


def checked_failure_policy(policy: StreamFailurePolicy | str) -> StreamFailurePolicy:
    try:
        return StreamFailurePolicy(policy)
    except ValueError:
        known = ", ".join(member.value for member in StreamFailurePolicy)
        raise ConfigError(f"stream_failure_policy must be one of {known}, not {policy!r}") from None


def checked_wait(seconds: float) -> float:
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 <= seconds <= LONGEST_SECONDS
    ):
        raise ConfigError(
            f"a timeout must be a number of seconds from 0 to {LONGEST_SECONDS:g}, not {seconds!r}"
        )
    return float(seconds)


def checked_timeout(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not 0 < timeout <= LONGEST_SECONDS
    ):
        raise ConfigError(
            f"a timeout must be a number of seconds above 0, up to {LONGEST_SECONDS:g}, not {timeout!r}"
        )
    return float(timeout)


def store_of(
    given: MetricsStore | StoreConfig | Mapping[str, Any] | Unset | None,
) -> tuple[MetricsStore | None, bool]:
    """The store, and whether it is the router's own to close."""
    if given is None:
        return None, False
    if isinstance(given, Unset):
        given = StoreConfig()
    if isinstance(given, StoreConfig | Mapping):
        return _built_store(settings_of(StoreConfig, given)), True
    if isinstance(given, type):
        raise ConfigError(f"metrics_store must be an object: give {given.__name__}(...), not the class")
    missing = [
        method
        for method in ("record_attempts", "query_recent", "query_score_aggregates", "close")
        if not callable(getattr(given, method, None))
    ]
    if missing:
        raise ConfigError(
            f"metrics_store {type(given).__name__} has no {', '.join(missing)}; see MetricsStore"
        )
    return given, False


def _built_store(config: StoreConfig) -> MetricsStore | None:
    match config.backend:
        case "none":
            return None
        case "duckdb":
            from turnout.storage.duckdb import DuckDBMetricsStore

            return DuckDBMetricsStore(config.path)
        case "sqlite":
            from turnout.storage.sqlite import SQLiteMetricsStore

            return SQLiteMetricsStore(str(config.path))
        case "postgres":
            from turnout.storage.postgres import PostgresMetricsStore
            from turnout.storage.postgres_target import url_in

            return PostgresMetricsStore(url_in(config.url_env), config.postgres)
