"""Cancelling a call to an async provider."""

import asyncio
import concurrent.futures
import threading
from typing import Any

import pytest

from turnout import Outcome, PreferencePolicy, RouterClosedError, RouterExhaustedError
from turnout.testing import ScriptedAdapters


def test_an_async_provider_is_cancelled_on_the_loop(rig: Any) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless(call: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    router = rig.scripted(ScriptedAdapters({"a": [endless], "b": ["b"]}), "ab", policy=PreferencePolicy())
    future = router.submit(rig.chat())
    assert begun.wait(30)

    assert future.cancel()

    assert ended.wait(30)
    router.close()
    assert router.health_report()["a"].consecutive_failures == 0
    assert [attempt.outcome for attempt in future.report().attempts] == [Outcome.IGNORED]


class OwnExit(BaseException):
    """Something that nobody expects of an adapter."""


@pytest.mark.parametrize("error", [OwnExit("left"), GeneratorExit()])
def test_whatever_an_async_adapter_raises_resolves_its_future_and_gives_its_room_back(
    rig: Any, error: BaseException
) -> None:
    async def leave(call: Any) -> str:
        raise error

    async def answer(call: Any) -> str:
        return "answer"

    router = rig.router(
        [{"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "max_concurrency": 1}
         | {"api_key": "k"}],
        adapter_factory=ScriptedAdapters({"a": [leave, answer]}),
    )  # fmt: skip

    with pytest.raises(type(error)):
        router.submit(rig.chat()).result(30)
    assert router.submit(rig.chat()).result(30) == "answer"
    assert router.stats().pending == 0


def test_a_cancel_of_an_async_adapters_own_is_its_failure_like_any_other(rig: Any) -> None:
    async def cancels(call: Any) -> str:
        raise concurrent.futures.CancelledError("of my own")

    router = rig.scripted(ScriptedAdapters({"a": [cancels], "b": ["b"]}), "ab", policy=PreferencePolicy())

    assert router.submit(rig.chat()).result(30) == "b"
    assert router.invoke(rig.chat()) == "b"
    alone = rig.scripted(ScriptedAdapters({"a": [cancels]}), "a")
    with pytest.raises(RouterExhaustedError, match="of my own"):
        alone.submit(rig.chat()).result(30)


@pytest.mark.parametrize("way", ["invoke", "submit"])
def test_a_coroutine_that_stops_the_loop_costs_no_other_call(rig: Any, way: str) -> None:
    async def stops(call: Any) -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "stopped"

    async def answers(call: Any) -> str:
        return "answer"

    router = rig.scripted(ScriptedAdapters({"a": [stops, answers]}), "a")

    calls = [
        router.invoke(rig.chat()) if way == "invoke" else router.submit(rig.chat()).result(30)
        for _ in range(2)
    ]

    assert calls == ["stopped", "answer"]


@pytest.mark.parametrize("way", ["invoke", "submit"])
def test_where_the_loop_ends_under_a_call_each_way_to_call_is_told_the_same_and_nobody_is_blamed(
    rig: Any, way: str
) -> None:
    begun = threading.Event()

    async def endless(call: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    adapters = ScriptedAdapters({"a": [endless], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy())

    def made() -> Any:
        return router.invoke(rig.chat()) if way == "invoke" else router.submit(rig.chat()).result(30)

    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        told = threads.submit(made)
        assert begun.wait(30)
        # As close() does it, once nobody is left who waits for a future.
        router._engine.plant.runtime.loop.stop(30.0)
        error = told.exception(30)

    assert isinstance(error, RouterClosedError)
    assert str(error) == "the router was closed while an async call was made; build a new one"
    assert [call.provider_id for call in adapters.calls] == ["a"]
    assert router.health_report()["a"].consecutive_failures == 0
    assert router.stats().pending == 0
