"""Whose time the building of the SDK's client is."""

import logging
import subprocess
import sys
from typing import Any

import pytest
from loguru import logger
from pydantic import SecretStr

from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.adapters.openai_client import ClientSource
from turnout.adapters.openai_models import build_models
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig
from turnout.deadline import Limit
from turnout.errors import ProviderError
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


IMPORTED = """
import sys
from turnout import ProviderRouter
provider = dict(provider_id="a", name="a", protocol="openai_chat", model="m", api_key="k")
with ProviderRouter([provider], metrics_store=None, adapter_factory=lambda config: None):
    print("openai" in sys.modules)
with ProviderRouter([provider], metrics_store=None):
    print("openai.resources.chat" in sys.modules)
"""


@pytest.mark.slow
def test_the_sdk_is_imported_when_a_router_is_built_for_it_and_not_on_the_first_calls_deadline() -> None:
    run = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=60)

    assert (run.stdout.split(), run.stderr) == (["False", "True"], "")


BUILT = """
import pydantic
from turnout import CallVariant, ProviderRouter
from turnout.testing.simulator import SimulatedProvider, Simulator

rebuild = pydantic.BaseModel.model_rebuild.__func__

def told(model, **known):
    print(model.__name__)
    return rebuild(model, **known)

calls = [
    CallVariant("openai_chat", "chat.completions.create", "{kind}", dict(messages=[], **{more})),
    CallVariant("openai_responses", "responses.create", "{kind}", dict(input="Hello", **{more})),
]
with Simulator([SimulatedProvider("a")]) as sim:
    for call in calls:
        at = dict(protocol=call.protocol, model="m", api_key="k", base_url=sim.base_url("a"))
        with ProviderRouter([dict(provider_id="a", name="a", **at)], metrics_store=None) as router:
            pydantic.BaseModel.model_rebuild = classmethod(told)
            answer = router.invoke(call)
            list(answer) if "{kind}" == "streaming" else answer
            pydantic.BaseModel.model_rebuild = classmethod(rebuild)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "more"), [("regular", {}), ("streaming", {"stream": True})])
def test_the_first_call_finds_the_sdks_models_built(kind: str, more: dict[str, bool]) -> None:
    script = BUILT.replace("{kind}", kind).replace("{more}", repr(more))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert (run.stdout.split(), run.stderr) == ([], "")


@pytest.mark.parametrize("protocol", list(ApiProtocol))
@pytest.mark.parametrize(("openai", "lines"), [(None, 0), (object(), 1)], ids=["missing", "broken"])
def test_a_router_is_built_whatever_hinders_the_building_of_the_sdks_models(
    protocol: ApiProtocol, openai: object, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    sink = logger.add(lambda message: told.append(message.record["message"]), level="DEBUG")
    monkeypatch.setitem(sys.modules, "openai", openai)
    build_models.__wrapped__(protocol)
    logger.remove(sink)
    assert len(told) == lines
    assert all(protocol in line for line in told)


def test_no_line_tells_of_the_answers_that_models_are_built_from(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for protocol in ApiProtocol:
            build_models.__wrapped__(protocol)
    assert caplog.records == []


def test_the_time_to_build_the_client_never_carries_a_call_past_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, take = ManualClock(), ClientSource.take

    def slow(source: ClientSource) -> Any:
        clock.advance(5.0)
        return take(source)

    monkeypatch.setattr(ClientSource, "take", slow)
    config = ProviderConfig(
        provider_id="a",
        name="a",
        protocol=ApiProtocol.OPENAI_CHAT,
        model="m",
        api_key=SecretStr("k"),
        base_url="http://127.0.0.1:9/v1",
    )
    adapter = OpenAIChatAdapter(config, clock=clock)
    limit = Limit(clock.monotonic() + 1.0, clock, clock.monotonic() + 3.0)

    with pytest.raises(ProviderError):
        adapter.invoke("chat.completions.create", {"model": "m", "messages": []}, limit=limit)
    adapter.close()

    assert limit.until == limit.latest
