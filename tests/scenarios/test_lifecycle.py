"""A router's end: what close refuses, waits for, cuts, keeps and leaves alone."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import duckdb
import pytest

from turnout import (
    UNSET,
    PreferencePolicy,
    RouterClosedError,
    SQLiteMetricsStore,
    StreamRestart,
    ThreadsStillRunningError,
)
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import FINISHED, ScriptedAdapters, ScriptedStream
from turnout.testing.simulator import Answer, Cut, Ending, Silence

LONG_AGO = datetime.fromtimestamp(0, UTC)


class Gate:
    """A provider whose calls arrive, and go on when it is opened."""

    def __init__(self) -> None:
        self.arrived: SimpleQueue[str] = SimpleQueue()
        self.opened = threading.Event()

    def __call__(self, call: Any) -> str:
        said = str(call.arguments["messages"][0]["content"])
        self.arrived.put(said)
        assert self.opened.wait(30)
        return f"answer to {said}"


def refuses(router: Any) -> bool:
    """Whether the router takes no more work; waits for that, in small steps, for at most half a minute."""
    pause = threading.Event()
    for _ in range(30_000):
        try:
            router.resize(4)
        except RouterClosedError:
            return True
        pause.wait(0.001)
    return False


def test_a_closed_router_refuses_work_and_still_tells_of_health(rig: Any) -> None:
    router = rig.scripted(
        ScriptedAdapters({"a": [ConnectionError("down"), "a"]}), "a", health={"failure_threshold": 1}
    )
    client = router.client()
    with pytest.raises(Exception, match="down"):
        router.invoke(rig.chat())
    router.close()

    doors: list[Callable[[], Any]] = [
        lambda: router.invoke(rig.chat()),
        lambda: router.submit(rig.chat()),
        lambda: asyncio.run(router.ainvoke(rig.chat())),
        lambda: router.submit(rig.chat(), block=True, timeout=1.0),
        router.flush,
        lambda: router.resize(2),
        lambda: client.chat.completions.create(model="m", messages=[]),
    ]
    for door in doors:
        with pytest.raises(RouterClosedError):
            door()

    assert router.health_report()["a"].consecutive_failures == 1
    router.reset_health("a")
    assert router.health_report()["a"].consecutive_failures == 0
    assert router.stats().workers == 0


def test_closing_twice_is_closing_once(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")
    router.submit(rig.chat()).result(30)

    router.close()
    router.close(timeout=1.0)

    with pytest.raises(RouterClosedError):
        router.invoke(rig.chat())


def test_a_router_is_a_context_manager_that_closes_after_an_error_too(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")

    with contextlib.suppress(LookupError), router as entered:
        assert entered is router
        raise LookupError

    with pytest.raises(RouterClosedError):
        router.invoke(rig.chat())


def test_close_waits_for_what_was_submitted_running_and_queued(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a", pool={"max_workers": 1})
    futures = [router.submit(rig.chat(str(number))) for number in range(3)]
    assert gate.arrived.get(timeout=30) == "0"

    closer = threading.Thread(target=router.close, name="closer")
    closer.start()
    assert refuses(router)
    assert closer.is_alive()
    gate.opened.set()
    closer.join(30)

    assert not closer.is_alive()
    assert [future.result(0) for future in futures] == ["answer to 0", "answer to 1", "answer to 2"]


def test_close_lets_calls_end_that_end_while_it_begins_to_wait_for_them(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": ["answer"]})
    for _ in range(15):
        router = rig.scripted(adapters, "a", pool={"max_workers": 12})
        futures = [router.submit(rig.chat()) for _ in range(300)]
        router.close()
        assert [future.cancelled() for future in futures] == [False] * 300


def test_close_with_a_timeout_cuts_what_does_not_end_in_it(rig: Any) -> None:
    sim = rig.simulate(a=Silence())
    router = rig.router(rig.providers(sim))
    future = router.submit(rig.chat())
    sim.wait_for(lambda: sim.total("a") == 1)

    router.close(timeout=0.1)

    assert future.cancelled()
    assert sim.wait_for(lambda: sim.requests("a")[0].closed_at)
    assert sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED


def test_nothing_told_before_close_is_lost(rig: Any) -> None:
    store = MemoryMetricsStore()
    adapters = ScriptedAdapters({"a": ["a"], "b": [ConnectionError("down")]})
    router = rig.scripted(
        adapters,
        "ab",
        metrics_store=store,
        health={"failure_threshold": 10_000},
        ledger={"flush_seconds": 60.0},
    )
    for _ in range(300):
        router.submit(rig.chat())

    router.close()

    rows = store.query_recent(since=LONG_AGO)
    # Half of them begin at "b" where it has room, fail there, and go on.
    assert len(rows) == len(adapters.calls) > 300
    assert router.stats().ledger.written == len(rows)


def test_close_ends_the_store_that_the_router_made_and_leaves_the_callers_own(
    rig: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own = SQLiteMetricsStore(tmp_path / "own.sqlite")
    adapters = ScriptedAdapters({"a": ["a"]})

    for settings in ({"metrics_store": UNSET}, {"metrics_store": own}):
        router = rig.scripted(adapters, "a", **settings)
        router.invoke(rig.chat())
        router.close()

    assert len(own.query_recent(since=LONG_AGO)) == 1
    own.close()
    # DuckDB lets a file be opened read-only only when nothing in this process holds it for writing.
    with duckdb.connect(tmp_path / ".turnout" / "metrics.duckdb", read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM provider_attempts").fetchall() == [(1,)]


def test_streams_in_callers_hands_stay_readable_after_close(rig: Any) -> None:
    store = MemoryMetricsStore()
    sim = rig.simulate(a=Answer(text="one two three", chunks=3))
    router = rig.router(rig.providers(sim), metrics_store=store)
    stream = router.invoke(rig.chat(stream=True))
    first = next(stream)

    router.close()
    assert router.stats().streams == 1
    said = [chunk.choices[0].delta.content or "" for chunk in [first, *stream]]

    assert "".join(said) == "one two three"
    assert stream.report().answered_by.provider_id == "a"
    # What it reports after the ledger's end is counted, and the client it used is closed with it.
    assert router.stats().ledger.dropped == 1
    assert router.stats().streams == 0
    assert sim.wait_for(lambda: sim.connections("a") == 0)


def test_a_stream_that_breaks_after_close_still_starts_over(rig: Any) -> None:
    told: list[StreamRestart] = []
    sim = rig.simulate(a=Cut(after_chunks=1), b=Answer(text="whole"))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy(), on_restart=told.append)
    stream = router.invoke(rig.chat(stream=True))
    next(stream)

    router.close()
    rest = list(stream)

    assert "".join(chunk.choices[0].delta.content or "" for chunk in rest[-6:]).endswith("whole")
    assert len(told) == 1
    assert router.health_report()["a"].consecutive_failures == 1


def test_close_names_the_thread_that_hangs_in_an_abandoned_stream(rig: Any) -> None:
    closing, gate = threading.Event(), threading.Event()

    class Hanging(ScriptedStream):
        def close(self) -> None:
            closing.set()
            assert gate.wait(30)

    def opens(call: Any) -> Any:
        return Hanging(["x", FINISHED])

    router = rig.scripted(ScriptedAdapters({"a": [opens]}), "a")
    stream = router.invoke(rig.chat(stream=True))
    assert next(stream) == "x"
    del stream
    assert closing.wait(30)

    with pytest.raises(ThreadsStillRunningError, match="streams"):
        router.close(timeout=1.0)
    gate.set()
    router.close()


@pytest.mark.parametrize("error", [OSError("away"), SystemExit(3)])
def test_an_abandoned_stream_that_cannot_be_closed_gives_its_room_back_and_harms_no_other(
    rig: Any, error: BaseException
) -> None:
    class Stubborn(ScriptedStream):
        def close(self) -> None:
            raise error

    streams = [Stubborn(["x", FINISHED]), ScriptedStream(["y", FINISHED])]
    provider = {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}
    router = rig.router(
        [{**provider, "max_concurrency": 1}],
        adapter_factory=ScriptedAdapters(
            {"a": [lambda call: streams.pop(0), lambda call: streams.pop(0), "z"]}
        ),
    )
    last = streams[-1]
    for chunk in ("x", "y"):
        # Waits for the room that the stream before had.
        stream = router.submit(rig.chat(stream=True)).result(30)
        assert next(stream) == chunk
        del stream

    assert router.submit(rig.chat()).result(30) == "z"
    assert last.closed
