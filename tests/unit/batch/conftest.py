"""What the batch's tests share: lines, and routers without a network."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from turnout import ProviderRouter
from turnout.testing import ScriptedAdapters

Line = Callable[..., bytes]


@pytest.fixture
def line() -> Line:
    """A good line of Chat, but for the changes given; a field changed to `...` is left out."""

    def make(custom_id: object = "a", **changes: Any) -> bytes:
        fields: dict[str, Any] = {
            "custom_id": custom_id,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "gpt", "messages": [{"role": "user", "content": "hello"}]},
            **changes,
        }
        return (
            json.dumps({name: value for name, value in fields.items() if value is not ...}).encode() + b"\n"
        )

    return make


Routed = Callable[..., tuple[ProviderRouter, ScriptedAdapters]]


@pytest.fixture
def routed() -> Iterator[Routed]:
    """A router over one scripted provider: `routed(*results, **router settings)`."""
    with ExitStack() as stack:

        def make(*results: Any, **settings: Any) -> tuple[ProviderRouter, ScriptedAdapters]:
            adapters = ScriptedAdapters({"p": results})
            config = {
                "provider_id": "p",
                "name": "P",
                "protocol": "openai_chat",
                "model": "m",
                "api_key": "sk-secret",
            }
            settings = {"metrics_store": None, "adapter_factory": adapters, **settings}
            return stack.enter_context(ProviderRouter([config], **settings)), adapters

        yield make
