"""A provider that answers again, and the calls that come at that moment, in any order of events."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from turnout import (
    CallType,
    Fault,
    NoEligibleProvidersError,
    Outcome,
    RouterExhaustedError,
    StreamFailurePolicy,
)
from turnout.calls import FilterReason, Identity
from turnout.config import HealthConfig
from turnout.faults import Failure
from turnout.invocation import Target
from turnout.testing import SILENCE, Stage

Script = Generator[Any, Any, None]
COOLDOWN = 60.0


class Primary:
    """Limited once, or as often as it is told; then it does what it is told."""

    def __init__(self, stage: Stage, *, when_all_benched: Any, answers: Callable[[], Any]) -> None:
        self.stage = stage
        self.limited = True
        self.calls = 0
        self.answers = answers
        self.engine = stage.engine((self.target(),), health=HealthConfig(when_all_benched=when_all_benched))

    def target(self) -> Target:
        return Target(
            identity=Identity("P", "P"),
            provider_id="P",
            supports=lambda request: True,
            why_not=lambda request: (FilterReason.UNSUPPORTED, "never"),
            invoke=lambda request, limit: self.invoke(),
            classify=lambda error: Failure(Fault.RATE_LIMIT, str(error)),
            assess=lambda value, attempt: Outcome.OK,
            usage=lambda value: None,
            timeout_seconds=10.0,
        )

    def invoke(self) -> Any:
        self.calls += 1
        if self.limited:
            self.limited = False
            raise ConnectionError("slow down")
        return self.answers()

    def call(self, door: str, timeout: float | None = None) -> Any:
        more = {"block": False} if door == "submit" else {}
        return getattr(self.engine, door)(
            None,
            CallType.REGULAR,
            timeout=timeout,
            failure_policy=StreamFailurePolicy.RESTART,
            on_restart=None,
            **more,
        )


@pytest.mark.parametrize("seed", range(60))
def test_nobody_is_told_of_a_bench_that_is_over(seed: int) -> None:
    told: list[str] = []

    def asks(door: str) -> Script:
        try:
            told.append((yield primary.call(door)))
        except NoEligibleProvidersError as error:
            told.append(error.exclusions[0].detail)

    with Stage(seed) as stage:
        primary = Primary(stage, when_all_benched="raise", answers=lambda: "P")
        with pytest.raises(RouterExhaustedError):
            primary.call("invoke")
        stage.clock.advance(COOLDOWN)
        for door in ["submit", "invoke"] * 3:
            stage.caller(door, asks(door))
        stage.run()
        primary.engine.close(None)

    assert len(told) == 6
    assert "P" in told
    assert not [what for what in told if what != "P" and "is being probed by another call" not in what]


@pytest.mark.parametrize("seed", range(20))
def test_who_waits_behind_a_silent_probe_looks_again_only_where_there_is_news(seed: int) -> None:
    waiting, looks = 30, 0
    answers: list[Any] = []

    async def silent() -> None:
        await SILENCE

    def asks(door: str) -> Script:
        try:
            answers.append((yield primary.call(door)))
        except RouterExhaustedError as error:
            # Its own probe was the silent one.
            answers.append(error)

    def passes_time() -> Script:
        # In steps, as a poll would have them.
        while len(answers) < waiting:
            yield
            if stage.idle:
                stage.clock.advance(0.05)

    def counted(provider_id: str, now: float) -> Any:
        nonlocal looks
        looks += 1
        return refusing(provider_id, now)

    with Stage(seed) as stage:
        primary = Primary(
            stage, when_all_benched="wait", answers=lambda: silent() if primary.calls == 2 else "P"
        )
        circuits = primary.engine.plant.health.circuits
        refusing, circuits.refusing = circuits.refusing, counted  # type: ignore[method-assign]
        for number in range(waiting):
            stage.caller(f"caller {number}", asks(["submit", "invoke"][number % 2]))
        stage.caller("time", passes_time())
        stage.run()
        primary.engine.close(None)

    assert answers.count("P") >= waiting - 1
    # The bench, the probe's end (a bench again), the next probe's end: a few looks each.
    assert looks <= 12 * waiting, looks / waiting
    assert len(primary.engine.plant.health.waiting) == 0
