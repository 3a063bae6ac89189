"""Cancelling a call to an async provider."""

import asyncio
import threading
from typing import Any

from turnout import Outcome, PreferencePolicy
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
