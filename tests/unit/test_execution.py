"""The walk, driven by hand: what it asks for, in which order, and what it holds meanwhile."""

from collections.abc import Generator
from typing import Any

import pytest
from tenacity import wait_fixed

from turnout import DeadlineExceededError, RouterExhaustedError, SameProviderRetryPolicy
from turnout.actors.health import AskPermit, AskToken, Failed
from turnout.calls import CallType, FilterReason, Identity, Outcome, StreamFailurePolicy
from turnout.config import BudgetConfig, HealthConfig
from turnout.decisions.walk import StreamEnd
from turnout.faults import Failure, Fault
from turnout.in_flight import counted
from turnout.invocation import Target, Try
from turnout.runtime.steps import Ask, HandOver, Sleep, TakeLane
from turnout.testing import FINISHED, ScriptedStream, Stage

Walk = Generator[Any, Any, Any]


class ToldError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


DOWN = ToldError(Failure(Fault.SERVER_ERROR))
LIMITED = ToldError(Failure(Fault.RATE_LIMIT, retry_after_seconds=2.0))


def target(name: str, **settings: Any) -> Target:
    return Target(
        identity=Identity(name, name),
        provider_id=name,
        supports=lambda request: True,
        why_not=lambda request: (FilterReason.UNSUPPORTED, "never"),
        invoke=lambda request, limit: "never asked here",
        classify=lambda error: error.failure,  # type: ignore[attr-defined]
        assess=lambda value, attempt: Outcome.OK,
        usage=lambda value: None,
        **{"timeout_seconds": 10.0, **settings},
    )


class ByHand:
    """An engine whose walks the test steps itself."""

    def __init__(self, *targets: Target, health: dict[str, Any] | None = None, **settings: Any) -> None:
        self.stage = stage = Stage(1)
        self.clock = stage.clock
        self.engine = stage.engine(targets, health=HealthConfig(**health or {}), **settings)

    def walk(self, timeout: float | None = None, call_type: CallType = CallType.REGULAR) -> Walk:
        progress = self.engine._asked(None, call_type, timeout, StreamFailurePolicy.RESTART, None)
        return self.engine.plant.execution.walk(progress)

    def bench(self, name: str, seconds: float) -> None:
        failure = Failure(Fault.RATE_LIMIT, retry_after_seconds=seconds)
        self.engine.plant.health.actor.ask(Failed(name, self.engine.plant.health.snapshot.epoch, failure))

    def free(self, name: str) -> int:
        """How much room there is."""
        lanes = {one.provider_id: one.lane for one in self.engine.plant.bulkheads.targets}
        lane = lanes[name]
        assert lane is not None
        return lane.free

    def probes_out(self, name: str) -> int:
        self.stage.run()
        return self.engine.health_report()[name].probes_out


def answered(walk: Walk, step: Ask) -> Any:
    """The walk's next step, once what it asks was answered."""
    return walk.send(step.actor.ask(step.message))


def is_tried(step: Any) -> str:
    assert isinstance(step, Try)
    return step.target.provider_id


def test_what_a_failure_does_is_known_before_its_room_goes_to_who_waits() -> None:
    by_hand = ByHand(target("a", max_concurrency=1), target("b"))
    walk = by_hand.walk()
    assert is_tried(walk.send(None)) == "a"

    step = walk.throw(LIMITED)

    assert isinstance(step.message, Failed)
    assert by_hand.free("a") == 0
    assert is_tried(answered(walk, step)) == "b"
    assert by_hand.free("a") == 1
    walk.close()


def test_a_retry_is_not_even_asked_for_where_its_provider_is_benched() -> None:
    retry = SameProviderRetryPolicy(wait=wait_fixed(20))
    by_hand = ByHand(
        target("a"),
        target("b"),
        # Over before the retry would be made.
        health={"failure_threshold": 1, "failure_cooldown_seconds": 5.0},
        retry_policies={"a": retry},
    )
    walk = by_hand.walk()
    assert is_tried(walk.send(None)) == "a"

    assert is_tried(answered(walk, walk.throw(DOWN))) == "b"
    walk.close()


@pytest.mark.parametrize("tokens", [0, 1])
def test_whom_a_call_tried_before_is_tried_again_after_a_bench_only_with_a_token(tokens: int) -> None:
    by_hand = ByHand(
        target("a"),
        health={"when_all_benched": "wait"},
        budget=BudgetConfig(ratio=0.0, per_second=0.0, max_tokens=tokens),
    )
    walk = by_hand.walk()
    assert is_tried(walk.send(None)) == "a"
    step = answered(walk, walk.throw(LIMITED))
    assert isinstance(step, Sleep)
    by_hand.clock.advance(2.0)
    step = walk.send(None)
    assert isinstance(step.message, AskToken)

    if not tokens:
        with pytest.raises(RouterExhaustedError):
            answered(walk, step)
        return
    step = answered(walk, step)
    assert isinstance(step.message, AskPermit)
    walk.close()


