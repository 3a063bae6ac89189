"""The door: a router over provider configurations."""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from turnout.actors.health import ProviderHealthReport
from turnout.adapters.built_in import SUPPORTED_PROTOCOLS, BuiltInAdapters
from turnout.adapters.contract import AnyAdapter
from turnout.adapters.native import Classifier, NativeCall, NativeProvider
from turnout.adapters.openai_usage import usage_of
from turnout.calls import ApiProtocol, CallVariant, Identity, StreamFailurePolicy
from turnout.checks import (
    UNSET,
    Unset,
    checked_callable,
    checked_failure_policy,
    checked_protocols,
    checked_providers,
    checked_scope,
    checked_timeout,
    checked_wait,
    clock_of,
    policy_of,
    rng_of,
    store_of,
)
from turnout.client import RoutedClient
from turnout.clock import Clock
from turnout.config import (
    MOST_WORKERS,
    BudgetConfig,
    HealthConfig,
    LedgerConfig,
    PoolConfig,
    ProviderConfig,
    StoreConfig,
)
from turnout.engine import Engine, OnRestart
from turnout.engine_stats import EngineStats
from turnout.errors import ConfigError
from turnout.future import InvocationFuture
from turnout.invocation import Target
from turnout.plant import Setup
from turnout.policies.contract import OrderingPolicy, Policy
from turnout.policies.retry import RetryPolicy
from turnout.retry_checks import retries_of
from turnout.runtime.threads import ThreadRuntime
from turnout.settings import settings_of
from turnout.storage.contract import MetricsStore

Calls = CallVariant | Iterable[CallVariant]


