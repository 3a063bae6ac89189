"""Streams that were started over: let go, they are given back; ended, they end loudly."""

import gc
import threading
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import (
    ApiProtocol,
    DeadlineExceededError,
    Fault,
    PreferencePolicy,
    ProviderConfig,
    RouterExhaustedError,
    StreamRestart,
)
from turnout.testing import FINISHED, ScriptedAdapters
from turnout.testing.scripted import ScriptedStream
from turnout.testing.simulator import Answer, Cut, KeepAliveComments, Reset, Status


class Telling(ScriptedStream):
    """Says when it is closed."""

    def __init__(self, *script: Any) -> None:
        super().__init__(script)
        self.gone = threading.Event()

    def close(self) -> None:
        super().close()
        self.gone.set()


def provider(name: str, **settings: Any) -> ProviderConfig:
    return ProviderConfig(
        provider_id=name,
        name=name,
        protocol=ApiProtocol.OPENAI_CHAT,
        model="m",
        api_key=SecretStr("k"),
        **settings,
    )


def test_an_abandoned_stream_that_was_started_over_is_closed_and_its_place_given_back(rig: Any) -> None:
    second = Telling("one", "two", FINISHED)
    gone = ConnectionError("gone")
    adapters = ScriptedAdapters({"a": [[gone], gone], "b": [lambda call: second, "next"]})
    router = rig.router(
        [provider("a"), provider("b", max_concurrency=1)], policy=PreferencePolicy(), adapter_factory=adapters
    )
    stream = router.invoke(rig.chat(stream=True))
    assert next(stream) == "one"
    assert stream.restarts == 1

    del stream
    gc.collect()

    assert second.gone.wait(5)
    assert router.stats().streams == 0
    # It had the only place at the second provider: this call waits for it.
    assert router.invoke(rig.chat(), timeout=5.0) == "next"


@pytest.mark.parametrize(
    "script",
    [Status(503), Reset(), Cut(0), Cut(2)],
    ids=["refused", "reset", "cut before content", "cut after"],
)
@pytest.mark.parametrize("submitted", [False, True], ids=["invoke", "submit"])
def test_a_stream_that_failed_over_within_the_sdk_and_is_let_go_by_its_function_is_given_back(
    rig: Any, script: Any, submitted: bool
) -> None:
    sim = rig.simulate(a=script, b=Answer(text="B" * 20, chunks=20))
    router = rig.router(
        [rig.provider(sim, "a"), rig.provider(sim, "b", max_concurrency=1)],
        policy=PreferencePolicy(),
        on_restart=lambda restart: None,
    )

    def read_a_little() -> None:
        # A variable: errors that keep their frames keep this one, and what it holds.
        call = rig.chat(stream=True)
        stream = router.submit(call).result() if submitted else router.invoke(call)
        for _ in range(5):
            next(stream)
        assert [attempt.by.name for attempt in stream.report().attempts] == ["a"]

    read_a_little()
    gc.collect()

    # The only place at the second provider.
    assert "B" in str(list(router.invoke(rig.chat(stream=True), timeout=10.0)))
    assert router.stats().streams == 0


def test_an_on_restart_that_raises_stop_iteration_never_ends_the_stream_as_if_it_were_whole(rig: Any) -> None:
    def stop(restart: StreamRestart) -> None:
        raise StopIteration

    adapters = ScriptedAdapters({"a": [["x"]], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), on_restart=stop)
    stream = router.invoke(rig.chat(stream=True))

    assert next(stream) == "x"
    with pytest.raises(RuntimeError, match="on_restart raised StopIteration"):
        next(stream)

    assert list(stream) == []
    assert router.stats().streams == 0


def test_a_deadline_in_a_stream_before_its_content_is_told_as_the_deadline(rig: Any) -> None:
    # The first answer builds the SDK's client, so that the time of the second goes to the stream.
    sim = rig.simulate(a=[Answer(), KeepAliveComments()])
    router = rig.router(rig.providers(sim))
    router.invoke(rig.chat())

    with pytest.raises(DeadlineExceededError) as caught:
        list(router.invoke(rig.chat(stream=True), timeout=0.4))

    (attempt,) = caught.value.attempts
    assert attempt.fault is Fault.DEADLINE


#: Functions with a variable for the future would be in a cycle with its error, by their own doing.
ASKED = [methodcaller("result"), methodcaller("result", 30), methodcaller("exception")]


def left_by(call: Callable[[], object]) -> int:
    """What the collector finds after some calls that fail."""

    def fail() -> None:
        try:
            assert call() is not None
        except RouterExhaustedError:
            return

    fail()
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            fail()
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_failed_call_made_where_it_is_waited_for_leaves_nothing_to_the_garbage_collector(rig: Any) -> None:
    go_on, began = threading.Event(), threading.Event()

    def keep_the_worker(call: Any) -> str:
        began.set()
        assert go_on.wait(30)
        return "answer"

    adapters = ScriptedAdapters({"a": [keep_the_worker, RuntimeError("broken")]})
    router = rig.scripted(adapters, "a", pool={"max_workers": 1}, health={"failure_threshold": 10_000})
    busy = router.submit(rig.chat())
    assert began.wait(30)

    try:
        assert left_by(lambda: router.submit(rig.chat()).result()) == 0
        assert left_by(lambda: router.submit(rig.chat()).exception()) == 0
    finally:
        go_on.set()

    assert busy.result(30) == "answer"


@pytest.mark.slow
def test_a_failed_async_call_leaves_nothing_to_the_garbage_collector(rig: Any) -> None:
    async def fails(call: Any) -> str:
        raise RuntimeError("broken")

    router = rig.scripted(ScriptedAdapters({"a": [fails]}), "a", health={"failure_threshold": 10_000})

    for ask in ASKED:
        assert left_by(lambda ask=ask: ask(router.submit(rig.chat()))) == 0  # type: ignore[misc]
    assert left_by(lambda: router.invoke(rig.chat())) == 0
