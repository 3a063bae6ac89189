"""turnout gets an LLM call answered: over interchangeable providers, with every attempt recorded."""

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnout.actors.health import ProviderHealthReport
    from turnout.actors.ledger import LedgerStats
    from turnout.adapters.contract import LimitedAdapter, NativeAdapter, NormalizedStream, TimedAdapter
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
    from turnout.config import (
        BudgetConfig,
        HealthConfig,
        LedgerConfig,
        PoolConfig,
        ProviderConfig,
        StoreConfig,
    )
    from turnout.deadline import Limit
    from turnout.decisions.aggregates import Partition, ScoreAggregate, ScoreAggregateQuery
    from turnout.decisions.circuit import State
    from turnout.decisions.history import ProviderHistory
    from turnout.decisions.scoring import ProviderScore, ScoreWeights, calculate_provider_score
    from turnout.decisions.stats import ProviderStats, aggregate_stats
    from turnout.engine_stats import EngineStats
    from turnout.errors import (
        CallError,
        ConfigError,
        DatabaseExistsError,
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
    from turnout.policies.least_loaded import LeastLoadedPolicy
    from turnout.policies.preference import PreferencePolicy
    from turnout.policies.retry import (
        RetryContext,
        RetryPolicy,
        RetryProviderScope,
        SameProviderRetryPolicy,
    )
    from turnout.policies.round_robin import RoundRobinPolicy
    from turnout.policies.score import ScoreBasedPolicy
    from turnout.policies.score_history import HistoryScope
    from turnout.policies.sticky import StickyRoutingPolicy
    from turnout.postgres_config import PostgresConfig
    from turnout.router import ProviderRouter
    from turnout.storage.contract import MetricsStore
    from turnout.storage.duckdb import DuckDBMetricsStore
    from turnout.storage.memory import MemoryMetricsStore
    from turnout.storage.postgres import PostgresMetricsStore
    from turnout.storage.rows import Row
    from turnout.storage.schema.admin import create_database, inspect_database, migrate_database
    from turnout.storage.schema.facts import (
        ComponentVersion,
        DatabaseCreated,
        DatabaseMigrated,
        DatabaseState,
        SchemaState,
        StorageBackend,
    )
    from turnout.storage.sqlite import SQLiteMetricsStore
    from turnout.streaming import RouterStream

#: Where each public name lives. Its module is imported when the name is first asked for, so that ``import turnout``
#: costs a program nothing before it needs a router, and never a store or an SDK that it does not use.
_MODULES = {
    "actors.health": "ProviderHealthReport",
    "actors.ledger": "LedgerStats",
    "adapters.contract": "LimitedAdapter NativeAdapter NormalizedStream TimedAdapter",
    "calls": (
        "ApiProtocol Attempt CallType CallVariant FilterReason Identity Outcome Reason Report "
        "StreamFailurePolicy StreamRestart Usage"
    ),
    "checks": "UNSET",
    "config": "BudgetConfig HealthConfig LedgerConfig PoolConfig ProviderConfig StoreConfig",
    "deadline": "Limit",
    "decisions.aggregates": "Partition ScoreAggregate ScoreAggregateQuery",
    "decisions.circuit": "State",
    "decisions.history": "ProviderHistory",
    "decisions.scoring": "ProviderScore ScoreWeights calculate_provider_score",
    "decisions.stats": "ProviderStats aggregate_stats",
    "engine_stats": "EngineStats",
    "errors": (
        "CallError ConfigError DatabaseExistsError DeadlineExceededError "
        "DuplicateCallVariantProtocolError Exclusion "
        "FailedAttempt InvalidCallError InvalidOperationArgumentsError MissingApiKeyError "
        "MixedCallTypeError ModelArgumentConflictError NoCallVariantError NoEligibleProvidersError "
        "NoProvidersConfiguredError ProviderConnectionError ProviderError ProviderHTTPError "
        "ProviderResponsesError ProviderSDKNotInstalledError ProviderStreamInterruptedError "
        "ProviderTimeoutError ReentrantCallError RouteError RouterBusyError RouterClosedError "
        "RouterExhaustedError SchemaMismatchError StorageDriverMissingError StorageError "
        "StorageLockedError ThreadsStillRunningError TurnoutError UnsupportedOperationError "
        "UnsupportedProtocolError"
    ),
    "faults": "Failure Fault",
    "future": "InvocationFuture",
    "policies.contract": "OrderingPolicy Policy Ranking RoutingContext",
    "policies.least_loaded": "LeastLoadedPolicy",
    "policies.preference": "PreferencePolicy",
    "policies.retry": "RetryContext RetryPolicy RetryProviderScope SameProviderRetryPolicy",
    "policies.round_robin": "RoundRobinPolicy",
    "policies.score": "ScoreBasedPolicy",
    "policies.score_history": "HistoryScope",
    "policies.sticky": "StickyRoutingPolicy",
    "postgres_config": "PostgresConfig",
    "router": "ProviderRouter",
    "storage.contract": "MetricsStore",
    "storage.duckdb": "DuckDBMetricsStore",
    "storage.memory": "MemoryMetricsStore",
    "storage.postgres": "PostgresMetricsStore",
    "storage.rows": "Row",
    "storage.schema.admin": "create_database inspect_database migrate_database",
    "storage.schema.facts": (
        "ComponentVersion DatabaseCreated DatabaseMigrated DatabaseState SchemaState StorageBackend"
    ),
    "storage.sqlite": "SQLiteMetricsStore",
    "streaming": "RouterStream",
}
_is_gil_enabled = getattr(sys, "_is_gil_enabled", None)
if _is_gil_enabled is not None and not _is_gil_enabled():
    warnings.warn(
        "turnout is made for Python with its global interpreter lock, which is off here: start it with PYTHON_GIL=1",
        RuntimeWarning,
        stacklevel=2,
    )
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:
    # Type checkers are to tell of a name that is not there, which they do not where this is seen.

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            return _submodule(name)
        value = getattr(import_module(f"turnout.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value

    def _submodule(name: str) -> Any:
        """``turnout.errors`` after ``import turnout`` alone, too."""
        try:
            return import_module(f"turnout.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"turnout.{name}":
                raise
            raise AttributeError(f"module 'turnout' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "UNSET",
    "ApiProtocol",
    "Attempt",
    "BudgetConfig",
    "CallError",
    "CallType",
    "CallVariant",
    "ComponentVersion",
    "ConfigError",
    "DatabaseCreated",
    "DatabaseExistsError",
    "DatabaseMigrated",
    "DatabaseState",
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
    "HistoryScope",
    "Identity",
    "InvalidCallError",
    "InvalidOperationArgumentsError",
    "InvocationFuture",
    "LeastLoadedPolicy",
    "LedgerConfig",
    "LedgerStats",
    "Limit",
    "LimitedAdapter",
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
    "Partition",
    "Policy",
    "PoolConfig",
    "PostgresConfig",
    "PostgresMetricsStore",
    "PreferencePolicy",
    "ProviderConfig",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderHTTPError",
    "ProviderHealthReport",
    "ProviderHistory",
    "ProviderResponsesError",
    "ProviderRouter",
    "ProviderSDKNotInstalledError",
    "ProviderScore",
    "ProviderStats",
    "ProviderStreamInterruptedError",
    "ProviderTimeoutError",
    "Ranking",
    "Reason",
    "ReentrantCallError",
    "Report",
    "RetryContext",
    "RetryPolicy",
    "RetryProviderScope",
    "RoundRobinPolicy",
    "RouteError",
    "RouterBusyError",
    "RouterClosedError",
    "RouterExhaustedError",
    "RouterStream",
    "RoutingContext",
    "Row",
    "SQLiteMetricsStore",
    "SameProviderRetryPolicy",
    "SchemaMismatchError",
    "SchemaState",
    "ScoreAggregate",
    "ScoreAggregateQuery",
    "ScoreBasedPolicy",
    "ScoreWeights",
    "State",
    "StickyRoutingPolicy",
    "StorageBackend",
    "StorageDriverMissingError",
    "StorageError",
    "StorageLockedError",
    "StoreConfig",
    "StreamFailurePolicy",
    "StreamRestart",
    "ThreadsStillRunningError",
    "TimedAdapter",
    "TurnoutError",
    "UnsupportedOperationError",
    "UnsupportedProtocolError",
    "Usage",
    "aggregate_stats",
    "calculate_provider_score",
    "create_database",
    "inspect_database",
    "migrate_database",
]
