"""Streams: native chunks, restarts that join nothing, and leaving early."""

from datetime import UTC, datetime
from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    Fault,
    Outcome,
    PreferencePolicy,
    ProviderStreamInterruptedError,
    RouterStream,
)
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters
from turnout.testing.simulator import (
    Answer,
    Empty,
    Ending,
    Incomplete,
    MissingDone,
    Stall,
    Status,
)

LONG_AGO = datetime.fromtimestamp(0, UTC)


def text(chunks: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def preferring(rig: Any, sim: Any, **settings: Any) -> Any:
    return rig.router(rig.providers(sim), policy=PreferencePolicy(), **settings)


def test_a_stream_gives_the_sdks_own_chunks_in_order_and_unbuffered(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="Hello to you", chunks=3))
    router = rig.router(rig.providers(sim))

    response = router.invoke(
        [
            CallVariant(
                protocol=ApiProtocol.OPENAI_CHAT,
                operation="chat.completions.create",
                call_type=CallType.STREAMING,
                arguments={"messages": [{"role": "user", "content": "Hello"}], "stream": True},
            )
        ]
    )
    assert type(response) is RouterStream

    said = ""
    for chunk in response:
        assert type(chunk) is ChatCompletionChunk
        said += chunk.choices[0].delta.content or ""

    assert said == "Hello to you"
    assert response.restarts == 0
    assert list(response) == []

    # Each chunk of a provider that then falls silent is there before it sends another.
    for sent in (1, 2):
        sim.script("a", Stall(after_chunks=sent, answer=Answer(text="Hello to you", chunks=3)))
        with router.invoke(rig.chat(stream=True)) as stream:
            pieces: list[str] = []
            while len(pieces) < sent:
                pieces += filter(None, [text([next(stream)])])
            request = sim.requests("a")[-1]
        assert "Hello to you".startswith("".join(pieces))
        assert (request.chunks_sent, request.outcome) == (sent, Ending.OPEN)


def test_usage_is_there_when_the_caller_asked_the_provider_for_it(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="hi", prompt_tokens=7, completion_tokens=2))
    router = rig.router(rig.providers(sim))

    with router.invoke(rig.chat(stream=True, stream_options={"include_usage": True})) as stream:
        list(stream)
    with router.invoke(rig.chat(stream=True)) as bare:
        list(bare)

    assert stream.usage.total_tokens == 9
    assert bare.usage is None


def test_done_may_be_missing_where_the_provider_marked_the_end(rig: Any) -> None:
    sim = rig.simulate(a=MissingDone(Answer(text="whole")), b=Answer())
    router = preferring(rig, sim)

    assert text(router.invoke(rig.chat(stream=True))) == "whole"
    assert sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 0


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
def test_an_answer_that_the_provider_cut_short_itself_is_served(rig: Any, reason: Any) -> None:
    sim = rig.simulate(a=Incomplete(reason, answer=Answer(text="as far as it goes")), b=Answer())
    router = preferring(rig, sim)

    chunks = list(router.invoke(rig.chat(stream=True)))
    whole = router.invoke(rig.chat())

    ends = {chunk.choices[0].finish_reason for chunk in chunks} - {None}
    assert ends == {whole.choices[0].finish_reason} <= {"length", "content_filter"}
    assert sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 0


def test_stopping_early_closes_the_connection_and_records_nobodys_success(rig: Any) -> None:
    store = MemoryMetricsStore()
    sim = rig.simulate(a=Answer(text="a long answer", chunks=10, chunk_interval_seconds=5.0), b=Answer())
    router = preferring(rig, sim, metrics_store=store)

    with router.invoke(rig.chat(stream=True)) as stream:
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break

    assert sim.wait_for(lambda: sim.requests("a")[0].closed_at)
    assert sim.requests("a")[0].outcome == "client_closed"
    assert list(stream) == []
    stream.close()
    assert sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 0
    assert router.flush()
    (row,) = store.query_recent(since=LONG_AGO)
    assert (row.outcome, row.success) == (Outcome.IGNORED, None)


def test_closing_after_the_end_mark_records_the_success_it_was(rig: Any) -> None:
    store = MemoryMetricsStore()
    adapters = ScriptedAdapters({"a": [["x", "y", FINISHED, "usage"]]})
    router = rig.scripted(adapters, "a", metrics_store=store)

    with router.invoke(rig.chat(stream=True)) as stream:
        assert [next(stream), next(stream)] == ["x", "y"]

    assert stream.report().answered_by.provider_id == "a"
    assert router.flush()
    (row,) = store.query_recent(since=LONG_AGO)
    assert (row.outcome, row.success, row.stream_opened) == (Outcome.OK, True, True)


def test_the_ledger_tells_streams_that_opened_from_those_that_did_not(rig: Any) -> None:
    store = MemoryMetricsStore()
    sim = rig.simulate(a=Status(500), b=Empty(), c=Answer(text="c"))
    router = preferring(rig, sim, metrics_store=store)
    assert text(router.invoke(rig.chat(stream=True))) == "c"
    router.invoke(rig.chat())

    assert router.flush()
    rows = store.query_recent(since=LONG_AGO)
    seen = [(row.provider_id, row.success, row.stream_opened, row.latency_ms is None) for row in rows]
    assert seen[:3] == [("a", False, False, True), ("b", False, True, True), ("c", True, True, False)]
    assert {opened for _, _, opened, _ in seen[3:]} == {None}
    assert all(row.total_duration_ms > 0 for row in rows)


def test_a_deadline_is_met_by_the_first_content_and_no_later_failure_is_its(rig: Any) -> None:
    clock = ManualClock()
    broke = ProviderStreamInterruptedError("gone", provider_id="a")
    router = rig.scripted(ScriptedAdapters({"a": [["x", "y", broke]]}), "a", clock=clock)
    stream = router.invoke(rig.chat(stream=True), timeout=5.0)
    assert next(stream) == "x"
    clock.advance(60.0)

    assert next(stream) == "y"
    with pytest.raises(ProviderStreamInterruptedError):
        next(stream)

    (attempt,) = stream.report().attempts
    assert attempt.fault is Fault.STREAM_INTERRUPTED
    assert router.health_report()["a"].consecutive_failures == 1
