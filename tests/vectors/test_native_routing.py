"""Observed routing of native calls, replayed: who was tried, what health was left, which chunks came, and scores."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    ProviderConfig,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderRouter,
    ProviderScore,
    ProviderStats,
    ProviderTimeoutError,
    RoundRobinPolicy,
    ScoreWeights,
    StickyRoutingPolicy,
    StreamRestart,
    TurnoutError,
    UnsupportedOperationError,
    calculate_provider_score,
)
from turnout.adapters.openai_codes import fault_of_status
from turnout.decisions.scoring import score_of
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("native_routing_scenarios.json").read_text())
SCENARIOS: dict[str, Any] = VECTORS["scenarios"]

#: What a scenario may say; ``Replay`` heeds all of it.
SAYS = frozenset({"scripts", "ops", "sticky", "health", "retry", "cfg"})


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_scenario_goes_as_it_was_observed(name: str) -> None:
    scenario, observed = SCENARIOS[name]["scenario"], SCENARIOS[name]["observed"]
    assert scenario.keys() <= SAYS
    with Replay(scenario) as replay:
        seen = [replay.perform(op) for op in scenario["ops"]]
        assert {"ops": seen, "restarts": replay.restarts, "models": replay.models} == observed


@pytest.mark.parametrize("row", VECTORS["score_table"])
def test_a_score_is_as_it_was_observed(row: dict[str, Any]) -> None:
    row = dict(row)
    weights = ScoreWeights(**row.pop("weights"))
    observed = ProviderScore(row.pop("total"), row.pop("success_quality"), row.pop("speed_quality"))
    call_type, latency_ms = CallType(row.pop("call_type")), row.pop("avg_latency_ms")
    score = score_of(**row, latency_ms=latency_ms, weights=weights, call_type=call_type)
    assert score == pytest.approx(observed, rel=1e-12, abs=0.0)
    of_stats = calculate_provider_score(stats(call_type, latency_ms, **row), weights, call_type)
    assert of_stats == score


def stats(call_type: CallType, latency_ms: float | None, attempts: float, successes: float) -> ProviderStats:
    """A provider's statistics with these for one call type, and others for the other, which must not matter."""
    match call_type:
        case CallType.REGULAR:
            return ProviderStats("p", "P", attempts, successes, None, latency_ms, 3.0, 1.0, None, 1.0)
        case CallType.STREAMING:
            return ProviderStats("p", "P", 3.0, 1.0, None, 1.0, attempts, successes, None, latency_ms)


def test_the_whole_file_is_replayed() -> None:
    assert VECTORS.keys() == {"scenarios", "score_table"}


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
            policy=StickyRoutingPolicy(scenario["sticky"]) if "sticky" in scenario else RoundRobinPolicy(),
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
        said = dict(op)
        match said.pop("op"):
            case "invoke":
                self._invoke(seen)
            case "stream":
                self._stream(seen, said.pop("stop_after", None))
            case "advance":
                self._clock.advance(said.pop("s"))
            case "reset":
                self._router.reset_health(said.pop("id", None))
            case other:
                raise ValueError(f"unknown op {other}")
        assert not said, "an op says more than is heeded"
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
