"""Ordering: policies plan without a lock, a custom one is asked alone, and none can bring back what was filtered."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from turnout.actors.ordering import Ordering
from turnout.calls import Attempt, CallType, Identity, Outcome, Reason
from turnout.policies.contract import Ranking, RoutingContext
from turnout.policies.preference import PreferencePolicy
from turnout.policies.round_robin import RoundRobinPolicy
from turnout.runtime.drivers import walk_here
from turnout.runtime.threads import ThreadRuntime
from turnout.testing import ManualClock

WAIT = 20.0
CONTEXT = RoutingContext(CallType.REGULAR)
IDENTITIES = [Identity(name, name) for name in "abc"]
TARGETS = [SimpleNamespace(provider_id=identity.provider_id, identity=identity) for identity in IDENTITIES]


@pytest.fixture
def runtime() -> Any:
    runtime = ThreadRuntime("t", max_workers=1, max_queue=1, idle_seconds=1.0, clock=ManualClock())
    yield runtime
    runtime.stop(WAIT)


def planned(ordering: Ordering, runtime: ThreadRuntime, eligible: Sequence[Any] = TARGETS) -> list[str]:
    plan = ordering.plan(eligible, CONTEXT)
    if plan is None:
        plan = walk_here(runtime, ordering.asked(eligible, CONTEXT), lambda walk, step: None)
    return [target.provider_id for target in plan]


def test_round_robin_starts_one_further_at_each_plan(runtime: ThreadRuntime) -> None:
    ordering = Ordering(RoundRobinPolicy(), IDENTITIES, runtime)
    assert [planned(ordering, runtime)[0] for _ in range(5)] == ["a", "b", "c", "a", "b"]


def test_round_robin_turns_over_those_eligible_for_the_call(runtime: ThreadRuntime) -> None:
    ordering = Ordering(RoundRobinPolicy(), IDENTITIES, runtime)
    plans = [planned(ordering, runtime, TARGETS[1:]) for _ in range(3)]
    assert plans == [["b", "c"], ["c", "b"], ["b", "c"]]


def test_round_robin_spreads_evenly_over_threads(runtime: ThreadRuntime) -> None:
    ordering = Ordering(RoundRobinPolicy(), IDENTITIES, runtime)
    firsts: list[str] = []
    threads = [
        threading.Thread(target=lambda: firsts.extend(planned(ordering, runtime)[0] for _ in range(300)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert [firsts.count(name) for name in "abc"] == [600, 600, 600]


def test_preference_keeps_the_configured_order(runtime: ThreadRuntime) -> None:
    ordering = Ordering(PreferencePolicy(), IDENTITIES, runtime)
    assert [planned(ordering, runtime) for _ in range(3)] == [["a", "b", "c"]] * 3


class Custom:
    """Asked one call at a time, though it keeps state without a lock."""

    def __init__(self, *answer: str) -> None:
        self.answer = answer
        self.inside = 0
        self.overlapped = False
        self.threads: set[str] = set()

    def order(self, eligible: Sequence[Identity], context: RoutingContext) -> Sequence[Identity]:
        self.inside += 1
        self.overlapped |= self.inside > 1
        self.threads.add(threading.current_thread().name)
        known = {identity.provider_id: identity for identity in eligible}
        chosen = [known.get(name) or Identity(name, name) for name in self.answer]
        self.inside -= 1
        return chosen


def test_a_custom_policys_omissions_and_repetitions_are_kept(runtime: ThreadRuntime) -> None:
    ordering = Ordering(Custom("c", "a", "c"), IDENTITIES, runtime)
    assert planned(ordering, runtime) == ["c", "a", "c"]


def test_a_custom_policy_cannot_bring_back_what_was_filtered(runtime: ThreadRuntime) -> None:
    ordering = Ordering(Custom("a", "x", "b"), IDENTITIES, runtime)
    assert planned(ordering, runtime, TARGETS[1:]) == ["b"]


def test_a_custom_policy_is_asked_alone_on_the_ordering_thread(runtime: ThreadRuntime) -> None:
    custom = Custom("a")
    ordering = Ordering(custom, IDENTITIES, runtime)
    threads = [
        threading.Thread(target=lambda: [planned(ordering, runtime) for _ in range(100)]) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not custom.overlapped
    assert custom.threads == {"turnout-t-ordering"}


class Raising:
    def order(self, eligible: Sequence[Identity], context: RoutingContext) -> Sequence[Identity]:
        raise LookupError("no idea")


def test_a_policy_that_raises_falls_back_to_configured_order(runtime: ThreadRuntime) -> None:
    ordering = Ordering(Raising(), IDENTITIES, runtime)
    assert planned(ordering, runtime) == ["a", "b", "c"]


class Learning:
    """Puts the provider that answered last first."""

    learns = True

    def __init__(self) -> None:
        self.seen = threading.Event()

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        return First("")

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        self.seen.set()
        return First(attempts[-1].provider_id)


class First:
    def __init__(self, name: str) -> None:
        self.name = name

    def plan(self, eligible: Sequence[Any], context: RoutingContext, ticket: int) -> Sequence[Any]:
        return sorted(eligible, key=lambda target: target.provider_id != self.name)


def test_a_learning_policy_publishes_what_it_learnt(runtime: ThreadRuntime) -> None:
    policy = Learning()
    ordering = Ordering(policy, IDENTITIES, runtime)
    assert planned(ordering, runtime) == ["a", "b", "c"]
    ordering.observe(
        Attempt(1, 1, 1, Reason.PRIMARY, IDENTITIES[2], CallType.REGULAR, 0.0, 0.1, 0.0, Outcome.OK, 0)
    )
    assert policy.seen.wait(WAIT)
    # The ranking is published after the policy returned: an ask behind the attempt waits for that.
    assert ordering._observers is not None
    ordering._observers.ask(
        Attempt(2, 1, 1, Reason.PRIMARY, IDENTITIES[2], CallType.REGULAR, 0.0, 0.1, 0.0, Outcome.OK, 0)
    )
    assert planned(ordering, runtime) == ["c", "a", "b"]
