"""What the scenarios share: simulated providers behind real routers, and what was logged."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from loguru import logger
from pydantic import SecretStr

from turnout import ApiProtocol, CallType, CallVariant, ProviderConfig, ProviderRouter
from turnout.testing import ScriptedAdapters
from turnout.testing.simulator import ScriptLike, SimulatedProvider, Simulator

_END_SECONDS = 10.0


class Rig:
    """Simulated providers, and routers over them; everything ends with the test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def simulate(self, **scripts: ScriptLike | SimulatedProvider) -> Simulator:
        """A simulator with a provider for each name: its script, or all of its settings."""
        providers = [
            script if isinstance(script, SimulatedProvider) else SimulatedProvider(name, script)
            for name, script in scripts.items()
        ]
        return self._stack.enter_context(Simulator(providers))

    def provider(self, sim: Simulator, at: str, **settings: Any) -> ProviderConfig:
        """The configuration of the simulated provider ``at``: by default of that id and name, over Chat."""
        known: dict[str, Any] = {
            "provider_id": at,
            "name": at,
            "protocol": ApiProtocol.OPENAI_CHAT,
            "model": f"model-{at}",
            "base_url": sim.base_url(at),
        }
        if "api_key_env" not in settings:
            known["api_key"] = SecretStr(f"sk-{at}")
        return ProviderConfig(**(known | settings))

    def providers(self, sim: Simulator) -> list[ProviderConfig]:
        return [self.provider(sim, each.name) for each in sim.providers]

    def router(self, providers: Any, **settings: Any) -> ProviderRouter:
        """A router that keeps no ledger unless told to."""
        settings = {"metrics_scope": "my-application:production", "metrics_store": None, **settings}
        router = ProviderRouter(providers=providers, **settings)
        # Within a time: a test that fails may leave a call behind that waits for manual time.
        self._stack.callback(router.close, _END_SECONDS)
        return router

    def scripted(
        self, adapters: ScriptedAdapters, ids: str, *, timeout_seconds: float = 120.0, **settings: Any
    ) -> ProviderRouter:
        """A router without a network over the providers named by single letters."""
        configs = [
            ProviderConfig(
                provider_id=name,
                name=name,
                protocol=ApiProtocol.OPENAI_CHAT,
                model=f"model-{name}",
                api_key=SecretStr(f"sk-{name}"),
                timeout_seconds=timeout_seconds,
            )
            for name in ids
        ]
        return self.router(configs, adapter_factory=adapters, **settings)

    @staticmethod
    def chat(text: str = "Hello", **arguments: Any) -> list[CallVariant]:
        return [
            CallVariant(
                protocol=ApiProtocol.OPENAI_CHAT,
                operation="chat.completions.create",
                call_type=CallType.STREAMING if arguments.get("stream") else CallType.REGULAR,
                arguments={"messages": [{"role": "user", "content": text}], **arguments},
            )
        ]

    @staticmethod
    def responses(text: str = "Hello", **arguments: Any) -> list[CallVariant]:
        return [
            CallVariant(
                protocol=ApiProtocol.OPENAI_RESPONSES,
                operation="responses.create",
                call_type=CallType.STREAMING if arguments.get("stream") else CallType.REGULAR,
                arguments={"input": text, **arguments},
            )
        ]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(stack)


class Logged:
    """Every record that was logged: level and text."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str]] = []

    def __call__(self, message: Any) -> None:
        record = message.record
        self.records.append((record["level"].name, record["message"]))

    def at(self, level: str) -> list[str]:
        return [text for name, text in self.records if name == level]


@pytest.fixture
def logged() -> Iterator[Logged]:
    sink = Logged()
    number = logger.add(sink, level="DEBUG", format="{message}")
    yield sink
    logger.remove(number)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(_END_SECONDS)
    assert [thread.name for thread in left if thread.is_alive()] == []
