"""The adapters that come with turnout, by protocol."""

from collections.abc import Collection
from typing import Final, Protocol, assert_never

from turnout.adapters.contract import NativeAdapter
from turnout.calls import ApiProtocol
from turnout.clock import Clock
from turnout.config import ProviderConfig


class ClosableAdapter(NativeAdapter, Protocol):
    def close(self) -> None: ...


SUPPORTED_PROTOCOLS: Final = frozenset({ApiProtocol.OPENAI_CHAT, ApiProtocol.OPENAI_RESPONSES})


class BuiltInAdapters:
    """An adapter factory: one adapter for each provider, made at its first call and used by all threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._adapters: dict[str, ClosableAdapter] = {}

    def __call__(self, config: ProviderConfig) -> NativeAdapter:
        adapter = self._adapters.get(config.provider_id)
        if adapter is not None:
            return adapter
        # Of two threads that make one at once, the first to be kept is used by both; neither has connected yet.
        return self._adapters.setdefault(config.provider_id, self._made(config))

    @staticmethod
    def prepare(protocols: Collection[ApiProtocol]) -> None:
        """Import and build what calls for ``protocols`` need: a second that is better not taken from the first call's
        deadline. What is not installed is told of by the call that needs it."""
        from turnout.adapters.openai_models import build_models

        for protocol in SUPPORTED_PROTOCOLS.intersection(protocols):
            build_models(protocol)

    def close(self) -> None:
        for adapter in self._adapters.values():
            adapter.close()

    def _made(self, config: ProviderConfig) -> ClosableAdapter:
        # Imported here: what an adapter needs (TLS, HTTP) is not needed to import turnout.
        match config.protocol:
            case ApiProtocol.OPENAI_CHAT:
                from turnout.adapters.openai_chat import OpenAIChatAdapter

                return OpenAIChatAdapter(config, clock=self._clock)
            case ApiProtocol.OPENAI_RESPONSES:
                from turnout.adapters.openai_responses import OpenAIResponsesAdapter

                return OpenAIResponsesAdapter(config, clock=self._clock)
            case _:
                assert_never(config.protocol)
