"""Where the system gives no more threads: told at once, nothing made for nothing, and over once there are some."""

import asyncio
import errno
import threading
from collections.abc import Callable
from typing import Any

import pytest

from turnout import DeadlineExceededError, PreferencePolicy, RouterBusyError
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters, ScriptedStream


class Refusing:
    """Refuses threads by the ends of their names, while told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends: tuple[str, ...] = ()
        start = threading.Thread.start

        def asked(thread: threading.Thread) -> None:
            if thread.name.endswith(self.ends):
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", asked)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    return Refusing(monkeypatch)


async def answers(call: Any) -> str:
    return "answer"


DEADLINES: dict[str, Callable[[Any, Any], Any]] = {
    "submit": lambda router, call: router.submit(call, timeout=60.0).result(30),
    "submit and wait for a place": lambda router, call: router.submit(call, timeout=60.0, block=True).result(
        30
    ),
    "invoke": lambda router, call: router.invoke(call, timeout=60.0),
}


@pytest.mark.parametrize("way", DEADLINES)
def test_where_no_timer_can_keep_the_deadline_no_call_is_made_and_the_next_one_is(
    rig: Any, refusing: Refusing, way: str
) -> None:
    adapters = ScriptedAdapters({"a": ["answer"]})
    router = rig.scripted(adapters, "a")
    refusing.ends = ("-timer",)
    for _ in range(2):
        with pytest.raises(RouterBusyError, match="try again later"):
            DEADLINES[way](router, rig.chat())
    assert adapters.calls == ()
    assert router.stats().pending == 0

    refusing.ends = ()
    assert DEADLINES[way](router, rig.chat()) == "answer"


def test_a_wait_for_a_place_that_is_refused_a_thread_is_no_deadline(rig: Any, refusing: Refusing) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["answer"]}), "a", clock=ManualClock())
    refusing.ends = ("-worker-1",)
    with pytest.raises(RouterBusyError, match="no more threads"):
        router.submit(rig.chat(), timeout=2.0, block=True)
    assert router.stats().pending == 0


def test_where_no_loop_can_run_an_async_provider_nobody_is_blamed_and_the_next_call_is_made(
    rig: Any, refusing: Refusing
) -> None:
    adapters = ScriptedAdapters({"a": [answers], "b": ["fallback"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy())
    refusing.ends = ("-loop",)
    with pytest.raises(RouterBusyError, match="try again later"):
        router.invoke(rig.chat())
    with pytest.raises(RouterBusyError, match="try again later"):
        router.submit(rig.chat()).result(30)
    assert router.health_report()["a"].consecutive_failures == 0
    assert [call.provider_id for call in adapters.calls] == ["a", "a"]

    refusing.ends = ()
    assert router.invoke(rig.chat()) == "answer"
    assert router.submit(rig.chat()).result(30) == "answer"


@pytest.mark.parametrize("way", ["invoke", "submit"])
def test_a_stream_that_nobody_could_reap_is_closed_and_refused_and_the_next_one_is_not(
    rig: Any, refusing: Refusing, way: str
) -> None:
    opened: list[ScriptedStream] = []

    def opens(call: Any) -> ScriptedStream:
        opened.append(ScriptedStream(["x", FINISHED]))
        return opened[-1]

    def given() -> Any:
        call = rig.chat(stream=True)
        return router.invoke(call) if way == "invoke" else router.submit(call).result(30)

    router = rig.scripted(ScriptedAdapters({"a": [opens]}), "a")
    refusing.ends = ("-streams",)
    with pytest.raises(RouterBusyError, match="try again later"):
        given()
    assert [stream.closed for stream in opened] == [True]
    assert router.stats().streams == 0
    assert router.health_report()["a"].consecutive_failures == 0

    refusing.ends = ()
    assert list(given()) == ["x"]


@pytest.mark.parametrize("part", ["-timer", "-loop", "-streams", "-worker-1"])
def test_a_router_that_never_got_its_thread_can_be_closed(rig: Any, refusing: Refusing, part: str) -> None:
    def either(call: Any) -> Any:
        return ["x", FINISHED] if call.arguments.get("stream") else answers(call)

    router = rig.scripted(ScriptedAdapters({"a": [either]}), "a")
    refusing.ends = (part,)
    uses: tuple[Callable[[], Any], ...] = (
        lambda: router.submit(rig.chat(), timeout=60.0).result(30),
        lambda: router.invoke(rig.chat(stream=True)).close(),
    )
    for use in uses:
        try:
            use()
        except RouterBusyError:
            continue
    router.close()
    router.close()
    assert router.stats().pending == 0


@pytest.mark.parametrize("part", ["-health", "-ordering", "-ledger"])
def test_a_router_that_gets_no_thread_is_not_built_and_leaves_none_behind(
    rig: Any, refusing: Refusing, part: str, tmp_path: Any
) -> None:
    class Own:
        def order(self, eligible: Any, context: Any) -> Any:
            return eligible

    refusing.ends = (part,)
    store = {"backend": "sqlite", "path": str(tmp_path / "metrics.sqlite")}
    with pytest.raises(RouterBusyError, match=f"no thread for turnout-.*{part}; try again later"):
        rig.scripted(ScriptedAdapters({"a": ["answer"]}), "a", metrics_store=store, policy=Own())
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("turnout-my-")]


def test_a_deadline_is_kept_though_every_worker_hangs_and_no_other_is_to_be_had(
    rig: Any, refusing: Refusing
) -> None:
    clock, begun, go = ManualClock(), threading.Event(), threading.Event()

    def hangs(call: Any) -> str:
        begun.set()
        assert go.wait(30)
        return "late"

    router = rig.scripted(ScriptedAdapters({"a": [hangs]}), "a", clock=clock, pool={"max_workers": 1})
    future = router.submit(rig.chat(), timeout=10.0)
    assert begun.wait(30)
    refusing.ends = ("-worker-1", "-worker-2")

    clock.advance(10.2)

    with pytest.raises(DeadlineExceededError):
        future.result(20)
    refusing.ends = ()
    go.set()
    router.close()
    assert router.stats().workers == 0


@pytest.mark.parametrize("way", ["invoke", "submit"])
def test_a_loop_that_cannot_be_made_is_made_at_the_next_call(
    rig: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [answers]}), "a", health={"failure_threshold": 1})

    def call() -> Any:
        return router.invoke(rig.chat()) if way == "invoke" else router.submit(rig.chat()).result(30)

    def no_files(runner: asyncio.Runner) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as scarce:
        scarce.setattr(asyncio.Runner, "get_loop", no_files)
        for _ in range(2):
            with pytest.raises(RouterBusyError, match=r"Too many open files\); try again later"):
                call()

    assert call() == "answer"
