"""The reaper: one stream let go is closed, whenever it was opened."""

import threading
from queue import SimpleQueue

import pytest

from turnout.errors import RouterBusyError
from turnout.reaper import StreamRegistry

WAIT = 20.0
NAME = "turnout-test-streams"


class Open:
    """A stream that says when it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def let_go(registry: StreamRegistry) -> Open:
    reading, ticket = Open(), registry.ticket()
    registry.hold(ticket, reading)
    registry.abandon(ticket)
    return reading


@pytest.mark.parametrize("used", [False, True])
def test_a_stream_that_opens_after_the_stop_is_reaped_and_what_comes_last_is_done_again(used: bool) -> None:
    registry, emptied = StreamRegistry(NAME), SimpleQueue[int]()
    if used:
        assert let_go(registry).closed.wait(WAIT)
    assert registry.stop(lambda: emptied.put(len(registry))) == []
    assert emptied.get(timeout=WAIT) == 0

    for _ in range(3):
        assert let_go(registry).closed.wait(WAIT)
        assert emptied.get(timeout=WAIT) == 0
    assert registry.stop(lambda: None) == []


def test_a_late_stream_that_is_read_to_its_end_ends_its_reaper() -> None:
    registry, emptied = StreamRegistry(NAME), SimpleQueue[int]()
    registry.stop(lambda: emptied.put(len(registry)))
    assert emptied.get(timeout=WAIT) == 0

    ticket = registry.ticket()
    registry.hold(ticket, Open())
    assert emptied.empty()
    registry.release(ticket)

    assert emptied.get(timeout=WAIT) == 0


def test_a_reaper_that_was_refused_is_asked_for_again_with_the_next_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    registry = StreamRegistry(NAME)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        for ticket in range(2):
            with pytest.raises(RouterBusyError, match="no thread"):
                registry.hold(ticket, Open())
            registry.release(ticket)
    assert let_go(registry).closed.wait(WAIT)
    assert registry.stop(lambda: None) == []


@pytest.mark.parametrize("begun", [False, True])
def test_an_interrupted_start_of_the_reaper_costs_no_later_stream(
    monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if begun:
            start(thread)
        raise KeyboardInterrupt

    registry = StreamRegistry(NAME)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            registry.hold(0, Open())
        registry.release(0)
    for _ in range(3):
        assert let_go(registry).closed.wait(WAIT)
    assert registry.stop(lambda: None) == []


@pytest.mark.parametrize("_", range(20))
def test_streams_that_open_and_end_while_the_registry_stops_are_all_closed(_: int) -> None:
    registry, emptied = StreamRegistry(NAME), SimpleQueue[int]()
    opened: list[Open] = []
    start = threading.Barrier(3)

    def opens() -> None:
        start.wait(WAIT)
        opened.extend(let_go(registry) for _ in range(20))

    threads = [threading.Thread(target=opens) for _ in range(2)]
    for thread in threads:
        thread.start()
    start.wait(WAIT)
    registry.stop(lambda: emptied.put(0))
    for thread in threads:
        thread.join(WAIT)

    assert all(each.closed.wait(WAIT) for each in opened)
    assert emptied.get(timeout=WAIT) == 0