class ProviderRouter:
    """Routes native calls over interchangeable providers, and records every attempt.

    ``providers`` are tried in the order that ``policy`` gives (round robin by default); one that fails is followed by
    the next. ``retry_policy`` may try the same one again first (never by default), within ``budget``. ``health``,
    ``pool``, ``budget`` and ``ledger`` take their settings or a plain dict. ``metrics_store`` is by default
    DuckDB at ``~/.turnout/metrics.duckdb``; a ``StoreConfig`` names another place, None keeps nothing, and a store of
    your own is yours to close.
    ``adapter_factory(config)`` is called for each attempt and may serve the protocols in ``supported_protocols``.
    ``classify(error)`` may name the Fault of an error before turnout does. Safe for any number of threads; close it,
    or use it as a context manager.

    Raises ``ConfigError`` for what cannot work.
    """

    def __init__(
        self,
        providers: Sequence[ProviderConfig | Mapping[str, Any]],
        metrics_scope: str = "default",
        *,
        policy: Policy | OrderingPolicy | str | None = None,
        retry_policy: RetryPolicy | Mapping[str, Any] | None = None,
        health: HealthConfig | Mapping[str, Any] | None = None,
        pool: PoolConfig | Mapping[str, Any] | None = None,
        metrics_store: MetricsStore | StoreConfig | Mapping[str, Any] | Unset | None = UNSET,
        ledger: LedgerConfig | Mapping[str, Any] | None = None,
        budget: BudgetConfig | Mapping[str, Any] | None = None,
        stream_failure_policy: StreamFailurePolicy | str = StreamFailurePolicy.RESTART,
        on_restart: OnRestart | None = None,
        classify: Classifier | None = None,
        adapter_factory: Callable[[ProviderConfig], AnyAdapter] | None = None,
        supported_protocols: Collection[ApiProtocol] | None = None,
        default_timeout_seconds: float | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._scope = checked_scope(metrics_scope)
        self._configs = checked_providers(providers)
        self._on_restart = checked_callable("on_restart", on_restart)
        self._failure_policy = checked_failure_policy(stream_failure_policy)
        self._timeout = checked_timeout(default_timeout_seconds)
        checked_callable("classify", classify)
        checked_callable("adapter_factory", adapter_factory)
        clock = clock_of(clock)
        workers = settings_of(PoolConfig, pool)
        built_in = BuiltInAdapters(clock)
        protocols = checked_protocols(
            SUPPORTED_PROTOCOLS if supported_protocols is None else supported_protocols
        )
        adapter_of = adapter_factory if adapter_factory is not None else built_in
        if adapter_factory is None:
            built_in.prepare({config.protocol for config in self._configs if config.enabled})
        natives = [NativeProvider(config, adapter_of, protocols, classify) for config in self._configs]
        store, owns_store = store_of(metrics_store)
        self._engine = Engine(
            Setup(
                name=metrics_scope,
                targets=tuple(
                    _target(native, cuttable=adapter_factory is None and classify is None)
                    for native in natives
                ),
                policy=policy_of(policy),
                health=settings_of(HealthConfig, health),
                pool=workers,
                ledger=settings_of(LedgerConfig, ledger),
                store=store,
                owns_store=owns_store,
                metrics_scope=metrics_scope,
                clock=clock,
                rng=rng_of(rng),
                close_targets=built_in.close,
                retry_policies=retries_of(self._configs, retry_policy),
                budget=settings_of(BudgetConfig, budget),
                runtime=lambda: ThreadRuntime(metrics_scope, clock=clock, **workers.model_dump()),
            )
        )

    @classmethod
    def from_toml(cls, path: str | Path, **overrides: Any) -> Self:
        """A router from a TOML file; ``overrides`` are constructor arguments that replace what the file says, which
        must be right all the same.

        Raises ``ConfigError`` naming the file and the field.
        """
        from turnout.toml import settings_from_toml

        return cls(**{**settings_from_toml(path), **overrides})

    @property
    def providers(self) -> tuple[ProviderConfig, ...]:
        """The configurations as given, in their order."""
        return self._configs

    @property
    def metrics_scope(self) -> str:
        """Under which name the ledger keeps this router's attempts."""
        return self._scope

    def submit(
        self,
        calls: Calls,
        *,
        timeout: float | None = None,
        block: bool = False,
        stream_failure_policy: StreamFailurePolicy | str | None = None,
        on_restart: OnRestart | None = None,
    ) -> InvocationFuture:
        """Queue a call for the worker pool; the future has the SDK's own answer, or a ``RouterStream``.

        ``timeout`` seconds bound the whole invocation up to an answer or a stream's first content, its time in the
        queue too. Where the queue is full it raises
        ``RouterBusyError``; with ``block`` it waits for a place within the timeout.
        """
        call = NativeCall.of(calls)
        return self._engine.submit(
            call,
            call.call_type,
            self._timeout if timeout is None else checked_timeout(timeout),
            block,
            self._failure_policy
            if stream_failure_policy is None
            else checked_failure_policy(stream_failure_policy),
            self._on_restart if on_restart is None else checked_callable("on_restart", on_restart),
        )

    def invoke(
        self,
        calls: Calls,
        *,
        timeout: float | None = None,
        stream_failure_policy: StreamFailurePolicy | str | None = None,
        on_restart: OnRestart | None = None,
    ) -> Any:
        """Call on this very thread and give back the SDK's own answer, or a ``RouterStream``.

        Raises ``NoEligibleProvidersError``, ``RouterExhaustedError``, ``DeadlineExceededError`` or a ``CallError``.
        """
        call = NativeCall.of(calls)
        return self._engine.invoke(
            call,
            call.call_type,
            self._timeout if timeout is None else checked_timeout(timeout),
            self._failure_policy
            if stream_failure_policy is None
            else checked_failure_policy(stream_failure_policy),
            self._on_restart if on_restart is None else checked_callable("on_restart", on_restart),
        )

    async def ainvoke(
        self,
        calls: Calls,
        *,
        timeout: float | None = None,
        stream_failure_policy: StreamFailurePolicy | str | None = None,
        on_restart: OnRestart | None = None,
    ) -> Any:
        """``submit`` for async code: awaits the answer. Cancelling the awaiting task cuts the call."""
        future = self.submit(
            calls, timeout=timeout, stream_failure_policy=stream_failure_policy, on_restart=on_restart
        )
        return await asyncio.wrap_future(future)

    def client(self) -> RoutedClient:
        """A client in the shape of ``openai.OpenAI``: ``client.chat.completions.create(...)`` and
        ``client.responses.create(...)``, also with ``stream=True``. A ``model`` given there is replaced."""
        return RoutedClient(self.invoke)

    def health_report(self) -> dict[str, ProviderHealthReport]:
        """Every provider's health, by ``provider_id``."""
        return self._engine.health_report()

    def reset_health(self, provider_id: str | None = None) -> None:
        """Treat one provider, or all, as new. Raises ``ConfigError`` for an unknown id."""
        self._engine.reset_health(provider_id)

    def stats(self) -> EngineStats:
        """Counts as of now: workers, queue, pending futures, calls in line, open streams, the ledger's rows."""
        return self._engine.stats()

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until every attempt so far is written; False where that failed or took longer than ``timeout``."""
        return self._engine.flush(checked_wait(timeout))

    def resize(self, max_workers: int) -> None:
        """Change the number of workers, and with it each provider's share, while running; surplus ones finish
        what they are doing."""
        if (
            isinstance(max_workers, bool)
            or not isinstance(max_workers, int)
            or not 1 <= max_workers <= MOST_WORKERS
        ):
            raise ConfigError(f"max_workers must be a whole number from 1 to {MOST_WORKERS}")
        self._engine.resize(max_workers)

    def close(self, timeout: float | None = None) -> None:
        """Refuse new work, let submitted calls end (within ``timeout`` seconds, if given; then cut them), write the
        ledger and end the threads. Streams in callers' hands stay readable. Idempotent.

        Raises ``ThreadsStillRunningError`` naming threads that would not end.
        """
        self._engine.close(None if timeout is None else checked_wait(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        ids = [config.provider_id for config in self._configs]
        return f"{type(self).__name__}(providers={ids}, metrics_scope={self._scope!r})"


def _target(native: NativeProvider, *, cuttable: bool) -> Target:
    config = native.config
    return Target(
        Identity(config.provider_id, config.name, config.model, config.protocol.value),
        config.provider_id,
        native.supports,
        native.why_not,
        native.invoke,
        native.classify,
        native.assess,
        usage_of,
        config.timeout_seconds,
        config.max_concurrency,
        config.health,
        config.min_interval_seconds,
        config.enabled,
        told=native.told,
        cuttable=cuttable,
        context_window=config.context_window,
        first_token_seconds=config.first_token_timeout_seconds,
        idle_seconds=config.idle_timeout_seconds,
    )
