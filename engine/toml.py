"""A router's settings from a TOML file."""

import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from turnout.calls import StreamFailurePolicy
from turnout.checks import POLICY_NAMES, checked_providers, checked_scope, policy_of
from turnout.config import (
    LONGEST_SECONDS,
    BudgetConfig,
    HealthConfig,
    LedgerConfig,
    PoolConfig,
    ProviderConfig,
    StoreConfig,
)
from turnout.errors import ConfigError
from turnout.policies.contract import OrderingPolicy, Policy
from turnout.policies.least_loaded import LeastLoadedPolicy
from turnout.policies.retry import RetryPolicy
from turnout.policies.score import ScoreBasedPolicy
from turnout.retry_checks import retry_policies
from turnout.settings import Number, Settings


class RouterSettings(Settings):
    """A whole router file."""

    metrics_scope: str = "default"
    policy: Literal["round_robin", "preference", "score", "least_loaded"] = "round_robin"
    score: dict[str, Any] | None = None
    least_loaded: dict[str, Any] | None = None
    default_timeout_seconds: Number | None = Field(default=None, gt=0, le=LONGEST_SECONDS)
    stream_failure_policy: StreamFailurePolicy = StreamFailurePolicy.RESTART
    providers: tuple[ProviderConfig, ...]
    health: HealthConfig = Field(default_factory=HealthConfig)
    retry: dict[str, Any] | None = None
    budget: BudgetConfig = Field(default_factory=BudgetConfig)
    pool: PoolConfig = Field(default_factory=PoolConfig)
    ledger: LedgerConfig = Field(default_factory=LedgerConfig)
    metrics_store: StoreConfig = Field(default_factory=StoreConfig)

    @field_validator("providers", mode="before")
    @classmethod
    def _are_tables(cls, value: object) -> object:
        if not isinstance(value, list) or not value or not all(isinstance(each, Mapping) for each in value):
            raise ValueError("write [[providers]], in double brackets, above the lines of each provider")
        for name in ("health", "retry", "extra_body"):
            if any(not isinstance(each.get(name, {}), Mapping) and each[name] is not False for each in value):
                raise ValueError(f"write [providers.{name}], in single brackets, below its provider's lines")
        return value

    @field_validator(
        "health", "retry", "budget", "pool", "ledger", "metrics_store", "score", "least_loaded", mode="before"
    )
    @classmethod
    def _is_one_table(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            raise ValueError(f"write [{info.field_name}], in single brackets, and its settings below")
        return value


def settings_from_toml(path: str | Path) -> dict[str, Any]:
    """The constructor arguments of a ``ProviderRouter`` that a file describes.

    Raises ``ConfigError`` naming the file and the field.
    """
    if not isinstance(path, str | PathLike):
        raise ConfigError(f"the path of a router file was expected, not {type(path).__name__}")
    table = _table(Path(path))
    try:
        return _arguments(RouterSettings(**table))
    except ConfigError as error:
        # A file has tables; what they are called in Python says nothing to who writes one.
        raise type(error)(f"{path}: {_SETTINGS.sub('', str(error))}") from None


_SETTINGS: Final = re.compile(rf"\b(?:{'|'.join(kind.__name__ for kind in Settings.__subclasses__())}): ")


def _table(path: Path) -> dict[str, Any]:
    try:
        with path.expanduser().open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; give the path of a router file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{path} cannot be read: its arrays or tables are nested too deeply") from None
    except RuntimeError:
        # Of expanduser alone.
        raise ConfigError(
            f"{path} cannot be read: nobody knows the home folder of {path.parts[0]}; give the whole path"
        ) from None
    except ValueError as error:
        if "\0" in str(path) or isinstance(error, UnicodeEncodeError):
            raise ConfigError(f"{str(path)!r} is no path; give the path of a router file") from None
        # Python reads no integer of more than some thousand digits.
        raise ConfigError(f"{path} holds a number of too many digits; write a smaller one") from None


def _arguments(settings: RouterSettings) -> dict[str, Any]:
    configs = checked_providers(settings.providers)
    _refuse_waits(settings)
    shared, own = retry_policies(configs, settings.retry, "retry")
    return {
        "providers": tuple(_with_policy(config, own) for config in configs),
        "metrics_scope": checked_scope(settings.metrics_scope),
        "policy": _policy(settings),
        "default_timeout_seconds": settings.default_timeout_seconds,
        "stream_failure_policy": settings.stream_failure_policy,
        "health": settings.health,
        "retry_policy": shared,
        "budget": settings.budget,
        "pool": settings.pool,
        "ledger": settings.ledger,
        "metrics_store": settings.metrics_store,
    }


def _policy(settings: RouterSettings) -> Policy | OrderingPolicy:
    """The policy that is named, made from the table of that name."""
    known: dict[str, tuple[Callable[..., Policy], dict[str, Any] | None]] = {
        "score": (ScoreBasedPolicy, settings.score),
        "least_loaded": (LeastLoadedPolicy, settings.least_loaded),
    }
    for name, (kind, table) in known.items():
        if table is not None and settings.policy != name:
            raise ConfigError(f'[{name}] goes with policy = "{name}", not "{settings.policy}"')
        if table is not None:
            try:
                return kind(**_written(kind, table))
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from None
    return policy_of(settings.policy)


def _written(kind: Callable[..., Policy], table: Mapping[str, Any]) -> dict[str, Any]:
    """A table's settings as the arguments of a policy. Time is an object, which no file can hold."""
    known = [name for name in inspect.signature(kind).parameters if name not in ("now", "clock")]
    strange = [name for name in table if name not in known]
    if strange:
        raise ConfigError(f"{strange[0]} is no known field; there are {', '.join(known)}")
    if "tie_break_policy" not in table:
        return dict(table)
    named = table["tie_break_policy"]
    if not isinstance(named, str):
        raise ConfigError(f"tie_break_policy must be one of {', '.join(POLICY_NAMES)}, not {named!r}")
    return {**table, "tie_break_policy": policy_of(named)}


def _with_policy(config: ProviderConfig, own: Mapping[str, RetryPolicy | None]) -> ProviderConfig:
    """With the policy that its table describes. It is made once: what warns would warn again."""
    if not isinstance(config.retry, Mapping):
        return config
    return config.model_copy(update={"retry": own[config.provider_id]})


def _refuse_waits(settings: RouterSettings) -> None:
    """A wait is an object, which no file can hold."""
    retries = [("retry", settings.retry)] + [
        (f"retry of {config.provider_id}", config.retry) for config in settings.providers
    ]
    for where, retry in retries:
        if isinstance(retry, Mapping) and "wait" in retry:
            raise ConfigError(
                f"{where}: wait cannot be written in a file; leave it out, or give "
                "retry_policy=SameProviderRetryPolicy(wait=...) to from_toml() or the constructor"
            )
