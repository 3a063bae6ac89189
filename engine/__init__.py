"""turnout gets an LLM call answered: over interchangeable providers, with every attempt recorded."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnout.actors.health import ProviderHealthReport
from turnout.adapters.contract import NativeAdapter, NormalizedStream
from turnout.calls import (
    ApiProtocol,
    Attempt,
    CallType,
    CallVariant,
    FilterReason,
    Identity,
    Outcome,
    Reason,
    Report,
    StreamFailurePolicy,
    StreamRestart,
    Usage,
)
from turnout.checks import UNSET
from turnout.config import HealthConfig, LedgerConfig, PoolConfig, ProviderConfig, StoreConfig
from turnout.engine import EngineStats
from turnout.errors import (
    CallError,
    ConfigError,
    DeadlineExceededError,
    DuplicateCallVariantProtocolError,
    Exclusion,
    FailedAttempt,
    InvalidCallError,
    InvalidOperationArgumentsError,
    MissingApiKeyError,
    MixedCallTypeError,
    ModelArgumentConflictError,
    NoCallVariantError,
    NoEligibleProvidersError,
    NoProvidersConfiguredError,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderResponsesError,
    ProviderSDKNotInstalledError,
    ProviderStreamInterruptedError,
    ProviderTimeoutError,
    ReentrantCallError,
    RouteError,
    RouterBusyError,
    RouterClosedError,
    RouterExhaustedError,
    SchemaMismatchError,
    StorageDriverMissingError,
    StorageError,
    StorageLockedError,
    ThreadsStillRunningError,
    TurnoutError,
    UnsupportedOperationError,
    UnsupportedProtocolError,
)
from turnout.faults import Failure, Fault
from turnout.future import InvocationFuture
from turnout.policies.contract import OrderingPolicy, Policy, Ranking, RoutingContext
from turnout.policies.preference import PreferencePolicy
from turnout.policies.round_robin import RoundRobinPolicy
from turnout.router import ProviderRouter
from turnout.storage.contract import MetricsStore
from turnout.storage.rows import Row
from turnout.streaming import RouterStream

if TYPE_CHECKING:
    from turnout.storage.duckdb import DuckDBMetricsStore
    from turnout.storage.memory import MemoryMetricsStore
    from turnout.storage.sqlite import SQLiteMetricsStore

#: Stores, imported when they are asked for: most programs use one of them, or none.
_STORES = {
    "DuckDBMetricsStore": "turnout.storage.duckdb",
    "MemoryMetricsStore": "turnout.storage.memory",
    "SQLiteMetricsStore": "turnout.storage.sqlite",
}


def __getattr__(name: str) -> Any:
    if name in _STORES:
        return getattr(import_module(_STORES[name]), name)
    raise AttributeError(f"module 'turnout' has no attribute {name!r}")


__all__ = [
    "UNSET",
    "ApiProtocol",
    "Attempt",
    "CallError",
    "CallType",
    "CallVariant",
    "ConfigError",
    "DeadlineExceededError",
    "DuckDBMetricsStore",
    "DuplicateCallVariantProtocolError",
    "EngineStats",
    "Exclusion",
    "FailedAttempt",
    "Failure",
    "Fault",
    "FilterReason",
    "HealthConfig",
    "Identity",
    "InvalidCallError",
    "InvalidOperationArgumentsError",
    "InvocationFuture",
    "LedgerConfig",
    "MemoryMetricsStore",
    "MetricsStore",
    "MissingApiKeyError",
    "MixedCallTypeError",
    "ModelArgumentConflictError",
    "NativeAdapter",
    "NoCallVariantError",
    "NoEligibleProvidersError",
    "NoProvidersConfiguredError",
    "NormalizedStream",
    "OrderingPolicy",
    "Outcome",
    "Policy",
    "PoolConfig",
    "PreferencePolicy",
    "ProviderConfig",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderHTTPError",
    "ProviderHealthReport",
    "ProviderResponsesError",
    "ProviderRouter",
    "ProviderSDKNotInstalledError",
    "ProviderStreamInterruptedError",
    "ProviderTimeoutError",
    "Ranking",
    "Reason",
    "ReentrantCallError",
    "Report",
    "RoundRobinPolicy",
    "RouteError",
    "RouterBusyError",
    "RouterClosedError",
    "RouterExhaustedError",
    "RouterStream",
    "RoutingContext",
    "Row",
    "SQLiteMetricsStore",
    "SchemaMismatchError",
    "StorageDriverMissingError",
    "StorageError",
    "StorageLockedError",
    "StoreConfig",
    "StreamFailurePolicy",
    "StreamRestart",
    "ThreadsStillRunningError",
    "TurnoutError",
    "UnsupportedOperationError",
    "UnsupportedProtocolError",
    "Usage",
]
