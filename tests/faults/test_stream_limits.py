"""Streams that keep their connection and say nothing: cut at the limit meant for it, whatever moves meanwhile."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    Fault,
    PreferencePolicy,
    ProviderConfig,
    ProviderRouter,
    ProviderTimeoutError,
)
from turnout.testing.simulator import (
    Answer,
    EmptyChunks,
    Ending,
    KeepAliveComments,
    ScriptLike,
    Silence,
    SimulatedProvider,
    Simulator,
    SlowFirstToken,
    Stall,
    TrickledBody,
    TrickledHeaders,
)

SHORT_SECONDS = 0.3
LONG_SECONDS = 50.0
OPERATIONS = {
    ApiProtocol.OPENAI_CHAT: (
        "chat.completions.create",
        {"messages": [{"role": "user", "content": "Hello"}]},
    ),
    ApiProtocol.OPENAI_RESPONSES: ("responses.create", {"input": "Hello"}),
}
BEFORE_CONTENT = {
    "silence": Silence(),
    "trickled headers": TrickledHeaders(0.05),
    "a trickled body": TrickledBody(0.05),
    "a slow first token": SlowFirstToken(LONG_SECONDS),
    "a stall": Stall(after_chunks=0),
    "comments alone": KeepAliveComments(0.02),
    "comments after the opening": KeepAliveComments(0.02, after_chunks=0),
    "chunks that say nothing": EmptyChunks(0.02, after_chunks=0),
}
AFTER_CONTENT = {
    "a stall": Stall(after_chunks=1),
    "a slow second token": Answer(chunk_interval_seconds=LONG_SECONDS),
    "comments": KeepAliveComments(0.02, after_chunks=1),
    "chunks that say nothing": EmptyChunks(0.02, after_chunks=1),
}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    primary, backup = (SimulatedProvider(name, text=f"all of {name}") for name in ("primary", "backup"))
    with Simulator([primary, backup]) as started:
        yield started


@pytest.fixture(params=list(OPERATIONS), ids=lambda protocol: protocol.value)
def protocol(request: pytest.FixtureRequest) -> ApiProtocol:
    return ApiProtocol(request.param)


def router_over(simulator: Simulator, protocol: ApiProtocol, **settings: Any) -> ProviderRouter:
    """A primary with these settings and a patient backup, their SDK clients built already."""
    configs = [
        ProviderConfig(
            provider_id=name, name=name, protocol=protocol, model=f"model-{name}",
            api_key=SecretStr("sk-simulated"), base_url=simulator.base_url(name), **each,
        )
        for name, each in (("primary", settings), ("backup", {}))
    ]  # fmt: skip
    return ProviderRouter(configs, metrics_store=None, policy=PreferencePolicy(), metrics_scope="limits")


def streamed(protocol: ApiProtocol) -> CallVariant:
    operation, arguments = OPERATIONS[protocol]
    return CallVariant(protocol, operation, CallType.STREAMING, {**arguments, "stream": True})


def text(chunks: Any) -> str:
    return "".join(map(piece, chunks))


def piece(chunk: Any) -> str:
    if hasattr(chunk, "choices"):
        return chunk.choices[0].delta.content or "" if chunk.choices else ""
    return chunk.delta if chunk.type == "response.output_text.delta" else ""


@pytest.mark.parametrize("script", BEFORE_CONTENT.values(), ids=BEFORE_CONTENT.keys())
def test_a_first_token_that_does_not_come_in_time_fails_over_unseen(
    simulator: Simulator, protocol: ApiProtocol, script: ScriptLike
) -> None:
    simulator.script("primary", script)
    limits = {"first_token_timeout_seconds": SHORT_SECONDS, "idle_timeout_seconds": LONG_SECONDS}
    with (
        router_over(simulator, protocol, timeout_seconds=LONG_SECONDS, **limits) as router,
        router.invoke(streamed(protocol)) as stream,
    ):
        assert text(stream) == "all of backup"

        assert [attempt.fault for attempt in stream.report().attempts] == [Fault.TIMEOUT, None]
        assert "first_token_timeout_seconds" in (router.health_report()["primary"].last_error or "")
        simulator.wait_for(lambda: simulator.requests("primary")[0].outcome is Ending.CLIENT_CLOSED)
        assert simulator.total("primary") == 1


@pytest.mark.parametrize("script", AFTER_CONTENT.values(), ids=AFTER_CONTENT.keys())
def test_content_that_stops_coming_is_cut_at_the_idle_limit_and_started_over(
    simulator: Simulator, protocol: ApiProtocol, script: ScriptLike
) -> None:
    simulator.script("primary", script)
    limits = {"first_token_timeout_seconds": LONG_SECONDS, "idle_timeout_seconds": SHORT_SECONDS}
    said: list[str] = []
    with (
        router_over(simulator, protocol, timeout_seconds=LONG_SECONDS, **limits) as router,
        router.invoke(streamed(protocol), on_restart=lambda restart: said.clear()) as stream,
    ):
        said.extend(map(piece, stream))

        assert "".join(said) == "all of backup"
        assert [attempt.fault for attempt in stream.report().attempts] == [Fault.TIMEOUT, None]
        assert "idle_timeout_seconds" in (router.health_report()["primary"].last_error or "")
        simulator.wait_for(lambda: simulator.requests("primary")[0].outcome is Ending.CLIENT_CLOSED)


def test_a_stall_after_content_is_an_error_where_nobody_discards(
    simulator: Simulator, protocol: ApiProtocol
) -> None:
    simulator.script("primary", Stall(after_chunks=1))
    with (
        router_over(simulator, protocol, idle_timeout_seconds=SHORT_SECONDS) as router,
        router.invoke(streamed(protocol)) as stream,
    ):
        with pytest.raises(ProviderTimeoutError, match=r"no more content for 0\.3 s"):
            list(stream)
        assert simulator.total("backup") == 0


def test_a_stream_may_take_longer_than_a_whole_answer_may(
    simulator: Simulator, protocol: ApiProtocol
) -> None:
    """``timeout_seconds`` bounds none of a stream's waits that have a limit of their own."""
    simulator.script(
        "primary", Answer(first_token_seconds=0.2, chunk_interval_seconds=0.2, text="abc", chunks=3)
    )
    limits = {"first_token_timeout_seconds": LONG_SECONDS, "idle_timeout_seconds": LONG_SECONDS}
    with (
        router_over(simulator, protocol, timeout_seconds=0.1, **limits) as router,
        router.invoke(streamed(protocol)) as stream,
    ):
        assert text(stream) == "abc"
