"""Whose time the building of the SDK's client is."""

from typing import Any

import pytest
from pydantic import SecretStr

from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.adapters.openai_client import ClientSource
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig
from turnout.deadline import Limit
from turnout.testing import ManualClock
from turnout.testing.simulator import Answer, SimulatedProvider, Simulator


def test_the_time_to_build_the_client_is_not_charged_to_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, take = ManualClock(), ClientSource.take

    def slow(source: ClientSource) -> Any:
        clock.advance(5.0)
        return take(source)

    monkeypatch.setattr(ClientSource, "take", slow)
    with Simulator([SimulatedProvider("a", Answer(text="in time"))]) as sim:
        config = ProviderConfig(
            provider_id="a",
            name="a",
            protocol=ApiProtocol.OPENAI_CHAT,
            model="m",
            api_key=SecretStr("k"),
            base_url=sim.base_url("a"),
        )
        adapter = OpenAIChatAdapter(config, clock=clock)
        limit = Limit(clock.monotonic() + 1.0, clock)

        answer = adapter.invoke("chat.completions.create", {"model": "m", "messages": []}, limit=limit)
        adapter.close()

    assert answer.choices[0].message.content == "in time"
    assert limit.until == clock.monotonic() + 1.0
