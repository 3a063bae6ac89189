"""Observed routing of providers of any kind, replayed for their circuits: who was asked, and how each bench stood."""

import json
import math
import random
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from turnout.actors.health import ProviderHealthReport
from turnout.calls import Attempt, CallType, FilterReason, Identity, Outcome, StreamFailurePolicy
from turnout.config import HealthConfig, LedgerConfig, PoolConfig
from turnout.deadline import Limit
from turnout.engine import Engine
from turnout.errors import RouteError
from turnout.faults import Failure, Fault
from turnout.invocation import Target
from turnout.plant import Setup
from turnout.policies.preference import PreferencePolicy
from turnout.runtime.threads import ThreadRuntime
from turnout.testing import ManualClock

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("capability_routing.json").read_text())
CASES: dict[str, Any] = {case["name"]: case for case in VECTORS["cases"]}

RAISES = "design 9.7: what raises is that provider's failure, not the route's; being terminal, it counts not"
TERMINAL = "design 6: terminal and unsupported count against no circuit; the next provider is asked"
PASSED_OVER = "a provider whose min_interval is not over is passed over for one that may be asked now"


class Difference(NamedTuple):
    """Why, who serves each route, and what is left of it: failures in a row, and who is benched (seconds)."""

    why: str
    served: list[str | None]
    failures: dict[str, int]
    benched: tuple[tuple[str, float], ...] = ()


#: Where turnout differs on purpose.
DIFFERENT: dict[str, Difference] = {
    "terminal failures trip the breaker": Difference(TERMINAL, ["b"] * 4, {"a": 0, "b": 0}),
    "UNSUPPORTED from classify trips the breaker": Difference(TERMINAL, ["b"] * 4, {"a": 0, "b": 0}),
    "broken classify trips the breaker": Difference(RAISES, ["b"] * 4, {"a": 0, "b": 0}),
    "events: exhausted + error text": Difference(TERMINAL, [None], {"a": 1, "b": 0, "c": 0}),
    "assess raising escapes the router and breaker not told": Difference(
        RAISES,
        ["b"],
        {"a": 0, "b": 0},
    ),
    "pacing exactly equal to remaining sleeps; deadline then 0": Difference(
        PASSED_OVER, ["a", "b"], {"a": 0, "b": 0}
    ),
    "pacing counts failed calls too": Difference(PASSED_OVER, ["b"] * 3, {"a": 1, "b": 0}),
    "retry_after zero: opens+1, no event, circuit closed": Difference(
        "a Retry-After of 0 names no time: it would let every call ask again",
        ["b", "b"],
        {"a": 0, "b": 0},
        (("a", 5.0),),
    ),
}
#: There a rate limit counts as well (design 6: it opens at once, and counts only under a ``BreakerConfig``): the
#: failures in a row after each route.
OPENS_UNCOUNTED: dict[str, list[int]] = {
    "retry_after open then failed probe uses exponent": [0, 1],
    "probe rate_limited with retry_after": [1, 1, 2],
}
HOLD = "there a degraded answer is held while others are asked; what an engine does with it is the Router's matter"
#: Whom turnout asks there is another matter; at each provider for itself, asked when it was, the circuit goes as there.
EACH_FOR_ITSELF = {
    "events: failover chain a fails b degraded c ok": HOLD,
    "degraded held then budget: held result is LOST": HOLD,
    "degraded first, later fail: failed_over is True though nothing ahead failed": HOLD,
    "degraded counts as breaker success": HOLD,
    "pacing exactly equal to remaining sleeps; deadline then 0": PASSED_OVER,
    "pacing counts failed calls too": PASSED_OVER,
}
REPLAYED = sorted(CASES.keys() - DIFFERENT.keys() - EACH_FOR_ITSELF.keys())

_KINDS = {
    "transient": Fault.TRANSIENT,
    "rate_limited": Fault.RATE_LIMIT,
    "terminal": Fault.TERMINAL,
    "unsupported": Fault.UNSUPPORTED,
    "budget": Fault.BUDGET,
}


@pytest.mark.parametrize("name", REPLAYED)
def test_the_circuits_go_as_they_were_observed(name: str) -> None:
    case = CASES[name]
    with Replay(case) as replay:
        for number, observed in enumerate(case["observed"]["routes"]):
            served_by, tried, health = replay.route(number)
            assert served_by == observed["served_by"]
            assert tried == [
                attempt.split(":")[0] for attempt in observed["attempts"] if "skipped" not in attempt
            ]
            for provider, (failures, *state) in observed["state"].items():
                here = (
                    OPENS_UNCOUNTED[name][number] if provider == "a" and name in OPENS_UNCOUNTED else failures
                )
                assert replay.state(provider, observed["t"]) == (here, *state)
                assert health[provider].consecutive_failures == here


@pytest.mark.parametrize("name", EACH_FOR_ITSELF)
def test_each_circuit_for_itself_goes_as_it_was_observed(name: str) -> None:
    case = CASES[name]
    with ExitStack() as stack:
        replays = {
            spec["name"]: stack.enter_context(Replay({**case, "providers": [spec]}))
            for spec in case["providers"]
        }
        for observed in case["observed"]["routes"]:
            for replay in replays.values():
                replay.comes_to(observed["t"])
            for attempt in observed["attempts"]:
                provider = attempt.split(":")[0]
                assert replays[provider].ask()[1] == [provider]
            for provider, state in observed["state"].items():
                assert replays[provider].state(provider, observed["t"]) == tuple(state)


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_where_turnout_differs_it_does_so_as_named(name: str) -> None:
    different = DIFFERENT[name]
    with Replay(CASES[name]) as replay:
        for number, by in enumerate(different.served):
            served_by, _, health = replay.route(number)
            assert served_by == by
            left = {name: each.cooldown_remaining_seconds for name, each in health.items()}
            assert left == {name: dict(different.benched).get(name) for name in health}
    assert {name: each.consecutive_failures for name, each in health.items()} == different.failures


