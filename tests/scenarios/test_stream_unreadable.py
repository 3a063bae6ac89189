"""Streams of a shape that the adapter cannot read: no end mark, and so no truncation that could be told."""

from typing import Any

from turnout import ApiProtocol, CallType, CallVariant, Outcome, PreferencePolicy, StreamRestart
from turnout.testing.simulator import Answer, Cut, NoFinish

#: Responses events are of a shape that the adapter for Chat cannot read.
UNREADABLE = CallVariant(
    ApiProtocol.OPENAI_CHAT, "responses.create", CallType.STREAMING, {"input": "Hello", "stream": True}
)


def test_where_no_end_mark_can_be_read_a_stream_counts_as_whole_with_one_warning(
    rig: Any, logged: Any
) -> None:
    sim = rig.simulate(a=[Answer(text="hi"), NoFinish(Answer(text="hi"))], b=Answer())
    router = rig.router(rig.providers(sim), policy=PreferencePolicy())

    streams = [router.invoke(UNREADABLE) for _ in range(2)]
    events = [list(stream) for stream in streams]

    assert [len(each) > 1 for each in events] == [True, True]
    assert [stream.report().answered_by.provider_id for stream in streams] == ["a", "a"]
    (warning,) = logged.at("WARNING")
    assert "responses.create" in warning
    assert "cannot be told from a whole one" in warning


def test_such_a_stream_still_falls_over_on_an_exception_and_closes(rig: Any) -> None:
    told: list[StreamRestart] = []
    sim = rig.simulate(a=Cut(after_chunks=1), b=Answer(chunk_interval_seconds=30.0))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy(), on_restart=told.append)

    with router.invoke(UNREADABLE) as stream:
        while not told:
            next(stream)

    assert [restart.failed_provider_id for restart in told] == ["a"]
    assert sim.wait_for(lambda: sim.requests("b")[0].closed_at)
    assert stream.report().attempts[-1].outcome is Outcome.IGNORED
