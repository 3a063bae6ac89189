"""Counting what is there right now."""

import gc
import threading
from typing import Any

from turnout.runtime.gauge import Gauge, Mark


def test_a_mark_counts_until_nobody_has_it() -> None:
    gauge = Gauge()
    one, other = gauge.mark(), gauge.mark()
    assert len(gauge) == 2
    del one
    assert len(gauge) == 1
    del other
    assert len(gauge) == 0


def test_what_the_collector_takes_counts_no_more() -> None:
    gauge = Gauge()
    cycle: list[Any] = [gauge.mark()]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert len(gauge) == 0


def test_a_mark_whose_making_was_interrupted_counts_nothing() -> None:
    gauge = Gauge()
    Mark.__new__(Mark)
    assert len(gauge) == 0


def test_nothing_is_lost_between_threads() -> None:
    gauge = Gauge()
    kept: list[list[Mark]] = []

    def make() -> None:
        for _ in range(2000):
            gauge.mark()
        kept.append([gauge.mark() for _ in range(100)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(gauge) == 400
    kept.clear()
    assert len(gauge) == 0
