"""A router's settings from a TOML file."""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from turnout.calls import StreamFailurePolicy
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
from turnout.settings import Number, Settings


class RouterSettings(Settings):
    """A whole router file."""

    metrics_scope: str = "default"
    policy: Literal["round_robin", "preference"] = "round_robin"
    default_timeout_seconds: Number | None = Field(default=None, gt=0, le=LONGEST_SECONDS)
    stream_failure_policy: StreamFailurePolicy = StreamFailurePolicy.RESTART
    providers: tuple[ProviderConfig, ...] = Field(min_length=1)
    health: HealthConfig = Field(default_factory=HealthConfig)
    retry: dict[str, Any] | None = None
    budget: BudgetConfig = Field(default_factory=BudgetConfig)
    pool: PoolConfig = Field(default_factory=PoolConfig)
    ledger: LedgerConfig = Field(default_factory=LedgerConfig)
    metrics_store: StoreConfig = Field(default_factory=StoreConfig)


def settings_from_toml(path: Path) -> dict[str, Any]:
    """The constructor arguments of a ``ProviderRouter`` that a file describes.

    Raises ``ConfigError`` naming the file and the field.
    """
    try:
        with path.expanduser().open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; give the path of a router file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    try:
        settings = RouterSettings(**table)
    except ConfigError as error:
        raise type(error)(f"{path}: {error}") from None
    return {
        "providers": settings.providers,
        "metrics_scope": settings.metrics_scope,
        "policy": settings.policy,
        "default_timeout_seconds": settings.default_timeout_seconds,
        "stream_failure_policy": settings.stream_failure_policy,
        "health": settings.health,
        "retry_policy": settings.retry,
        "budget": settings.budget,
        "pool": settings.pool,
        "ledger": settings.ledger,
        "metrics_store": settings.metrics_store,
    }