def test_a_permit_outlives_the_longest_that_its_attempt_may_take() -> None:
    by_hand = ByHand(target("a", first_token_seconds=60.0))
    by_hand.bench("a", 1.0)
    by_hand.clock.advance(1.0)
    walk = by_hand.walk(call_type=CallType.STREAMING)

    step = walk.send(None)

    assert isinstance(step.message, AskPermit)
    assert step.message.for_seconds > 60.0
    walk.close()


def test_who_waits_for_anothers_probe_waits_no_longer_than_its_own_deadline() -> None:
    by_hand = ByHand(target("a"), health={"when_all_benched": "wait"})
    by_hand.bench("a", 1.0)
    by_hand.clock.advance(1.0)
    by_hand.engine.plant.health.actor.ask(AskPermit("a", 1_000, 60.0))
    walk = by_hand.walk(timeout=0.25)

    step = walk.send(None)

    assert isinstance(step, Sleep)
    assert step.limit.until == 1.25
    by_hand.clock.advance(0.25)
    with pytest.raises(DeadlineExceededError, match="a provider's bench to end"):
        walk.send(None)


def test_time_spent_in_line_is_told_as_waiting() -> None:
    by_hand = ByHand(target("a", max_concurrency=1))
    others = by_hand.walk()
    assert is_tried(others.send(None)) == "a"
    walk = by_hand.walk(timeout=10.0)
    assert isinstance(walk.send(None), TakeLane)
    by_hand.clock.advance(10.0)

    with pytest.raises(DeadlineExceededError, match="waiting 10") as caught:
        walk.send(None)

    assert caught.value.spent == (("waiting", 10.0),)
    others.close()


def probing(by_hand: ByHand) -> Walk:
    """A walk whose probe is under way."""
    by_hand.bench("a", 1.0)
    by_hand.clock.advance(1.0)
    walk = by_hand.walk()
    assert is_tried(answered(walk, walk.send(None))) == "a"
    assert by_hand.probes_out("a") == 1
    return walk


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_probe_that_is_ended_from_outside_gives_its_permit_back_at_once(error: type[BaseException]) -> None:
    by_hand = ByHand(target("a"))
    walk = probing(by_hand)

    with pytest.raises(error):
        walk.throw(error())

    assert by_hand.probes_out("a") == 0


def test_a_probe_that_is_interrupted_while_its_failure_is_told_gives_its_permit_back_at_once() -> None:
    by_hand = ByHand(target("a"))
    walk = probing(by_hand)
    step = walk.throw(DOWN)
    assert isinstance(step.message, Failed)

    with pytest.raises(KeyboardInterrupt):
        walk.throw(KeyboardInterrupt())

    assert by_hand.probes_out("a") == 0


def test_an_attempt_is_in_flight_from_its_begin_until_it_was_judged() -> None:
    targets, in_flight = counted([target("a"), target("b")])
    by_hand = ByHand(*targets)
    walk = by_hand.walk()
    assert is_tried(walk.send(None)) == "a"
    assert (in_flight("a"), in_flight("b")) == (1, 0)

    step = walk.throw(DOWN)
    assert in_flight("a") == 0
    assert is_tried(answered(walk, step)) == "b"
    assert (in_flight("a"), in_flight("b")) == (0, 1)
    walk.close()
    assert in_flight("b") == 0


def test_a_stream_is_in_flight_until_its_end() -> None:
    (streaming,), in_flight = counted([target("a")])
    by_hand = ByHand(streaming)
    walk = by_hand.walk(call_type=CallType.STREAMING)
    assert is_tried(walk.send(None)) == "a"
    step = walk.send(ScriptedStream(["Hello", FINISHED]))
    assert isinstance(step, HandOver)
    assert in_flight("a") == 1
    with pytest.raises(StopIteration):
        walk.send(StreamEnd(chunks=1, completed=True, given=1, first_seconds=0.1))
    assert in_flight("a") == 0


def test_a_walk_that_is_dropped_leaves_nothing_in_flight() -> None:
    (lone,), in_flight = counted([target("a")])
    by_hand = ByHand(lone)
    walk = by_hand.walk()
    walk.send(None)
    del walk
    assert in_flight("a") == 0
