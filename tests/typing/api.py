"""What type checkers are told of the public face: checked by ``mypy``, run by nobody."""

from collections.abc import Sequence
from typing import Any, assert_type

from turnout import (
    Attempt,
    CallVariant,
    EngineStats,
    Fault,
    Identity,
    InvocationFuture,
    Limit,
    Outcome,
    ProviderConfig,
    ProviderHealthReport,
    ProviderRouter,
    Report,
    RouterExhaustedError,
    RoutingContext,
    State,
)


def calls(router: ProviderRouter, call: CallVariant) -> None:
    future = router.submit([call], timeout=3.0, block=True)
    assert_type(future, InvocationFuture)
    assert_type(future.report(), Report)
    assert_type(future.report().attempts, tuple[Attempt, ...])
    assert_type(future.report().attempts[0].outcome, Outcome)
    assert_type(future.report().answered_by, Identity | None)
    assert_type(router.invoke(call), Any)
    assert_type(router.flush(), bool)
    assert_type(router.stats(), EngineStats)


async def awaited(router: ProviderRouter, call: CallVariant) -> None:
    assert_type(await router.ainvoke(call), Any)


def health(router: ProviderRouter) -> None:
    report = router.health_report()
    assert_type(report, dict[str, ProviderHealthReport])
    assert_type(report["a"].state, State)
    assert_type(report["a"].cooldown_remaining_seconds, float | None)


def errors(error: RouterExhaustedError) -> None:
    assert_type(error.retry_after_seconds, float | None)
    assert_type(error.attempts[0].fault, Fault)


class Policy:
    """The simple form of a policy of one's own is taken as one."""

    def order(self, eligible: Sequence[Identity], context: RoutingContext) -> Sequence[Identity]:
        return eligible


class Adapter:
    """So is an adapter that takes the limit."""

    def invoke(self, operation: str, arguments: Any, *, limit: Limit) -> object:
        return limit.remaining()


def own_parts(config: ProviderConfig) -> ProviderRouter:
    return ProviderRouter(
        [config, {"provider_id": "b"}],
        policy=Policy(),
        adapter_factory=lambda _: Adapter(),
        classify=lambda error: Fault.TRANSIENT if isinstance(error, OSError) else None,
    )


def mistakes(router: ProviderRouter, call: CallVariant) -> None:
    # Each is an error to the checker; where it is none any more, the comment is.
    router.submit(call, timeout="3")  # type: ignore[arg-type]
    router.resize("8")  # type: ignore[arg-type]
    ProviderRouter(policy=Policy())  # type: ignore[call-arg]
