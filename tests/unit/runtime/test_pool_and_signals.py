"""A signal handler that waits for a task, whatever it interrupts of the pool."""

import signal
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest

from turnout.clock import SystemClock
from turnout.runtime.backlog import Backlog
from turnout.runtime.pool import WorkerPool
from turnout.runtime.strand import Strand
from turnout.runtime.tokens import Tokens

WAIT = 20.0


def test_who_waits_does_the_work_of_nobody_where_the_system_gives_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = WorkerPool("test", max_workers=2, max_queue=10, idle_seconds=5.0, clock=SystemClock())
    ran = SimpleQueue[int]()

    def refused(thread: object) -> None:
        raise RuntimeError("can't start new thread")

    # As one leaves it who is interrupted before it sends somebody.
    pool._backlog.put(lambda: ran.put(threading.get_ident()), None)
    with monkeypatch.context() as patched:
        patched.setattr(Strand, "start", refused)
        pool.send_another()
    assert ran.empty()
    pool.send_another()
    assert ran.get(timeout=WAIT) != threading.get_ident()
    assert pool.stop(WAIT) == []


@pytest.mark.parametrize(
    ("place", "name"),
    [(Backlog, "put"), (Tokens, "take"), (WorkerPool, "_call_parked"), (WorkerPool, "_bear")],
)
@pytest.mark.parametrize("way", ["submit", "resume"])
def test_another_is_sent_where_a_handler_interrupts_who_was_about_to_send_somebody(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, way: str
) -> None:
    pool = WorkerPool("test", max_workers=4, max_queue=10, idle_seconds=5.0, clock=SystemClock())
    ran, step = SimpleQueue[str](), getattr(place, name)
    heard: list[str] = []

    def interrupted(*known: Any, **named: Any) -> Any:
        done = step(*known, **named) if name in ("put", "take") else None
        if name != "take" or done:
            monkeypatch.setattr(place, name, step)
            signal.raise_signal(signal.SIGUSR1)
        return done if name in ("put", "take") else step(*known, **named)

    def handle(*_: object) -> None:
        pool.resume(partial(ran.put, "the handler's"))
        pool.send_another()
        heard.append(ran.get(timeout=WAIT))

    queue: Callable[[Any], object] = getattr(pool, way)
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        monkeypatch.setattr(place, name, interrupted)
        queue(partial(ran.put, "the interrupted one's"))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert {*heard, ran.get(timeout=WAIT)} == {"the handler's", "the interrupted one's"}
    assert pool.stop(WAIT) == []
