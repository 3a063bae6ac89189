"""Observed routing of native calls, replayed: who was tried, what health was left, which chunks came."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    PreferencePolicy,
    ProviderConfig,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderRouter,
    ProviderTimeoutError,
    RoundRobinPolicy,
    StreamRestart,
    TurnoutError,
    UnsupportedOperationError,
)
from turnout.adapters.openai_codes import fault_of_status
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("native_routing_scenarios.json").read_text())
SCENARIOS: dict[str, Any] = VECTORS["scenarios"]

STICKY_TAIL = "needs StickyRoutingPolicy: a fixed head and a rotating tail"

#: What is not replayed yet, and what it waits for.
LATER = frozenset(
    {
        ("11_sticky_fallback_rr", STICKY_TAIL),
    }
)
#: Parts of the file beside its scenarios, and what they wait for.
PARTS_LATER = frozenset({("score_table", "needs ScoreBasedPolicy")})

REPLAYED = sorted(SCENARIOS.keys() - {name for name, _ in LATER})


@pytest.mark.parametrize("name", REPLAYED)
def test_a_scenario_goes_as_it_was_observed(name: str) -> None:
    scenario, observed = SCENARIOS[name]["scenario"], SCENARIOS[name]["observed"]
    with Replay(scenario) as replay:
        for op, expected in zip(scenario["ops"], observed["ops"], strict=True):
            assert replay.perform(op) == expected
        assert replay.restarts == observed["restarts"]
        assert replay.models == observed["models"]


def test_every_scenario_is_replayed_or_named_with_what_it_waits_for() -> None:
    later = {name for name, _ in LATER}

    assert later <= SCENARIOS.keys()
    assert all(_waits(SCENARIOS[name]["scenario"]) for name in later)
    assert not any(_waits(SCENARIOS[name]["scenario"]) for name in REPLAYED)
    assert VECTORS.keys() - {"scenarios"} == {part for part, _ in PARTS_LATER}


def _waits(scenario: dict[str, Any]) -> bool:
    """Whether a scenario asks for something that is not built."""
    return not _is_configured_order(scenario)


def _is_configured_order(scenario: dict[str, Any]) -> bool:
    """Whether its fixed order is the configured one. Where at most one provider follows the fixed ones,
    nothing rotates, and the order is that of ``PreferencePolicy``."""
    sticky, ids = scenario.get("sticky", []), list(scenario["scripts"])
    return not sticky or (sticky == ids[: len(sticky)] and len(ids) - len(sticky) <= 1)


class Replay:
    """One scenario in turnout's terms, on a clock that only its ``advance`` moves.

    A restart after content is allowed there always; here it needs someone to discard it, so there is an
    ``on_restart``, which also writes down what it was told.
    """

    def __init__(self, scenario: dict[str, Any]) -> None:
        self._clock = ManualClock()
        self._ids = list(scenario["scripts"])
        self._adapters = ScriptedAdapters(
            {name: [_result(name, word) for word in words] for name, words in scenario["scripts"].items()}
        )
        self.restarts: list[list[Any]] = []
        self._router = ProviderRouter(
            [_provider(name, scenario.get("cfg", {}).get(name, {})) for name in self._ids],
            policy=PreferencePolicy() if scenario.get("sticky") else RoundRobinPolicy(),
            # Cooldowns do not grow there.
            health={"cooldown_multiplier": 1.0, **scenario.get("health", {})},
            retry_policy=scenario.get("retry"),
            metrics_store=None,
            adapter_factory=self._adapters,
            on_restart=self._restarted,
            clock=self._clock,
        )

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *exc: object) -> None:
        self._router.close()

    @property
    def models(self) -> list[list[str]]:
        return [[call.provider_id, call.arguments["model"]] for call in self._adapters.calls]

    def perform(self, op: dict[str, Any]) -> dict[str, Any]:
        """One op; what was seen of it, in the file's shape."""
        before = len(self._adapters.calls)
        seen: dict[str, Any] = {}
        match op["op"]:
            case "invoke":
                self._invoke(seen)
            case "stream":
                self._stream(seen, op.get("stop_after"))
            case "advance":
                self._clock.advance(op["s"])
            case "reset":
                self._router.reset_health(op.get("id"))
            case other:
                raise ValueError(f"unknown op {other}")
        seen["tried"] = [call.provider_id for call in self._adapters.calls[before:]]
        seen["health"] = self._health()
        return seen

    def _invoke(self, seen: dict[str, Any]) -> None:
        try:
            seen["response"] = self._router.invoke(_call(CallType.REGULAR))
        except TurnoutError as error:
            seen["exc"] = type(error).__name__

    def _stream(self, seen: dict[str, Any], stop_after: int | None) -> None:
        chunks = seen["chunks"] = []
        with self._router.invoke(_call(CallType.STREAMING)) as stream:
            try:
                for chunk in stream:
                    chunks.append(chunk)
                    if len(chunks) == stop_after:
                        break
            except TurnoutError as error:
                seen["exc"] = type(error).__name__
        seen["restarts"] = stream.restarts

    def _health(self) -> dict[str, list[Any]]:
        return {
            name: [entry.auth_disabled, entry.consecutive_failures, entry.cooldown_remaining_seconds]
            for name, entry in self._router.health_report().items()
        }

    def _restarted(self, restart: StreamRestart) -> None:
        self.restarts.append(
            [
                restart.failed_provider_id,
                restart.next_provider_id,
                restart.chunks_yielded,
                restart.restarts,
            ]
        )


def _provider(name: str, settings: dict[str, Any]) -> ProviderConfig:
    return ProviderConfig(
        provider_id=name,
        name=name,
        protocol=ApiProtocol.OPENAI_CHAT,
        model=f"m-{name}",
        api_key=SecretStr("key"),
        **settings,
    )


def _call(call_type: CallType) -> CallVariant:
    return CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", call_type, {"messages": []})


def _result(provider: str, word: Any) -> Any:
    """A script's word as what an adapter does; ``x!`` in a stream is a chunk with the end mark."""
    if isinstance(word, list):
        steps: list[Any] = []
        for chunk in word:
            steps += [chunk, FINISHED] if chunk.endswith("!") else [_failure(provider, chunk) or chunk]
        return steps
    return _failure(provider, word) or word


def _failure(provider: str, word: str) -> Exception | None:
    known: dict[str, Any] = {"provider_id": provider, "provider_name": provider, "model": f"m-{provider}"}
    if word.isdigit():
        status = int(word)
        fault = fault_of_status(status, None, None)
        return ProviderHTTPError(f"HTTP {word}", status_code=status, fault=fault, **known)
    match word:
        case "timeout":
            return ProviderTimeoutError("too late", **known)
        case "conn":
            return ProviderConnectionError("hung up", **known)
        case "unknown":
            return ProviderError("something", **known)
        case "badop":
            return UnsupportedOperationError("no such operation", **known)
        case "raw":
            return RuntimeError("an adapter's own bug")
        case _:
            return None
