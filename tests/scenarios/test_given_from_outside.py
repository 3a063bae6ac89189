"""Chance comes in through the constructor, and a policy that learns too slowly is told of a sample."""

import random
from collections.abc import Sequence
from threading import Event
from typing import Any

from turnout import Attempt
from turnout.policies.contract import Ranking
from turnout.policies.preference import ConfiguredOrder
from turnout.testing import ManualClock, ScriptedAdapters


def invocation_ids(rig: Any, rng: random.Random) -> list[str]:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", clock=ManualClock(), rng=rng)
    futures = [router.submit(rig.chat()) for _ in range(3)]
    return [future.report().invocation_id for future in futures if future.result(30)]


def test_the_same_seed_makes_the_same_identities_and_another_makes_others(rig: Any) -> None:
    first, again, other = (invocation_ids(rig, random.Random(seed)) for seed in (1, 1, 2))

    assert first == again
    assert not set(first) & set(other)
    assert len(set(first)) == 3


class Slow:
    """A policy that learns, and takes its time over the first attempt."""

    learns = True

    def __init__(self) -> None:
        self.begun, self.go_on = Event(), Event()
        self.seen: list[Attempt] = []

    def ranking(self, providers: Sequence[Any]) -> Ranking:
        return ConfiguredOrder()

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        self.seen += attempts
        self.begun.set()
        assert self.go_on.wait(30)
        return None


def test_attempts_that_come_too_fast_for_a_learning_policy_are_counted_and_hold_nobody_up(rig: Any) -> None:
    policy = Slow()
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", policy=policy)
    assert router.invoke(rig.chat()) == "a"
    assert policy.begun.wait(30)
    told, observers = 1, router._engine.plant.ordering._observers
    # As many attempts as its mailbox holds, without the calls around them.
    while observers.tell(policy.seen[0]):
        told += 1

    assert [router.invoke(rig.chat()) for _ in range(3)] == ["a"] * 3

    unobserved = router.stats().unobserved
    policy.go_on.set()
    router.close()
    assert (unobserved, len(policy.seen)) == (3, told)
