"""What an engine is made from, and what it is made of: threads, queues, and who owns what."""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from turnout.actors.health import Health
from turnout.actors.ledger import Ledger
from turnout.actors.ordering import Ordering
from turnout.bulkheads import Bulkheads
from turnout.clock import Clock
from turnout.committing import Committing
from turnout.config import BudgetConfig, HealthConfig, LedgerConfig, PoolConfig
from turnout.decisions.budget import Refill
from turnout.decisions.circuit import Thresholds
from turnout.eligibility import Eligibility
from turnout.errors import ThreadsStillRunningError
from turnout.execution import Execution
from turnout.in_flight import counted
from turnout.invocation import Progress, Target
from turnout.judging import Judge
from turnout.overdue import Overdue
from turnout.policies.contract import OrderingPolicy, Policy
from turnout.policies.retry import RetryPolicy
from turnout.policies.wiring import ReadsClock, ReadsLoad
from turnout.reaper import StreamRegistry
from turnout.retrying import Retries
from turnout.runtime.contract import Runtime
from turnout.runtime.steps import Walk
from turnout.storage.contract import MetricsStore
from turnout.storage.spool import Spool
from turnout.storage.spool_place import spool_folder


@dataclass(frozen=True, slots=True)
class Plant:
    """Everything of an engine that must be new in a forked child: threads, queues, connections."""

    runtime: Runtime
    health: Health
    ordering: Ordering
    ledger: Ledger
    bulkheads: Bulkheads
    execution: Execution
    #: How invocations are walked.
    walk: Callable[[Progress], Walk]
    streams: StreamRegistry
    overdue: Overdue


@dataclass(frozen=True, slots=True)
class Setup:
    """What an engine is made from. ``close_targets`` runs at the end, once nothing uses them any more."""

    name: str
    targets: tuple[Target, ...]
    policy: Policy | OrderingPolicy
    health: HealthConfig
    pool: PoolConfig
    ledger: LedgerConfig
    store: MetricsStore | None
    owns_store: bool
    metrics_scope: str
    clock: Clock
    rng: random.Random
    close_targets: Callable[[], None]
    runtime: Callable[[], Runtime]
    #: By provider id.
    retry_policies: Mapping[str, RetryPolicy] = field(default_factory=dict)
    budget: BudgetConfig = field(default_factory=BudgetConfig)


def built(setup: Setup) -> Plant:
    """Everything, started."""
    runtime = setup.runtime()
    try:
        return _built_on(runtime, setup)
    except BaseException:
        # A policy may refuse these providers, or an interrupt come: the threads that have started must not stay.
        with suppress(ThreadsStillRunningError):
            runtime.stop(1.0)
        raise


def ended(setup: Setup) -> Plant:
    """Everything as it is after its end: it still tells of health, and starts no thread."""
    runtime = setup.runtime()
    runtime.stop(0.0)
    return _built_on(runtime, setup)


def _thresholds(setup: Setup, target: Target) -> Thresholds:
    settings = setup.health.merged_with(target.health)
    return Thresholds(**settings.model_dump(exclude={"when_all_benched"}))


def _counted_for(setup: Setup) -> tuple[Target, ...]:
    """The targets, counting what is in flight where the policy goes by it."""
    policy, targets = setup.policy, setup.targets
    if isinstance(policy, ReadsClock):
        policy.bind_clock(setup.clock)
    if isinstance(policy, ReadsLoad):
        targets, load = counted(targets)
        policy.bind_load(load)
    return targets


def _spool(setup: Setup) -> Spool | None:
    folder = None if setup.store is None else spool_folder(setup.store, setup.ledger.spool_dir)
    return None if folder is None else Spool(folder)


def _built_on(runtime: Runtime, setup: Setup) -> Plant:
    identities = [target.identity for target in setup.targets]
    refill = Refill(setup.budget.ratio, setup.budget.per_second, setup.budget.max_tokens)
    thresholds = {target.identity: _thresholds(setup, target) for target in setup.targets}
    health = Health(thresholds, refill, runtime)
    ledger = Ledger(
        setup.store,
        setup.metrics_scope,
        setup.ledger,
        runtime,
        closes_store=setup.owns_store,
        spool=_spool(setup),
    )
    targets = _counted_for(setup)
    ordering = Ordering(setup.policy, identities, runtime, ledger)
    runtime.start()
    bulkheads = Bulkheads(targets, runtime)
    eligibility = Eligibility(
        bulkheads.targets, health, health.circuits, setup.clock, setup.health.when_all_benched
    )
    retries = Retries(setup.retry_policies, health, health.circuits, setup.clock)
    execution = Execution(
        eligibility,
        retries,
        setup.budget.max_attempts_per_call,
        health,
        health.circuits,
        ordering,
        Judge(health.circuits, ordering, ledger, setup.clock),
        setup.clock,
    )
    return Plant(
        runtime,
        health,
        ordering,
        ledger,
        bulkheads,
        execution,
        Committing(execution, ledger, setup.clock).walk if setup.ledger.is_durable else execution.walk,
        StreamRegistry(f"turnout-{setup.name}-streams"),
        Overdue(runtime),
    )
