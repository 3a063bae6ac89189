"""A router that is let go without a close: its threads end by themselves, and what they were told is written."""

import gc
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from weakref import ref

from turnout import ProviderConfig, ProviderRouter
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import FINISHED, Prelude, ScriptedAdapters, ScriptedStream

LONG_AGO = datetime.fromtimestamp(0, UTC)


class Given:
    """A policy of the user's own, asked on a thread of its own."""

    def order(self, eligible: Sequence[Any], context: Any) -> Sequence[Any]:
        return eligible


def router_of(store: Any, **scripts: Any) -> ProviderRouter:
    """A router whose ledger writes at its end alone, and that nothing but the test refers to."""
    configs = [
        ProviderConfig(provider_id=name, name=name, protocol="openai_chat", model="m", api_key="k")  # type: ignore[arg-type]
        for name in scripts
    ]
    return ProviderRouter(
        configs,
        "dropped",
        policy=Given(),
        metrics_store=store,
        ledger={"flush_seconds": 60.0},
        adapter_factory=ScriptedAdapters(scripts),
    )


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("turnout-dropped-")]


def all_end(threads: list[threading.Thread]) -> bool:
    return all(ended(thread) for thread in threads)


def ended(thread: threading.Thread) -> bool:
    thread.join(20)
    return not thread.is_alive()


async def awaited(call: Any) -> str:
    return "awaited"


def test_a_router_that_is_dropped_ends_its_threads_and_writes_what_they_were_told(rig: Any) -> None:
    store = MemoryMetricsStore()
    streams = iter([ScriptedStream(["x", FINISHED])])
    router = router_of(store, a=[lambda call: next(streams), awaited, "answer"])
    stream = router.invoke(rig.chat(stream=True))
    assert list(stream) == ["x"]
    assert router.submit(rig.chat(), timeout=20.0).result(20) == "awaited"
    assert router.invoke(rig.chat()) == "answer"
    threads = own_threads()
    parts = {thread.name.split("-")[2] for thread in threads}
    assert parts == {"health", "ordering", "ledger", "store", "timer", "loop", "worker", "streams"}
    gone = ref(router._engine)

    del router, stream
    gc.collect()

    assert gone() is None
    assert all_end(threads)
    assert len(store.query_recent(since=LONG_AGO)) == 3


def test_a_router_that_is_dropped_with_calls_under_way_ends_after_them(rig: Any) -> None:
    store, go_on = MemoryMetricsStore(), threading.Event()

    def waits(call: Any) -> str:
        assert go_on.wait(20)
        return "answer"

    router = router_of(store, a=[waits])
    futures = [router.submit(rig.chat()) for _ in range(100)]
    threads = own_threads()
    del router
    gc.collect()
    go_on.set()

    assert [future.result(20) for future in futures] == ["answer"] * 100
    assert all_end(threads)
    assert len(store.query_recent(since=LONG_AGO)) == 100


def test_a_stream_in_a_callers_hands_keeps_its_router_to_its_end(rig: Any) -> None:
    async def opens(call: Any) -> ScriptedStream:
        return ScriptedStream(["y", FINISHED])

    store = MemoryMetricsStore()
    router = router_of(store, a=[[Prelude("role"), ConnectionError("cut")]], b=[opens])
    stream = router.invoke(rig.chat(stream=True))
    threads = own_threads()
    del router
    gc.collect()

    assert list(stream) == ["y"]
    threads = list({*threads, *own_threads()})
    del stream
    gc.collect()
    assert all_end(threads)
    assert [row.outcome for row in store.query_recent(since=LONG_AGO)] == ["failed", "ok"]


def test_a_stream_that_is_dropped_with_its_router_is_closed_and_recorded(rig: Any) -> None:
    store, released = MemoryMetricsStore(), threading.Event()

    class Watched(ScriptedStream):
        def close(self) -> None:
            super().close()
            released.set()

    streams = iter([Watched(["x", "y", FINISHED])])
    stream = router_of(store, a=[lambda call: next(streams)]).invoke(rig.chat(stream=True))
    assert next(stream) == "x"
    threads = own_threads()
    del stream
    gc.collect()

    assert released.wait(20)
    assert all_end(threads)
    assert len(store.query_recent(since=LONG_AGO)) == 1
