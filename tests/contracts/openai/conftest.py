"""What the contract tests of the OpenAI adapters share: each adapter at a simulated provider."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from loguru import logger

from turnout.adapters.native import extra_body_beside
from turnout.adapters.openai_call import OpenAIAdapter
from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.adapters.openai_responses import OpenAIResponsesAdapter
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig
from turnout.errors import ProviderError
from turnout.testing.simulator import ScriptLike, SimulatedProvider, Simulator

_KEY = "sk-very-secret-key"


@dataclass
class Bench:
    """One adapter at one simulated provider."""

    simulator: Simulator
    protocol: ApiProtocol
    operation: str
    arguments: dict[str, Any]
    adapter_class: type[OpenAIAdapter]
    opened: list[OpenAIAdapter] = field(default_factory=list)

    def adapter(self, **settings: Any) -> OpenAIAdapter:
        known = {"base_url": self.simulator.base_url("alpha"), "api_key": _KEY, "timeout_seconds": 20.0}
        config = ProviderConfig(
            provider_id="alpha-1", name="alpha", protocol=self.protocol, model="m-1", **{**known, **settings}
        )
        adapter = self.adapter_class(config)
        self.opened.append(adapter)
        return adapter

    def play(self, script: ScriptLike) -> None:
        self.simulator.script("alpha", script)

    def call(self, adapter: OpenAIAdapter | None = None, **more: Any) -> Any:
        adapter = adapter or self.adapter()
        config = adapter._config
        given = {**self.arguments, **more}
        beside = extra_body_beside(given, config.extra_body or {})
        return adapter.invoke(self.operation, {**given, "model": config.model, **beside})

    def stream(self, adapter: OpenAIAdapter | None = None, **more: Any) -> Any:
        return self.call(adapter, stream=True, **more)

    @property
    def chat(self) -> bool:
        return self.protocol is ApiProtocol.OPENAI_CHAT

    def text_of(self, answer: Any) -> str:
        return str(answer.choices[0].message.content if self.chat else answer.output_text)

    def piece_of(self, chunk: Any) -> str:
        if self.chat:
            return chunk.choices[0].delta.content or "" if chunk.choices else ""
        return chunk.delta if chunk.type == "response.output_text.delta" else ""


PROTOCOLS: dict[str, tuple[ApiProtocol, str, dict[str, Any], Any]] = {
    "chat": (
        ApiProtocol.OPENAI_CHAT,
        "chat.completions.create",
        {"messages": [{"role": "user", "content": "Hello"}]},
        OpenAIChatAdapter,
    ),
    "responses": (
        ApiProtocol.OPENAI_RESPONSES,
        "responses.create",
        {"input": "Hello"},
        OpenAIResponsesAdapter,
    ),
}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(params=sorted(PROTOCOLS))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    provider = SimulatedProvider("alpha", chunks=3, text="all is well")
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator([provider]))
        made = Bench(simulator, *PROTOCOLS[request.param])
        yield made
        for adapter in made.opened:
            adapter.close()
        simulator.wait_for(lambda: simulator.connections() == 0)


@pytest.fixture
def failure_of() -> Callable[[Callable[[], Any]], ProviderError]:
    """The ProviderError that a call ends in."""

    def failure(call: Callable[[], Any]) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            call()
        return caught.value

    return failure


@pytest.fixture
def warnings_told() -> Iterator[list[str]]:
    told: list[str] = []
    sink = logger.add(lambda message: told.append(message.record["message"]), level="WARNING")
    yield told
    logger.remove(sink)
