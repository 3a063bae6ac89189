"""Those who must hear of a fork, while others come and go."""

import sys
import threading

from turnout.storage.forking import Listeners


class Listener:
    """Somebody."""


def test_those_that_live_are_told_and_those_that_were_dropped_are_not() -> None:
    listeners: Listeners[Listener] = Listeners()
    kept, dropped = Listener(), Listener()
    listeners.add(kept)
    listeners.add(dropped)
    del dropped
    assert listeners.alive() == [kept]


def test_others_may_come_and_go_while_they_are_looked_at() -> None:
    listeners: Listeners[Listener] = Listeners()
    there = [Listener() for _ in range(200)]
    for listener in there:
        listeners.add(listener)
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            listeners.add(Listener())

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(2_000):
            assert set(there) <= set(listeners.alive())
    finally:
        sys.setswitchinterval(before)
        done.set()
        thread.join(20)
