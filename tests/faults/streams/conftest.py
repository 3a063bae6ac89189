"""A primary and a backup over real HTTP, in either protocol, and what a reader makes of their streams."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from pydantic import SecretStr

from turnout import ApiProtocol, CallType, CallVariant, PreferencePolicy, ProviderConfig, ProviderRouter
from turnout.testing.simulator import ScriptLike, SimulatedProvider, Simulator

_OPERATIONS: dict[ApiProtocol, tuple[str, dict[str, Any]]] = {
    ApiProtocol.OPENAI_CHAT: (
        "chat.completions.create",
        {"messages": [{"role": "user", "content": "Hello"}], "stream_options": {"include_usage": True}},
    ),
    ApiProtocol.OPENAI_RESPONSES: ("responses.create", {"input": "Hello"}),
}


@dataclass
class Pair:
    """Two simulated providers; the backup answers, the primary does what it is told."""

    simulator: Simulator
    protocol: ApiProtocol
    stack: ExitStack

    @property
    def chat(self) -> bool:
        return self.protocol is ApiProtocol.OPENAI_CHAT

    @property
    def variant(self) -> CallVariant:
        operation, arguments = _OPERATIONS[self.protocol]
        return CallVariant(self.protocol, operation, CallType.STREAMING, {**arguments, "stream": True})

    def router(self, script: ScriptLike, *, primary: dict[str, Any] | None = None, **settings: Any) -> Any:
        """A router over both, the primary with settings of its own."""
        self.simulator.script("primary", script)
        configs = [
            ProviderConfig(
                provider_id=name, name=name, protocol=self.protocol, model=f"model-{name}",
                api_key=SecretStr("sk-simulated"), base_url=self.simulator.base_url(name), **each,
            )
            for name, each in (("primary", primary or {}), ("backup", {}))
        ]  # fmt: skip
        router = ProviderRouter(
            configs, metrics_scope="streams", metrics_store=None, policy=PreferencePolicy(), **settings
        )
        return self.stack.enter_context(router)

    def stream(self, router: Any, **options: Any) -> Any:
        return self.stack.enter_context(router.invoke(self.variant, **options))

    def piece(self, chunk: Any) -> str:
        """What a chunk says in text."""
        if self.chat:
            return chunk.choices[0].delta.content or "" if chunk.choices else ""
        return chunk.delta if chunk.type == "response.output_text.delta" else ""

    def text(self, chunks: Any) -> str:
        return "".join(map(self.piece, chunks))

    def models(self, chunks: Any) -> set[str]:
        """The models that a stream's chunks name."""
        named = chunks if self.chat else [event.response for event in chunks if hasattr(event, "response")]
        return {each.model for each in named}


@pytest.fixture(scope="session")
def loaded_sdk() -> None:
    """What the SDK loads at its first calls takes longer than the short limits here."""
    with (
        Simulator([SimulatedProvider("any")]) as simulator,
        openai.OpenAI(base_url=simulator.base_url("any"), api_key="sk-simulated") as client,
    ):
        list(client.chat.completions.create(model="m", messages=[], stream=True))
        list(client.responses.create(model="m", input="Hello", stream=True))


@pytest.fixture(params=list(ApiProtocol), ids=lambda protocol: protocol.value)
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, loaded_sdk: None) -> Iterator[Pair]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    primary = SimulatedProvider("primary", text="never whole", prompt_tokens=1)
    backup = SimulatedProvider("backup", text="all of backup", prompt_tokens=2)
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator([primary, backup]))
        yield Pair(simulator, ApiProtocol(request.param), stack)
