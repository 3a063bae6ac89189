"""Streams that break: started over where nothing is joined, raised where something would be."""

from typing import Any

import pytest

from turnout import (
    Fault,
    Outcome,
    PreferencePolicy,
    ProviderHTTPError,
    ProviderStreamInterruptedError,
    Reason,
    RouterExhaustedError,
    StreamFailurePolicy,
    StreamRestart,
)
from turnout.testing import FINISHED, ScriptedAdapters
from turnout.testing.simulator import (
    Answer,
    Cut,
    Empty,
    InStreamError,
    MalformedChunk,
    NoFinish,
    Reset,
    Status,
)


def text(chunks: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def preferring(rig: Any, sim: Any, **settings: Any) -> Any:
    return rig.router(rig.providers(sim), policy=PreferencePolicy(), **settings)


BREAKS = {
    "a cut": Cut(after_chunks=0),
    "a reset": Reset(after_chunks=0),
    "an end without a mark": NoFinish(Answer(text="")),
    "an error in the stream": InStreamError(after_chunks=0),
    "a malformed chunk": MalformedChunk(after_chunks=0),
    "no chunk at all": Empty(),
    "a status": Status(503),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_before_content_starts_over_unseen(rig: Any, logged: Any, name: str) -> None:
    told: list[StreamRestart] = []
    sim = rig.simulate(a=BREAKS[name], b=Answer(text="whole"))
    router = preferring(rig, sim)

    with router.invoke(rig.chat(stream=True), on_restart=told.append) as stream:
        assert text(stream) == "whole"

    assert sim.total("b") == 1
    assert router.health_report()["a"].consecutive_failures == 1
    assert told == []
    attempts = stream.report().attempts
    assert [attempt.provider_id for attempt in attempts] == ["a", "b"]
    opened = name != "a status"
    assert attempts[0].stream_opened is opened
    assert attempts[1].reason is (Reason.STREAM_RESTART if opened else Reason.FAILOVER)


def test_a_restart_after_content_is_announced_with_what_to_discard(rig: Any) -> None:
    buffer: list[str] = []
    told: list[str] = []

    def on_restart(restart: StreamRestart) -> None:
        told.append(
            f"discard {restart.chunks_yielded} chunk(s) from "
            f"{restart.failed_provider} ({restart.failed_provider_id})"
        )
        told.append(f"{restart.next_provider} ({restart.next_provider_id}) is regenerating")
        assert isinstance(restart.error, ProviderStreamInterruptedError)
        buffer.clear()

    sim = rig.simulate(a=Cut(after_chunks=2), b=Answer(text="the whole answer"))
    router = rig.router(
        [
            rig.provider(sim, "a", provider_id="provider-a-production", name="provider_a"),
            rig.provider(sim, "b", provider_id="provider-b-production", name="provider_b"),
        ],
        on_restart=on_restart,
    )

    stream = router.invoke(rig.chat(stream=True))
    for chunk in stream:
        buffer += [text([chunk])]

    assert "".join(buffer) == "the whole answer"
    # The role-only opening, then two pieces of text.
    assert told == [
        "discard 3 chunk(s) from provider_a (provider-a-production)",
        "provider_b (provider-b-production) is regenerating",
    ]
    assert stream.restarts == 1


def test_without_on_restart_two_answers_are_never_joined(rig: Any) -> None:
    """Once content was handed out and nobody discards it, the break is raised."""
    sim = rig.simulate(a=Cut(after_chunks=1), b=Answer())
    router = preferring(rig, sim)

    stream = router.invoke(rig.chat(stream=True))
    with pytest.raises(ProviderStreamInterruptedError, match="model-a"):
        list(stream)

    assert list(stream) == []
    assert sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 1


def test_on_restart_of_the_call_goes_before_that_of_the_router(rig: Any) -> None:
    routers: list[StreamRestart] = []
    calls: list[StreamRestart] = []
    adapters = ScriptedAdapters({"a": [["x"]], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), on_restart=routers.append)

    assert list(router.invoke(rig.chat(stream=True), on_restart=calls.append)) == ["x", "y"]
    assert list(router.invoke(rig.chat(stream=True))) == ["x", "y"]

    assert (len(routers), len(calls)) == (1, 1)


def test_an_on_restart_that_raises_ends_the_stream(rig: Any) -> None:
    def refuse(restart: StreamRestart) -> None:
        raise RuntimeError("cannot discard")

    sim = rig.simulate(a=Cut(after_chunks=1), b=Answer(text="b"))
    router = preferring(rig, sim, on_restart=refuse)
    stream = router.invoke(rig.chat(stream=True))

    with pytest.raises(RuntimeError, match="cannot discard"):
        list(stream)

    assert list(stream) == []
    assert sim.wait_for(lambda: sim.requests("b")[0].closed_at is not None)
    assert router.stats().streams == 0


def test_a_restart_goes_on_along_the_same_order_until_nobody_is_left(rig: Any) -> None:
    told: list[StreamRestart] = []
    sim = rig.simulate(a=Cut(after_chunks=1), b=Status(500), c=NoFinish(), d=Reset(after_chunks=1))
    router = preferring(rig, sim, on_restart=told.append)
    stream = router.invoke(rig.chat(stream=True))

    with pytest.raises(RouterExhaustedError) as caught:
        list(stream)

    assert [attempt.provider_id for attempt in caught.value.attempts] == ["a", "b", "c", "d"]
    assert [restart.failed_provider_id for restart in told] == ["a", "c"]
    assert stream.restarts == 2
    assert list(stream) == []


def test_raise_gives_the_providers_own_error_unchanged(rig: Any) -> None:
    broke = ProviderStreamInterruptedError("gone", provider_id="a")
    adapters = ScriptedAdapters({"a": [["x", broke]], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab", stream_failure_policy=StreamFailurePolicy.RAISE)
    stream = router.invoke(rig.chat(stream=True))

    assert next(stream) == "x"
    with pytest.raises(ProviderStreamInterruptedError) as caught:
        next(stream)

    assert caught.value is broke
    assert [call.provider_id for call in adapters.calls] == ["a"]
    assert router.health_report()["a"].consecutive_failures == 1


@pytest.mark.parametrize("behaviour", [Cut(after_chunks=0), Empty()], ids=["cut", "empty"])
def test_raise_holds_before_content_too_and_can_be_asked_for_one_call(rig: Any, behaviour: Any) -> None:
    sim = rig.simulate(a=behaviour, b=Answer(text="b"))
    router = preferring(rig, sim)

    with pytest.raises(ProviderStreamInterruptedError):
        list(router.invoke(rig.chat(stream=True), stream_failure_policy=StreamFailurePolicy.RAISE))
    assert text(router.invoke(rig.chat(stream=True))) == "b"


@pytest.mark.parametrize("policy", list(StreamFailurePolicy))
def test_a_callers_mistake_told_of_in_the_stream_stops_under_both_policies(rig: Any, policy: Any) -> None:
    mistake = ProviderHTTPError("HTTP 400", status_code=400, fault=Fault.BAD_REQUEST)
    adapters = ScriptedAdapters({"a": [["x", mistake]], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab", stream_failure_policy=policy, on_restart=lambda restart: None)

    stream = router.invoke(rig.chat(stream=True))
    with pytest.raises(ProviderHTTPError):
        list(stream)
    assert [call.provider_id for call in adapters.calls] == ["a"]


def test_a_stream_without_a_chunk_answered_nothing_even_when_marked_complete(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [[FINISHED]], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab")

    stream = router.invoke(rig.chat(stream=True))
    assert list(stream) == ["y"]

    first, second = stream.report().attempts
    assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.OK)
    assert first.first_seconds is None


def test_openai_code_that_knows_nothing_of_restarts_never_prints_two_answers(rig: Any) -> None:
    sim = rig.simulate(a=[Cut(after_chunks=0), Cut(after_chunks=2)], b=Answer(text="whole"))
    client = preferring(rig, sim).client()
    hello: Any = [{"role": "user", "content": "Hello"}]

    stream = client.chat.completions.create(model="gpt-x", messages=hello, stream=True)
    assert text(stream) == "whole"

    stream = client.chat.completions.create(model="gpt-x", messages=hello, stream=True)
    with pytest.raises(ProviderStreamInterruptedError):
        list(stream)
    assert sim.total("b") == 1
