"""A close that was cut short, refused or asked for twice: the router still ends, with every row written."""

import signal
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from turnout import ConfigError, RouterClosedError
from turnout.runtime.door import Door
from turnout.runtime.pool import WorkerPool
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import ScriptedAdapters

LONG_AGO = datetime.fromtimestamp(0, UTC)
#: Longer than any test: only a close writes.
LATE = {"flush_seconds": 60.0}


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


def test_a_close_after_an_interrupted_one_goes_on_and_writes_the_rows(rig: Any) -> None:
    store, go_on = MemoryMetricsStore(), threading.Event()

    def interrupt_the_close(call: Any) -> str:
        assert refuses(router)
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)
        assert go_on.wait(30)
        return "answer"

    adapters = ScriptedAdapters({"a": [interrupt_the_close]})
    router = rig.scripted(adapters, "a", metrics_store=store, ledger=LATE)
    future = router.submit(rig.chat())

    with pytest.raises(KeyboardInterrupt):
        router.close()
    go_on.set()
    router.close()

    assert future.result(0) == "answer"
    assert len(store.query_recent(since=LONG_AGO)) == 1


def test_a_close_from_a_signal_handler_leaves_the_close_that_it_interrupts_to_go_on(rig: Any) -> None:
    store, handled = MemoryMetricsStore(), threading.Event()

    def signal_the_close(call: Any) -> str:
        assert refuses(router)
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGUSR1)
        assert handled.wait(30)
        return "answer"

    def handle(*_: Any) -> None:
        router.close()
        handled.set()

    router = rig.scripted(ScriptedAdapters({"a": [signal_the_close]}), "a", metrics_store=store, ledger=LATE)
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        future = router.submit(rig.chat())
        router.close()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert future.result(0) == "answer"
    assert len(store.query_recent(since=LONG_AGO)) == 1


def test_a_second_thread_that_closes_waits_until_the_first_is_done(rig: Any) -> None:
    store, go_on = MemoryMetricsStore(), threading.Event()
    seen: list[int] = []

    def wait(call: Any) -> str:
        assert go_on.wait(30)
        return "answer"

    def close_too() -> None:
        router.close()
        seen.append(len(store.query_recent(since=LONG_AGO)))

    router = rig.scripted(ScriptedAdapters({"a": [wait]}), "a", metrics_store=store, ledger=LATE)
    router.submit(rig.chat())
    first = threading.Thread(target=router.close, name="first")
    first.start()
    assert refuses(router)
    second = threading.Thread(target=close_too, name="second")
    second.start()
    second.join(0.1)
    go_on.set()
    first.join(30)
    second.join(30)

    assert seen == [1]


@pytest.mark.parametrize("timeout", [float("inf"), float("nan"), 1e10, -1, True, "x"])
def test_a_close_with_a_timeout_that_is_none_is_refused_and_the_router_can_still_be_closed(
    rig: Any, timeout: Any
) -> None:
    store = MemoryMetricsStore()
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", metrics_store=store, ledger=LATE)
    router.submit(rig.chat()).result(30)

    with pytest.raises(ConfigError, match="number of seconds"):
        router.close(timeout)
    assert router.invoke(rig.chat()) == "a"
    router.close()

    assert len(store.query_recent(since=LONG_AGO)) == 2


@pytest.mark.parametrize("block", [True, False])
def test_a_close_from_a_signal_handler_does_not_wait_for_the_submit_that_it_interrupts(
    rig: Any, monkeypatch: pytest.MonkeyPatch, block: bool
) -> None:
    begun, gate = threading.Event(), threading.Event()

    def held(call: Any) -> str:
        begun.set()
        assert gate.wait(30)
        return "answer"

    router = rig.scripted(ScriptedAdapters({"a": [held]}), "a", pool={"max_workers": 1, "max_queue": 1})
    calls = [router.submit(rig.chat())]
    assert begun.wait(30)
    if block:
        calls.append(router.submit(rig.chat()))
    # Where it waits for a place, or just before it is queued.
    place, name = (Door, "wait") if block else (WorkerPool, "submit")
    goes_on = getattr(place, name)

    def interrupted(*known: Any, **named: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return goes_on(*known, **named)

    def handle(*_: object) -> None:
        gate.set()
        router.close()

    monkeypatch.setattr(place, name, interrupted)
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(RouterClosedError):
            router.submit(rig.chat(), block=block)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert [call.result(0) for call in calls] == ["answer"] * len(calls)
    assert router.stats().pending == 0
