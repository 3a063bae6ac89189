"""Adapters of one's own, and the choice to be watched in mid-stream."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from openai import OpenAI, Stream

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    Fault,
    FilterReason,
    NoEligibleProvidersError,
    NormalizedStream,
    PreferencePolicy,
    ProviderConfig,
    ProviderConnectionError,
    ProviderError,
    ProviderStreamInterruptedError,
    RouterExhaustedError,
    TurnoutError,
)
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Cut


class Raw:
    """Hands the SDK's answer through as it comes, a stream too."""

    def __init__(self, sdk: OpenAI) -> None:
        self._sdk = sdk

    def invoke(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        assert operation == "chat.completions.create"
        return self._sdk.chat.completions.create(**arguments)


class Watched(NormalizedStream):
    """The SDK's chunks unchanged, with their end mark and usage read; only turnout's errors come out."""

    def __init__(self, native: Any, provider_id: str) -> None:
        self._native = native
        self._provider_id = provider_id
        self._completed = False
        self._usage: Any = None

    def __next__(self) -> Any:
        try:
            chunk = next(self._native)
        except StopIteration:
            raise
        except Exception as error:
            raise ProviderStreamInterruptedError(
                "broke off", provider_id=self._provider_id, original=error
            ) from error
        self._completed = self._completed or any(choice.finish_reason for choice in chunk.choices)
        self._usage = chunk.usage or self._usage
        return chunk

    @property
    def completed(self) -> bool:
        return self._completed

    @property
    def usage(self) -> Any:
        return self._usage

    def close(self) -> None:
        self._native.close()


class Watching(Raw):
    def __init__(self, sdk: OpenAI, provider_id: str) -> None:
        super().__init__(sdk)
        self._provider_id = provider_id

    def invoke(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        answer = super().invoke(operation, arguments)
        return Watched(answer, self._provider_id) if arguments.get("stream") else answer


@pytest.fixture
def sdks() -> Iterator[dict[str, OpenAI]]:
    """The factory's own clients: turnout neither makes nor closes them."""
    clients: dict[str, OpenAI] = {}
    yield clients
    for client in clients.values():
        client.close()


def client_for(sdks: dict[str, OpenAI], config: ProviderConfig) -> OpenAI:
    key = config.resolved_key()
    assert key is not None
    return sdks.setdefault(
        config.provider_id,
        OpenAI(api_key=key.get_secret_value(), base_url=config.base_url, max_retries=0),
    )


def test_an_adapter_factory_is_called_for_each_attempt_and_owns_its_clients(
    rig: Any, sdks: dict[str, OpenAI]
) -> None:
    asked: list[str] = []

    def factory(config: ProviderConfig) -> Raw:
        asked.append(config.provider_id)
        return Raw(client_for(sdks, config))

    sim = rig.simulate(a=Answer(text="a"), b=Answer(text="b"))
    router = rig.router(rig.providers(sim), adapter_factory=factory)

    answers = [router.invoke(rig.chat()).choices[0].message.content for _ in range(4)]

    assert answers == ["a", "b", "a", "b"]
    assert asked == ["a", "b", "a", "b"]
    assert [request.body["model"] for request in sim.requests("a")] == ["model-a", "model-a"]
    assert len({request.connection for request in sim.requests("a")}) == 1


def test_a_raw_stream_passes_straight_through(rig: Any, sdks: dict[str, OpenAI]) -> None:
    sim = rig.simulate(a=Cut(after_chunks=1), b=Answer())
    router = rig.router(
        rig.providers(sim),
        policy=PreferencePolicy(),
        adapter_factory=lambda config: Raw(client_for(sdks, config)),
    )

    with router.invoke(rig.chat(stream=True)) as stream:
        assert type(stream) is Stream
        with pytest.raises(Exception, match=r"(?i)connection") as caught:
            list(stream)
        assert not isinstance(caught.value, TurnoutError)

    assert sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 0


def test_a_normalized_stream_opts_into_mid_stream_fallback(rig: Any, sdks: dict[str, OpenAI]) -> None:
    buffer: list[Any] = []
    sim = rig.simulate(a=Cut(after_chunks=1), b=Answer(text="whole", prompt_tokens=3, completion_tokens=1))
    router = rig.router(
        rig.providers(sim),
        policy=PreferencePolicy(),
        on_restart=lambda restart: buffer.clear(),
        adapter_factory=lambda config: Watching(client_for(sdks, config), config.provider_id),
    )

    stream = router.invoke(rig.chat(stream=True, stream_options={"include_usage": True}))
    for chunk in stream:
        buffer += [chunk]

    said = "".join(chunk.choices[0].delta.content or "" for chunk in buffer if chunk.choices)
    assert said == "whole"
    assert stream.usage.total_tokens == 4
    assert stream.restarts == 1
    assert router.health_report()["a"].consecutive_failures == 1


def test_supported_protocols_says_what_a_factory_serves(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": ["served"]})
    chat_only = rig.scripted(adapters, "a", supported_protocols=[ApiProtocol.OPENAI_CHAT])
    neither = rig.scripted(adapters, "a", supported_protocols=[])

    assert chat_only.invoke(rig.chat()) == "served"
    with pytest.raises(NoEligibleProvidersError) as caught:
        neither.invoke(rig.chat())
    assert [e.reason for e in caught.value.exclusions] == [FilterReason.UNSUPPORTED_PROTOCOL]


def test_an_adapter_may_take_the_seconds_that_are_left(rig: Any) -> None:
    given: list[float | None] = []

    class Timed:
        def invoke(
            self, operation: str, arguments: Mapping[str, Any], *, timeout: float | None = None
        ) -> str:
            given.append(timeout)
            return "in time"

    sim = rig.simulate(a=Answer())
    router = rig.router(
        [rig.provider(sim, "a", timeout_seconds=40.0)],
        adapter_factory=lambda config: Timed(),
        clock=ManualClock(),
    )

    router.invoke(rig.chat())
    router.invoke(rig.chat(), timeout=7.0)

    assert given == [40.0, 7.0]


def test_of_what_an_adapter_returns_coroutines_and_futures_of_asyncio_alone_are_awaited(rig: Any) -> None:
    class Awaitable:
        def __await__(self) -> Any:
            raise AssertionError("this is the answer itself")

    async def answer(call: Any) -> str:
        return "awaited"

    def done(call: Any) -> Any:
        loop = asyncio.new_event_loop()
        future = loop.create_future()
        future.set_result("awaited too")
        loop.close()
        return future

    itself = Awaitable()
    router = rig.scripted(ScriptedAdapters({"a": [answer, done, itself]}), "a")

    assert [router.invoke(rig.chat()) for _ in range(3)] == ["awaited", "awaited too", itself]


def test_an_async_adapter_is_awaited_on_the_routers_own_loop(rig: Any) -> None:
    async def answer(call: Any) -> str:
        return f"from {call.provider_id}"

    async def fail(call: Any) -> str:
        raise ConnectionError("down")

    router = rig.scripted(ScriptedAdapters({"a": [fail], "b": [answer]}), "ab", policy=PreferencePolicy())

    assert router.invoke(rig.chat()) == "from b"
    assert router.submit(rig.chat()).result(30) == "from b"


@pytest.mark.parametrize("way", ["invoke", "submit"])
def test_an_async_adapter_that_is_cut_at_its_providers_limit_has_timed_out(rig: Any, way: str) -> None:
    async def hang(call: Any) -> None:
        await asyncio.get_running_loop().create_future()

    adapters = ScriptedAdapters({"a": [hang]})
    router = rig.scripted(adapters, "a", timeout_seconds=0.05)

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat()) if way == "invoke" else router.submit(rig.chat()).result(30)

    assert caught.value.attempts[0].fault is Fault.TIMEOUT


# What an adapter raises, and the fault it is taken for.
RAISED = {
    "a provider error": (ProviderConnectionError("gone"), Fault.CONNECTION),
    "a provider error with a fault": (ProviderError("busy", fault=Fault.RATE_LIMIT), Fault.RATE_LIMIT),
    "a timeout of Python's own": (TimeoutError("slow"), Fault.TIMEOUT),
    "anything else": (KeyError("own bug"), Fault.UNKNOWN),
}


@pytest.mark.parametrize("name", RAISED)
def test_what_an_adapter_raises_falls_back_with_the_very_error_kept(rig: Any, name: str) -> None:
    error, fault = RAISED[name]
    router = rig.scripted(ScriptedAdapters({"a": [error]}), "a")

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())

    (attempt,) = caught.value.attempts
    assert attempt.error is error
    assert attempt.fault is fault


def test_a_factory_that_raises_is_that_providers_failure(rig: Any) -> None:
    scripted = ScriptedAdapters({"b": ["b"]})

    def factory(config: ProviderConfig) -> Any:
        if config.provider_id == "a":
            raise LookupError("no adapter today")
        return scripted(config)

    sim = rig.simulate(a=Answer(), b=Answer())
    router = rig.router(rig.providers(sim), policy=PreferencePolicy(), adapter_factory=factory)

    assert router.invoke(rig.chat()) == "b"
    assert "no adapter today" in router.health_report()["a"].last_error


def test_the_callers_arguments_are_copied_not_changed(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": ["x"]})
    sim = rig.simulate(a=Answer())
    router = rig.router(
        [rig.provider(sim, "a", extra_body={"top_k": 5, "seed": 1})], adapter_factory=adapters
    )
    arguments = {"messages": [], "extra_body": {"seed": 2}}

    router.invoke(
        CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, arguments)
    )

    assert arguments == {"messages": [], "extra_body": {"seed": 2}}
    assert adapters.calls[0].arguments == {
        "messages": [],
        "model": "model-a",
        "extra_body": {"top_k": 5, "seed": 2},
    }
