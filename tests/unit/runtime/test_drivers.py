"""How walks are driven where the machine gives less than it should."""

from queue import SimpleQueue
from typing import Any

import pytest

from turnout.clock import SystemClock
from turnout.deadline import Limit
from turnout.errors import RouterBusyError
from turnout.runtime.steps import Hear, Walk
from turnout.runtime.threads import ThreadRuntime


def test_a_walk_that_waits_to_hear_goes_on_where_no_timer_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    runtime = ThreadRuntime("t", max_workers=1, max_queue=4, idle_seconds=1.0, clock=clock)
    runtime.start()
    ended: SimpleQueue[tuple[Any, Any]] = SimpleQueue()

    def walk() -> Walk:
        until = clock.monotonic() + 20.0
        heard = yield Hear(lambda done: None, Limit(until, clock, until))
        return f"heard {heard}"

    def refuse(instant: float, callback: object) -> None:
        raise RouterBusyError("no thread for the timer")

    monkeypatch.setattr(runtime.alarms, "at", refuse)
    try:
        task = runtime.pooled(walk(), lambda *_: None, lambda value, error: ended.put((value, error)))
        runtime.workers.submit(task)
        assert ended.get(timeout=20) == ("heard None", None)
    finally:
        runtime.stop(20)
