"""What an invoke that was in flight at the close still does after it."""

import asyncio
import gc
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import PreferencePolicy, RouterClosedError
from turnout.testing import FINISHED, Prelude, ScriptedAdapters, ScriptedStream


class InFlight:
    """A provider whose call lasts until the router is closed, and the caller that made it."""

    def __init__(self, outcome: Any) -> None:
        self.begun, self.closed = threading.Event(), threading.Event()
        self.came: SimpleQueue[Any] = SimpleQueue()
        self._outcome = outcome

    def __call__(self, call: Any) -> Any:
        self.begun.set()
        assert self.closed.wait(30)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def over_the_close_of(self, router: Any, call: Any) -> Any:
        """What comes of ``invoke`` where the router is closed meanwhile."""
        threading.Thread(target=self._invoke, args=(router, call), daemon=True).start()
        assert self.begun.wait(30)
        router.close()
        self.closed.set()
        return self.came.get(timeout=30)

    def _invoke(self, router: Any, call: Any) -> None:
        try:
            self.came.put(router.invoke(call))
        except Exception as error:
            self.came.put(error)


async def answers(call: Any) -> str:
    return "answer"


@pytest.mark.parametrize("used", [False, True])
def test_a_call_that_falls_back_to_an_async_provider_is_told_that_the_router_is_closed(
    rig: Any, used: bool
) -> None:
    in_flight = InFlight(ConnectionError("gone"))
    first = [ConnectionError("gone"), in_flight] if used else [in_flight]
    router = rig.scripted(ScriptedAdapters({"a": first, "b": [answers]}), "ab", policy=PreferencePolicy())
    if used:
        assert router.invoke(rig.chat()) == "answer"

    error = in_flight.over_the_close_of(router, rig.chat())

    assert isinstance(error, RouterClosedError)
    assert "build a new one" in str(error)
    assert router.health_report()["b"].consecutive_failures == 0


def test_a_call_that_an_async_provider_was_making_is_told_that_the_router_is_closed(rig: Any) -> None:
    begun, came = threading.Event(), SimpleQueue[Exception]()

    async def endless(call: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    def invoke() -> None:
        with pytest.raises(RouterClosedError) as caught:
            router.invoke(rig.chat())
        came.put(caught.value)

    adapters = ScriptedAdapters({"a": [endless], "b": ["fallback"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy())
    threading.Thread(target=invoke, daemon=True).start()
    assert begun.wait(30)

    router.close()

    assert "while an async call was made" in str(came.get(timeout=30))
    assert router.health_report()["a"].consecutive_failures == 0
    assert len(adapters.calls) == 1


def test_a_stream_that_would_start_over_at_an_async_provider_ends_with_the_routers_close(rig: Any) -> None:
    async def opens(call: Any) -> ScriptedStream:
        return ScriptedStream(["y", FINISHED])

    adapters = ScriptedAdapters({"a": [[Prelude("role"), ConnectionError("cut")]], "b": [opens]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy())
    stream = router.invoke(rig.chat(stream=True))
    router.close()

    with pytest.raises(RouterClosedError):
        list(stream)
    assert router.stats().streams == 0
    assert router.health_report()["b"].consecutive_failures == 0


def test_a_stream_that_opened_after_the_close_is_closed_when_it_is_let_go(rig: Any) -> None:
    released = threading.Event()

    class Watched(ScriptedStream):
        def close(self) -> None:
            super().close()
            released.set()

    in_flight = InFlight(Watched(["x", "y", FINISHED]))
    router = rig.scripted(ScriptedAdapters({"a": [in_flight]}), "a")
    stream = in_flight.over_the_close_of(router, rig.chat(stream=True))
    assert next(stream) == "x"

    del stream
    gc.collect()

    assert released.wait(30)