def test_every_case_is_replayed_or_named() -> None:
    assert DIFFERENT.keys() | EACH_FOR_ITSELF.keys() <= CASES.keys()
    assert OPENS_UNCOUNTED.keys() == {name for name in REPLAYED if "rate_limited" in str(CASES[name])}
    assert VECTORS["state_fields"] == ["consecutive_failures", "consecutive_opens", "open_until", "probing"]
    for name, why in EACH_FOR_ITSELF.items():
        if why == HOLD:
            assert "degraded" in str(CASES[name]["providers"])
        else:
            assert DIFFERENT[name].why == PASSED_OVER


class ToldError(Exception):
    """A provider's failure in a script's word: a kind, perhaps with the seconds it asks for."""


class Scripted:
    """A provider that does at each call what the next word says; the last one repeats."""

    def __init__(self, spec: dict[str, Any], tried: list[str]) -> None:
        self._name: str = spec["name"]
        self._supports: bool = spec.get("supports", True)
        self._words: Iterator[str] = chain(spec["script"], repeat(spec["script"][-1]))
        self._tried = tried

    def target(self, health: HealthConfig | None, min_interval: float) -> Target:
        return Target(
            identity=Identity(self._name, self._name),
            provider_id=self._name,
            supports=lambda request: self._supports,
            why_not=lambda request: (FilterReason.UNSUPPORTED, "unsupported"),
            invoke=self._invoke,
            classify=_classified,
            assess=_assessed,
            usage=lambda value: None,
            timeout_seconds=60.0,
            health=health,
            min_interval_seconds=min_interval,
        )

    def _invoke(self, request: Any, limit: Limit) -> tuple[str, str]:
        self._tried.append(self._name)
        word = next(self._words)
        if word in ("ok", "degraded") or word.startswith("assess_"):
            return self._name, word
        raise ToldError(word)


def _classified(error: Exception) -> Failure:
    kind, _, seconds = str(error).partition(":")
    if kind == "classify_throws":
        raise RuntimeError(kind)
    return Failure(_KINDS[kind], kind, float(seconds) if seconds else None)


def _assessed(value: tuple[str, str], attempt: Attempt) -> Any:
    match value[1]:
        case "assess_raise":
            raise RuntimeError("no judgement")
        case "assess_str":
            return "ok"
        case word:
            return Outcome(word)


class Replay:
    """One case in turnout's terms, on a clock that only the case moves."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._case = case
        self._clock = ManualClock()
        self._began = self._clock.monotonic()
        self._tried: list[str] = []
        own = case.get("provider_breakers", {})
        pool = PoolConfig()
        self._engine = Engine(
            Setup(
                name="replay",
                targets=tuple(
                    Scripted(spec, self._tried).target(
                        _breaker(own[spec["name"]]) if spec["name"] in own else None,
                        {**case.get("breaker", {}), **own.get(spec["name"], {})}.get("min_interval", 0.0),
                    )
                    for spec in case["providers"]
                ),
                policy=PreferencePolicy(),
                health=_breaker(case.get("breaker", {})),
                pool=pool,
                ledger=LedgerConfig(),
                store=None,
                owns_store=False,
                metrics_scope="replay",
                clock=self._clock,
                rng=random.Random(1),
                close_targets=lambda: None,
                runtime=lambda: ThreadRuntime("replay", clock=self._clock, **pool.model_dump()),
            )
        )

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *exc: object) -> None:
        self._engine.close(None)

    def route(self, number: int) -> tuple[str | None, list[str], dict[str, ProviderHealthReport]]:
        """Who served this route, who was tried for it, and every provider's health after it."""
        if number:
            between = self._case.get("advance_between_routes", 0)
            self._clock.advance(between[number - 1] if isinstance(between, list) else between)
        return self.ask()

    def comes_to(self, now: float) -> None:
        """Have it be ``now`` in the case's time, which begins at 0."""
        self._clock.advance(now - self._clock.monotonic() + self._began)

    def ask(self) -> tuple[str | None, list[str], dict[str, ProviderHealthReport]]:
        """A route at this very time."""
        before, served_by = len(self._tried), None
        with suppress(RouteError):
            served_by, _ = self._engine.invoke(
                None, CallType.REGULAR, self._case.get("timeout"), StreamFailurePolicy.RESTART, None
            )
        return served_by, self._tried[before:], self._engine.health_report()

    def state(self, provider: str, now: float) -> tuple[int, int, float, bool]:
        """As the case tells it: failures in a row; how often it was benched without an answer in between, as its
        cooldowns have doubled; until when it is, or was; and whether it is being probed."""
        told = self._engine.health_report()[provider]
        circuit = self._engine.plant.health.snapshot.circuits[provider]
        opens = 1 + round(math.log2(circuit.growth)) if circuit.opened else 0
        until = circuit.open_until - self._began if circuit.opened else 0.0
        return told.consecutive_failures, opens, until, bool(told.probes_out)


def _breaker(settings: dict[str, Any]) -> HealthConfig:
    """Their breaker: every cooldown starts at its base and doubles with each failed probe."""
    base = settings.get("base_cooldown", 5.0)
    return HealthConfig(
        failure_threshold=settings.get("failure_threshold", 3),
        failure_cooldown_seconds=base,
        rate_limit_cooldown_seconds=base,
        max_cooldown_seconds=settings.get("max_cooldown", 300.0),
        cooldown_multiplier=2.0,
    )
