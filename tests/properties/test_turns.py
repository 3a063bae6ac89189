"""Calls that wait in line for a probe's permit: how often they look, and that none is forgotten, in any order."""

import os
import random
from collections.abc import Generator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from turnout import (
    CallType,
    Fault,
    Outcome,
    RouterExhaustedError,
    StreamFailurePolicy,
    TurnoutError,
)
from turnout.actors.health import AskPermit
from turnout.calls import FilterReason, Identity
from turnout.config import HealthConfig
from turnout.decisions.circuit import Admission
from turnout.faults import Failure
from turnout.invocation import Target
from turnout.testing import Stage

Script = Generator[Any, Any, None]
COOLDOWN = 60.0
FIRST, _, LAST = os.environ.get("TURNOUT_SEEDS", "0-39").rpartition("-")
#: ``TURNOUT_SEEDS=100000`` plays that many, ``7-7`` one again.
SEEDS = range(int(FIRST), int(LAST) + 1) if FIRST else range(int(LAST))


class Limited(Exception):
    """The provider's own, for a rate limit."""


class BadRequest(Exception):
    """The caller's mistake: it proves nothing of the provider."""


class Play:
    """Providers that are limited once each; then every request is a bad one."""

    def __init__(self, stage: Stage, names: str, probes: int = 1, capacity: int | None = None) -> None:
        self.stage = stage
        self.limited = set(names)
        self.looks = self.asks = 0
        self.ended: list[BaseException] = []
        targets = tuple(self.target(name, capacity) for name in names)
        health = HealthConfig(when_all_benched="wait", half_open_probes=probes)
        self.engine = stage.engine(targets, health=health)
        self.health = self.engine.plant.health
        self._count()
        stage.watch(self.nobody_is_forgotten)

    def target(self, name: str, capacity: int | None) -> Target:
        def invoke(request: Any, limit: Any) -> Any:
            if name in self.limited:
                self.limited.remove(name)
                raise Limited
            raise BadRequest

        def classify(error: Exception) -> Failure:
            return Failure(Fault.RATE_LIMIT if isinstance(error, Limited) else Fault.BAD_REQUEST)

        return Target(
            identity=Identity(name, name),
            provider_id=name,
            supports=lambda request: name in request,
            why_not=lambda request: (FilterReason.UNSUPPORTED, "never"),
            invoke=invoke,
            classify=classify,
            assess=lambda value, attempt: Outcome.OK,
            usage=lambda value: None,
            timeout_seconds=10.0,
            max_concurrency=capacity,
        )

    def benched(self) -> None:
        """From now on all are."""
        with pytest.raises(RouterExhaustedError):
            self.call("invoke", "PQ", COOLDOWN / 2)

    def call(self, door: str, request: str, timeout: float | None = None) -> Any:
        more = {"block": False} if door == "submit" else {}
        return getattr(self.engine, door)(
            request,
            CallType.REGULAR,
            timeout=timeout,
            failure_policy=StreamFailurePolicy.RESTART,
            on_restart=None,
            **more,
        )

    def asks_for(self, door: str, request: str, timeout: float | None = None) -> Script:
        try:
            yield self.call(door, request, timeout)
        except (TurnoutError, BadRequest, CancelledError) as error:
            self.ended.append(error)

    def nobody_is_forgotten(self) -> None:
        """Where nothing more would happen, nobody stands in line for a permit that is free."""
        if not self.stage.idle or not self.health.waiting:
            return
        now = self.stage.clock.monotonic()
        for provider_id, line in self.health.waiting._lines.items():
            free = self.health.circuits.admission(provider_id, now) is Admission.PROBE
            assert not (line and free), f"{len(line)} wait for a permit of {provider_id} that is free"

    def _count(self) -> None:
        circuits = self.health.circuits
        refusing, receive = circuits.refusing, circuits.receive

        def looked(provider_id: str, now: float) -> Any:
            self.looks += 1
            return refusing(provider_id, now)

        def received(message: Any) -> Any:
            self.asks += isinstance(message, AskPermit)
            return receive(message)

        circuits.refusing, circuits.receive = looked, received  # type: ignore[method-assign]


@pytest.mark.parametrize("door", ["submit", "invoke"])
@pytest.mark.parametrize("probes", [1, 3])
def test_looks_and_asks_grow_as_the_calls_that_wait_for_probes_that_prove_nothing(
    door: str, probes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No permit lapses meanwhile.
    monkeypatch.setattr("turnout.testing.stage_order._PATIENCE", 10**9)
    waiting = 400
    with Stage(1, max_workers=8, max_queue=waiting) as stage:
        play = Play(stage, "P", probes)
        play.benched()
        for _ in range(waiting):
            stage.caller("caller", play.asks_for(door, "P"))
        stage.run()
        play.engine.close(None)

    assert len(play.ended) == waiting
    assert len(play.health.waiting) == 0
    # Each its own, and those who looked before the first permit was seen to be out.
    assert play.asks <= 3 * waiting, play.asks / waiting
    assert play.looks <= 12 * waiting, play.looks / waiting


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_stands_in_line_for_a_permit_that_is_free(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Time must not mend what was forgotten: no alarm rings early.
    monkeypatch.setattr("turnout.testing.stage_order._PATIENCE", 10**9)
    rng = random.Random(seed)
    futures: list[Any] = []

    def submits() -> Script:
        future = play.call("submit", rng.choice(["PQ", "P", "Q"]))
        futures.append(future)
        try:
            yield future
        except (TurnoutError, BadRequest, CancelledError) as error:
            play.ended.append(error)

    def cancels_who_was_called() -> None:
        """Before it has looked."""
        for future in futures:
            limit = future.progress.limit
            called = limit in play.health.waiting._waits and limit.reason is not None
            if called and not future.done() and rng.random() < 0.5:
                future.cancel()

    def moves_time() -> Script:
        for _ in range(rng.randrange(100)):
            yield
        stage.clock.advance(COOLDOWN)
        for _ in range(100):
            yield
            stage.clock.advance(rng.choice([0.0, 0.0, 0.01, 0.1]))

    with Stage(seed) as stage:
        play = Play(stage, "PQ", rng.choice([1, 1, 2]), rng.choice([None, None, 1]))
        play.benched()
        calls = 8
        for number in range(calls):
            door, request = rng.choice(["submit", "invoke"]), rng.choice(["PQ", "P", "Q"])
            timeout = rng.choice([None, COOLDOWN + rng.random()])
            stage.caller(f"caller {number}", play.asks_for(door, request, timeout))
        for number in range(calls):
            stage.caller(f"one to be cancelled {number}", submits())
        stage.watch(cancels_who_was_called)
        stage.caller("time", moves_time())
        stage.run()
        play.engine.close(None)

    assert len(play.ended) == 2 * calls
    assert len(play.health.waiting) == 0
