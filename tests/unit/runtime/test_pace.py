"""Paces: the interval is never undercut, whoever calls; nobody is forgotten; order is kept."""

import random
import threading
from collections import deque
from functools import partial
from itertools import pairwise
from queue import SimpleQueue

import pytest

from turnout.clock import SystemClock
from turnout.runtime.lane import Claim, Lane, Token, enrol
from turnout.runtime.pace import Pace, PacedLane, Slot
from turnout.runtime.timer import Timer
from turnout.testing import Stage

WAIT = 20.0


class Rig:
    """A pace of ten seconds with a lane for workers, two at a time, and one for everybody else, on a stage."""

    def __init__(self) -> None:
        self.stage = Stage(1)
        self.clock = self.stage.clock
        self.pace = Pace(10.0, self.clock, self.stage.alarms)
        self.workers, self.others = PacedLane(2, self.pace), PacedLane(None, self.pace)
        self.served: list[str] = []
        #: Taken last, and of an attempt that has not begun.
        self.token: Token | None = None

    def waits(self, name: str, *lanes: Lane) -> Claim:
        claim = Claim(partial(self._won, name))
        enrol(claim, lanes)
        return claim

    def takes(self, lane: Lane) -> bool:
        token = lane.try_take()
        self.token = token or self.token
        return token is not None

    def begin(self) -> Token:
        """The attempt that holds the slot."""
        token, self.token = self.token, None
        assert token is not None
        self.pace.begun(self.clock.monotonic(), token)
        return token

    def _won(self, name: str, token: Token | None) -> None:
        self.served.append(name)
        self.token = token or self.token


def test_the_slot_is_taken_once_and_again_after_the_interval() -> None:
    rig = Rig()
    assert rig.takes(rig.others)
    assert not rig.takes(rig.others)
    rig.clock.advance(3.0)
    rig.begin()
    rig.clock.advance(9.9)
    assert not rig.takes(rig.others)
    rig.clock.advance(0.1)
    assert rig.takes(rig.others)


def test_the_interval_runs_from_the_beginning_and_not_from_when_the_slot_was_taken() -> None:
    rig = Rig()
    assert rig.takes(rig.others)
    rig.clock.advance(25.0)
    rig.begin()
    assert not rig.takes(rig.others)


def test_who_looked_before_another_began_does_not_begin_too() -> None:
    rig = Rig()

    class Looked(deque[Slot]):
        """Lets another begin between the look at the time and the hand on the slot."""

        looks = 0

        def __bool__(self) -> bool:
            self.looks += 1
            if self.looks == 1:
                assert rig.takes(rig.others)
                rig.begin()
            return len(self) > 0

    rig.pace.free = Looked(rig.pace.free)
    assert not rig.takes(rig.workers)
    assert (len(rig.pace.free), rig.workers.free) == (1, 2)
    rig.clock.advance(10.0)
    assert rig.takes(rig.workers)


def test_those_who_wait_are_served_when_it_is_time_and_in_order_over_both_lanes() -> None:
    rig = Rig()
    assert rig.takes(rig.others)
    rig.waits("first", rig.workers)
    rig.waits("second", rig.others)
    rig.waits("third", rig.workers)
    served: list[list[str]] = []
    for _ in range(3):
        rig.begin()
        rig.stage.run()
        served.append(list(rig.served))
    assert served == [["first"], ["first", "second"], ["first", "second", "third"]]
    assert rig.clock.monotonic() == 30.0


def test_a_newcomer_does_not_pass_who_waits_in_the_other_lane() -> None:
    rig = Rig()
    assert rig.takes(rig.others)
    rig.waits("first", rig.workers)
    rig.begin()
    # It is time, and the alarm has not rung yet.
    rig.clock.advance(10.0)
    assert not rig.takes(rig.others)
    assert rig.served == ["first"]


def test_who_waits_for_room_keeps_nobody_else_from_the_slot() -> None:
    rig = Rig()
    begun = []
    for _ in range(2):
        assert rig.takes(rig.workers)
        begun.append(rig.begin())
        rig.clock.advance(10.0)
    rig.waits("no room", rig.workers)
    assert rig.takes(rig.others)
    rig.begin()
    begun[0].give_back()
    assert rig.served == []
    rig.stage.run()
    assert rig.served == ["no room"]


def test_a_slot_that_is_not_used_goes_to_the_next_at_once() -> None:
    rig = Rig()
    assert rig.takes(rig.workers)
    token = rig.token
    assert token is not None
    rig.waits("next", rig.others)
    token.put_back()
    assert rig.served == ["next"]
    assert rig.workers.free == 2


def test_a_slot_that_was_dropped_with_its_token_goes_to_the_next_at_once() -> None:
    rig = Rig()
    assert rig.takes(rig.workers)
    rig.waits("next", rig.others)
    rig.token = None
    assert rig.served == ["next"]
    assert rig.workers.free == 2
    rig.token = None
    assert rig.takes(rig.workers)


def test_a_token_given_back_before_its_attempt_began_brings_the_slot_along() -> None:
    rig = Rig()
    assert rig.takes(rig.workers)
    token = rig.token
    assert token is not None
    rig.waits("next", rig.others)
    token.give_back()
    assert rig.served == ["next"]


def test_a_wait_given_up_costs_no_slot() -> None:
    rig = Rig()
    assert rig.takes(rig.others)
    rig.waits("gone", rig.workers).settle(None)
    rig.waits("stays", rig.others)
    rig.begin()
    rig.stage.run()
    assert rig.served == ["gone", "stays"]
    assert rig.clock.monotonic() == 10.0
    assert rig.workers.free == 2


@pytest.mark.parametrize("seed", range(4))
def test_under_threads_no_interval_is_undercut_and_nobody_is_forgotten(seed: int) -> None:
    clock = SystemClock()
    timer = Timer(f"pace-test-{seed}", clock)
    interval = 0.0005
    pace = Pace(interval, clock, timer)
    lanes = [PacedLane(2, pace), PacedLane(None, pace)]
    begun = SimpleQueue[float]()

    def caller(number: int) -> None:
        rng = random.Random(seed * 100 + number)
        for _ in range(60):
            lane = rng.choice(lanes)
            token = lane.try_take()
            if token is None:
                won: SimpleQueue[Token | None] = SimpleQueue()
                claim = Claim(won.put)
                enrol(claim, [lane])
                if rng.random() < 0.1:
                    claim.settle(None)
                token = won.get(timeout=WAIT)
                if token is None:
                    continue
            chance = rng.random()
            if chance < 0.05:
                token = None
                continue
            if chance < 0.1:
                token.put_back()
                continue
            at = clock.monotonic()
            begun.put(at)
            pace.begun(at, token)
            if rng.random() < 0.9:
                token.give_back()
            token = None

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT * 2)
    assert not any(thread.is_alive() for thread in threads)
    assert timer.stop(WAIT) == []
    instants = [begun.get_nowait() for _ in range(begun.qsize())]
    assert len(instants) > 200
    assert all(after - before >= interval - 1e-9 for before, after in pairwise(instants))
    assert lanes[0].free == 2
    assert len(pace.free) == 1
