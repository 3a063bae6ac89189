"""Lanes: never more attempts than tokens, no token lost, no walk left standing in line."""

import random
import threading
from functools import partial
from queue import SimpleQueue

import pytest

from turnout.runtime.lane import Claim, Lane, enrol

WAIT = 20.0


def noted(order: list[int], number: int, lane: Lane | None) -> None:
    order.append(number)


def test_there_are_as_many_tokens_as_the_lane_is_wide() -> None:
    lane = Lane(2)
    assert lane.try_take()
    assert lane.try_take()
    assert not lane.try_take()
    lane.give_back()
    assert lane.try_take()


def test_a_free_token_is_given_at_once() -> None:
    won: SimpleQueue[Lane | None] = SimpleQueue()
    lane = Lane(1)
    enrol(Claim(won.put), [lane])
    assert won.get_nowait() is lane


def test_those_who_wait_are_served_in_order_and_newcomers_stand_behind() -> None:
    lane = Lane(1)
    assert lane.try_take()
    order: list[int] = []
    for number in range(3):
        enrol(Claim(partial(noted, order, number)), [lane])
    assert not lane.try_take()
    for _ in range(3):
        lane.give_back()
    assert order == [0, 1, 2]


def test_the_first_token_wins_and_the_other_lane_keeps_its_own() -> None:
    won: list[Lane | None] = []
    first, second = Lane(1), Lane(1)
    assert first.try_take()
    assert second.try_take()
    enrol(Claim(won.append), [first, second])
    second.give_back()
    first.give_back()
    assert won == [second]
    assert first.try_take()


def test_a_wait_given_up_takes_no_token() -> None:
    won: list[Lane | None] = []
    lane = Lane(1)
    assert lane.try_take()
    claim = Claim(won.append)
    enrol(claim, [lane])
    assert claim.settle(None)
    lane.give_back()
    assert won == [None]
    assert lane.try_take()


def test_the_line_of_a_hanging_provider_does_not_grow_with_calls_that_others_serve() -> None:
    hanging, serving = Lane(1), Lane(1)
    assert hanging.try_take()
    for _ in range(5000):
        assert serving.try_take()
        enrol(Claim(lambda lane: None), [hanging, serving])
        serving.give_back()
        serving.give_back()
    assert len(hanging._line) < 200
    assert serving.free == 1


def test_a_lane_that_grows_serves_those_who_wait_at_once() -> None:
    lane = Lane(1)
    assert lane.try_take()
    order: list[int] = []
    for number in range(3):
        enrol(Claim(partial(noted, order, number)), [lane])
    lane.resize(3)
    assert (order, lane.width, lane.free) == ([0, 1], 3, 0)


def test_a_lane_that_shrinks_retires_what_is_free_now_and_the_rest_as_it_comes_back() -> None:
    lane = Lane(4)
    for _ in range(3):
        assert lane.try_take()
    lane.resize(2)
    assert (lane.free, lane.try_take()) == (0, False)
    lane.give_back()
    assert not lane.try_take()
    lane.give_back()
    assert lane.try_take()
    lane.give_back()
    lane.give_back()
    assert lane.free == lane.width == 2


def test_nobody_in_line_gets_a_token_that_is_retired() -> None:
    lane = Lane(2)
    assert lane.try_take()
    assert lane.try_take()
    order: list[int] = []
    enrol(Claim(partial(noted, order, 0)), [lane])
    lane.resize(1)
    lane.give_back()
    assert order == []
    lane.give_back()
    assert order == [0]


def test_a_lane_that_grows_again_forgives_what_it_is_still_owed() -> None:
    lane = Lane(3)
    for _ in range(3):
        assert lane.try_take()
    lane.resize(1)
    lane.resize(2)
    for _ in range(3):
        lane.give_back()
    assert lane.free == lane.width == 2


@pytest.mark.parametrize("seed", range(8))
def test_under_threads_a_lane_that_is_resized_loses_no_token_and_leaves_nobody_in_line(seed: int) -> None:
    lane = Lane(2)
    sizes = random.Random(seed)
    over = threading.Event()

    def resizer() -> None:
        while not over.is_set():
            lane.resize(sizes.randint(1, 6))

    def caller(number: int) -> None:
        rng = random.Random(seed * 100 + number)
        for _ in range(200):
            won: SimpleQueue[Lane | None] = SimpleQueue()
            claim = Claim(won.put)
            enrol(claim, [lane])
            if rng.random() < 0.1:
                claim.settle(None)
            if won.get(timeout=WAIT) is not None:
                lane.give_back()

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(6)]
    resizing = threading.Thread(target=resizer)
    for thread in (*threads, resizing):
        thread.start()
    for thread in threads:
        thread.join(WAIT * 2)
    over.set()
    resizing.join(WAIT)
    assert not any(thread.is_alive() for thread in (*threads, resizing))
    assert lane.free == lane.width
    assert (lane.waiting, len(lane._owed)) == ([], 0)


@pytest.mark.parametrize("seed", range(8))
def test_under_threads_no_token_is_lost_and_the_width_is_never_passed(seed: int) -> None:
    lanes = [Lane(2), Lane(1), Lane(3)]
    inside = [SimpleQueue[int]() for _ in lanes]
    highest = [0] * len(lanes)
    served = SimpleQueue[int]()

    def caller(number: int) -> None:
        rng = random.Random(seed * 100 + number)
        for _ in range(150):
            chosen = rng.sample(range(3), rng.randint(1, 3))
            won: SimpleQueue[Lane | None] = SimpleQueue()
            claim = Claim(won.put)
            enrol(claim, [lanes[index] for index in chosen])
            if rng.random() < 0.1:
                claim.settle(None)
            lane = won.get(timeout=WAIT)
            if lane is None:
                continue
            index = lanes.index(lane)
            inside[index].put(1)
            highest[index] = max(highest[index], inside[index].qsize())
            inside[index].get()
            lane.give_back()
            served.put(1)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT * 2)
        assert not thread.is_alive()
    assert [lane.free for lane in lanes] == [2, 1, 3]
    assert all(high <= lane.width for high, lane in zip(highest, lanes, strict=True))
    assert served.qsize() > 800
