"""Streams and threads: one reads, any may close, and nobody else's reading harms it."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from turnout import Outcome, PreferencePolicy, ReentrantCallError
from turnout.testing import FINISHED, ScriptedAdapters
from turnout.testing.simulator import Answer, Cut, Ending, Silence, Stall


class Reader(threading.Thread):
    """Reads a stream to its end on a thread of its own."""

    def __init__(self, stream: Any) -> None:
        super().__init__(name="reader", daemon=True)
        self._stream = stream
        self.chunks: list[Any] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for chunk in self._stream:
                self.chunks.append(chunk)
        except BaseException as error:
            self.error = error

    def ended(self) -> bool:
        self.join(30)
        return not self.is_alive()


class Gate:
    """A chunk that comes when it is let through."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.reached.set()
        assert self.open.wait(30)
        return "through"


def test_a_second_reader_is_refused_and_the_first_goes_on(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [["x", gate, "y", FINISHED]], "b": [["z", FINISHED]]}), "ab")
    stream = router.invoke(rig.chat(stream=True))
    reader = Reader(stream)
    assert gate.reached.wait(30)

    with pytest.raises(ReentrantCallError, match="one reader"):
        next(stream)
    gate.open.set()

    assert reader.ended()
    assert (reader.chunks, reader.error) == (["x", "through", "y"], None)
    assert router.health_report()["a"].consecutive_failures == 0
    assert [attempt.outcome for attempt in stream.report().attempts] == [Outcome.OK]


def test_a_stream_closed_by_another_thread_wakes_its_reader_and_ends_for_it(rig: Any) -> None:
    sim = rig.simulate(a=Stall(after_chunks=1), b=Answer())
    router = rig.router(rig.providers(sim), policy=PreferencePolicy())
    stream = router.invoke(rig.chat(stream=True))
    reader = Reader(stream)
    sim.wait_for(lambda: sim.requests("a")[0].chunks_sent == 1)

    stream.close()

    assert reader.ended()
    assert reader.error is None
    assert sim.wait_for(lambda: sim.requests("a")[0].closed_at)
    assert [attempt.outcome for attempt in stream.report().attempts] == [Outcome.IGNORED]
    assert sim.total("b") == 0
    assert router.stats().streams == 0


def test_a_stream_closed_while_it_starts_over_ends_for_its_reader(rig: Any) -> None:
    sim = rig.simulate(a=Cut(after_chunks=0), b=Silence(), c=Answer())
    router = rig.router(rig.providers(sim), policy=PreferencePolicy())
    stream = router.invoke(rig.chat(stream=True))
    reader = Reader(stream)
    sim.wait_for(lambda: sim.total("b") == 1)

    stream.close()

    assert reader.ended()
    assert reader.error is None
    assert sim.wait_for(lambda: sim.requests("b")[0].closed_at)
    assert [attempt.outcome for attempt in stream.report().attempts] == [Outcome.FAILED, Outcome.IGNORED]
    assert sim.total("c") == 0
    assert router.health_report()["b"].consecutive_failures == 0


def test_a_stream_may_be_closed_from_on_restart(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [["x"]], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab")
    stream: Any = router.invoke(rig.chat(stream=True), on_restart=lambda restart: stream.close())

    assert list(stream) == ["x"]
    assert [attempt.outcome for attempt in stream.report().attempts] == [Outcome.FAILED, Outcome.IGNORED]
    assert router.stats().streams == 0


@pytest.mark.parametrize("script", [["x", FINISHED], ["x"], ["x", ConnectionError("gone")]])
def test_closing_and_reading_at_once_ends_the_attempt_once(rig: Any, script: list[Any]) -> None:
    adapters = ScriptedAdapters({"a": [script]})
    router = rig.scripted(adapters, "a", health={"failure_threshold": 10_000})

    for _ in range(200):
        stream = router.invoke(rig.chat(stream=True), on_restart=lambda restart: None)
        start = threading.Barrier(2)
        closer = threading.Thread(target=lambda stream=stream, start=start: (start.wait(30), stream.close()))
        closer.start()
        start.wait(30)
        reader_error = _read(stream)
        closer.join(30)
        assert not closer.is_alive()
        assert not isinstance(reader_error, ValueError), reader_error
        assert len(stream.report().attempts) == 1
    assert router.stats().streams == 0


def _read(stream: Any) -> Exception | None:
    try:
        list(stream)
    except Exception as error:
        return error
    return None


def test_an_abandoned_stream_releases_its_connection_and_is_nobodys_success(rig: Any) -> None:
    sim = rig.simulate(a=Stall(after_chunks=1))
    router = rig.router(rig.providers(sim))
    stream = router.invoke(rig.chat(stream=True))
    next(stream)
    report = stream.report
    progress: Callable[[], Any] = router.stats

    del stream, report
    gc.collect()

    assert sim.wait_for(lambda: sim.requests("a")[0].closed_at)
    assert sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED
    assert progress().streams == 0
    assert router.health_report()["a"].consecutive_failures == 0


def test_streams_abandoned_in_a_cycle_are_released_by_the_collector(rig: Any) -> None:
    sim = rig.simulate(a=Stall(after_chunks=1))
    router = rig.router(rig.providers(sim))
    for _ in range(5):
        holder: dict[str, Any] = {"stream": router.invoke(rig.chat(stream=True))}
        next(holder["stream"])
        holder["holder"] = holder

    del holder
    gc.collect()

    assert sim.wait_for(lambda: all(request.closed_at for request in sim.requests("a")))
    assert {request.outcome for request in sim.requests("a")} == {Ending.CLIENT_CLOSED}
