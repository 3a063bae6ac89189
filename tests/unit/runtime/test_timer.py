"""The timer: earliest first, on the clock it was given."""

import threading
from queue import SimpleQueue

from turnout.runtime.loop import EventLoop
from turnout.runtime.once import Once
from turnout.runtime.tally import Tally
from turnout.runtime.timer import Timer
from turnout.testing import ManualClock

WAIT = 20.0


def rung(bell: "SimpleQueue[str]", clock: ManualClock, step: float = 1.0) -> str:
    """The next that rings, advancing time until it does."""
    while bell.empty():
        clock.advance(step)
    return bell.get_nowait()


def test_the_earliest_rings_first_whatever_the_order_of_setting() -> None:
    clock, bell = ManualClock(), SimpleQueue[str]()
    timer = Timer("turnout-test-timer", clock)
    timer.at(3.0, lambda: bell.put("third"))
    timer.at(1.0, lambda: bell.put("first"))
    timer.at(2.0, lambda: bell.put("second"))
    assert [rung(bell, clock, 0.001) for _ in range(3)] == ["first", "second", "third"]
    assert timer.stop(WAIT) == []


def test_a_cancelled_entry_does_not_ring() -> None:
    clock, bell = ManualClock(), SimpleQueue[str]()
    timer = Timer("turnout-test-timer", clock)
    timer.at(1.0, lambda: bell.put("cancelled")).cancel()
    timer.at(2.0, lambda: bell.put("kept"))
    assert rung(bell, clock) == "kept"
    assert timer.stop(WAIT) == []


def test_a_callback_that_raises_does_not_end_it() -> None:
    def bad() -> None:
        raise ValueError("in a callback")

    clock, bell = ManualClock(), SimpleQueue[str]()
    timer = Timer("turnout-test-timer", clock)
    timer.at(1.0, bad)
    timer.at(1.0, lambda: bell.put("next"))
    assert rung(bell, clock) == "next"
    assert timer.stop(WAIT) == []


def test_a_timer_never_used_has_no_thread() -> None:
    timer = Timer("turnout-test-timer", ManualClock())
    assert timer.stop(WAIT) == []
    assert all(thread.name != "turnout-test-timer" for thread in threading.enumerate())


def test_a_loop_never_used_has_no_thread() -> None:
    assert EventLoop("turnout-test-loop").stop(WAIT) == []


def test_once_is_true_for_one_of_many_threads() -> None:
    for _ in range(50):
        once, firsts = Once(), SimpleQueue[bool]()
        threads = [threading.Thread(target=lambda: firsts.put(once())) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        assert sorted(firsts.get_nowait() for _ in range(4)) == [False, False, False, True]
        assert once.spent


def counted(tally: Tally) -> None:
    for _ in range(5000):
        tally.add()


def test_a_tally_loses_no_count() -> None:
    tally = Tally()
    threads = [threading.Thread(target=counted, args=(tally,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert tally.value == 20_000
