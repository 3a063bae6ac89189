"""The adapters that come with turnout, by protocol."""

from collections.abc import Callable
from typing import Final, Protocol

from turnout.adapters.contract import NativeAdapter
from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.adapters.openai_responses import OpenAIResponsesAdapter
from turnout.calls import ApiProtocol
from turnout.clock import Clock
from turnout.config import ProviderConfig
from turnout.errors import UnsupportedProtocolError


class ClosableAdapter(NativeAdapter, Protocol):
    def close(self) -> None: ...


_BY_PROTOCOL: Final[dict[ApiProtocol, Callable[..., ClosableAdapter]]] = {
    ApiProtocol.OPENAI_CHAT: OpenAIChatAdapter,
    ApiProtocol.OPENAI_RESPONSES: OpenAIResponsesAdapter,
}

SUPPORTED_PROTOCOLS: Final = frozenset(_BY_PROTOCOL)


class BuiltInAdapters:
    """An adapter factory: one adapter for each provider, made at its first call and used by all threads."""

    def __init__(self, connections: int, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._adapters: dict[str, ClosableAdapter] = {}

    def __call__(self, config: ProviderConfig) -> NativeAdapter:
        adapter = self._adapters.get(config.provider_id)
        if adapter is not None:
            return adapter
        make = _BY_PROTOCOL.get(config.protocol)
        if make is None:
            raise UnsupportedProtocolError(f"no adapter for the protocol {config.protocol}")
        # Of two threads that make one at once, the first to be kept is used by both; neither has connected yet.
        return self._adapters.setdefault(
            config.provider_id, make(config, connections=self._connections, clock=self._clock)
        )

    def close(self) -> None:
        for adapter in self._adapters.values():
            adapter.close()
