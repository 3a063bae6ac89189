"""Streams that keep their connection and say nothing: cut at the limit meant for it, whatever moves meanwhile."""

from typing import Any

import pytest

from turnout import DeadlineExceededError, Fault, Outcome, ProviderTimeoutError, RouterExhaustedError
from turnout.testing import ManualClock
from turnout.testing.simulator import (
    Answer,
    Cut,
    EmptyChunks,
    Ending,
    KeepAliveComments,
    ScriptLike,
    Silence,
    SlowFirstToken,
    Stall,
    TrickledBody,
    TrickledHeaders,
)

SHORT_SECONDS = 0.3
LONG_SECONDS = 50.0
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


def limits(first_token: float, idle: float, whole: float = LONG_SECONDS) -> dict[str, float]:
    return {
        "timeout_seconds": whole,
        "first_token_timeout_seconds": first_token,
        "idle_timeout_seconds": idle,
    }


@pytest.mark.parametrize("script", BEFORE_CONTENT.values(), ids=BEFORE_CONTENT.keys())
def test_a_first_token_that_does_not_come_in_time_fails_over_unseen(pair: Any, script: ScriptLike) -> None:
    router = pair.router(script, primary=limits(SHORT_SECONDS, LONG_SECONDS))
    stream = pair.stream(router)

    assert pair.text(stream) == "all of backup"

    assert [attempt.fault for attempt in stream.report().attempts] == [Fault.TIMEOUT, None]
    assert "first_token_timeout_seconds" in router.health_report()["primary"].last_error
    pair.simulator.wait_for(lambda: pair.simulator.requests("primary")[0].outcome is Ending.CLIENT_CLOSED)
    assert pair.simulator.total("primary") == 1


@pytest.mark.parametrize("script", AFTER_CONTENT.values(), ids=AFTER_CONTENT.keys())
def test_content_that_stops_coming_is_cut_at_the_idle_limit_and_started_over(
    pair: Any, script: ScriptLike
) -> None:
    router = pair.router(script, primary=limits(LONG_SECONDS, SHORT_SECONDS))
    said: list[str] = []
    stream = pair.stream(router, on_restart=lambda restart: said.clear())

    said.extend(map(pair.piece, stream))

    assert "".join(said) == "all of backup"
    assert [attempt.fault for attempt in stream.report().attempts] == [Fault.TIMEOUT, None]
    assert "idle_timeout_seconds" in router.health_report()["primary"].last_error
    pair.simulator.wait_for(lambda: pair.simulator.requests("primary")[0].outcome is Ending.CLIENT_CLOSED)


def test_a_stall_after_content_is_an_error_where_nobody_discards(pair: Any) -> None:
    router = pair.router(Stall(after_chunks=1), primary={"idle_timeout_seconds": SHORT_SECONDS})
    stream = pair.stream(router)

    with pytest.raises(ProviderTimeoutError, match=r"no more content for 0\.3 s"):
        list(stream)
    assert pair.simulator.total("backup") == 0


def test_a_held_answer_that_the_deadline_ends_is_not_said_to_have_idled(pair: Any) -> None:
    router = pair.router(Stall(after_chunks=1), primary=limits(LONG_SECONDS, LONG_SECONDS))
    stream = pair.stream(router, timeout=2 * SHORT_SECONDS, stream_failure_policy="hold")

    with pytest.raises(DeadlineExceededError, match="had not sent its whole answer by the call's deadline"):
        next(stream)


@pytest.mark.slow
def test_a_stream_may_take_longer_than_a_whole_answer_may(pair: Any) -> None:
    """``timeout_seconds`` bounds none of a stream's waits that have a limit of their own."""
    slow = Answer(first_token_seconds=0.2, chunk_interval_seconds=0.2, text="abc", chunks=3)
    router = pair.router(slow, primary=limits(LONG_SECONDS, LONG_SECONDS, whole=0.1))

    assert pair.text(pair.stream(router)) == "abc"


@pytest.mark.slow
def test_a_deadline_bounds_the_wait_for_what_is_handed_out_and_no_longer(pair: Any) -> None:
    """Under HOLD that is the whole answer, otherwise its first content."""
    slow = Answer(chunk_interval_seconds=0.3, text="abcdefg", chunks=7)
    router = pair.router([Answer(), slow, slow])
    list(pair.stream(router))

    assert pair.text(pair.stream(router, timeout=1.0)) == "abcdefg"
    held = pair.stream(router, timeout=1.0, stream_failure_policy="hold")
    with pytest.raises(DeadlineExceededError) as caught:
        next(held)

    assert [attempt.fault for attempt in caught.value.attempts] == [Fault.DEADLINE]
    assert pair.simulator.total("backup") == 0


def test_a_stream_that_had_content_in_time_starts_over_after_the_deadline_too(pair: Any) -> None:
    clock = ManualClock()
    router = pair.router(Cut(after_chunks=2), clock=clock)
    said: list[str] = []
    stream = pair.stream(router, timeout=5.0, on_restart=lambda restart: said.clear())

    for chunk in stream:
        said.append(pair.piece(chunk))
        clock.advance(6.0)

    assert "".join(said) == "all of backup"
    assert [attempt.outcome for attempt in stream.report().attempts] == [Outcome.FAILED, Outcome.OK]


def test_a_stream_that_had_content_in_time_fails_for_its_providers_and_for_no_deadline(pair: Any) -> None:
    clock = ManualClock()
    router = pair.router(Cut(after_chunks=2), clock=clock)
    pair.simulator.script("backup", Cut(after_chunks=0))
    stream = pair.stream(router, timeout=5.0, on_restart=lambda restart: None)
    next(stream)
    clock.advance(6.0)

    with pytest.raises(RouterExhaustedError) as caught:
        list(stream)

    assert [attempt.fault for attempt in caught.value.attempts] == [Fault.STREAM_INTERRUPTED] * 2


def test_a_stream_without_content_by_the_deadline_is_not_started_over(pair: Any) -> None:
    clock = ManualClock()
    router = pair.router(Cut(after_chunks=0), clock=clock)
    stream = pair.stream(router, timeout=5.0, on_restart=lambda restart: None)
    clock.advance(6.0)

    with pytest.raises(DeadlineExceededError):
        list(stream)
    assert pair.simulator.total("backup") == 0


def test_an_answer_that_is_held_is_not_started_over_after_the_deadline(pair: Any) -> None:
    clock = ManualClock()
    router = pair.router(Cut(after_chunks=2), clock=clock)
    stream = pair.stream(router, timeout=5.0, stream_failure_policy="hold")
    clock.advance(6.0)

    with pytest.raises(DeadlineExceededError):
        list(stream)
    assert pair.simulator.total("backup") == 0
