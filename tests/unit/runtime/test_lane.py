"""Lanes: never more attempts than tokens, no token lost, no walk left standing in line."""

import random
import threading
from functools import partial
from queue import SimpleQueue
from weakref import ref

import pytest

from turnout.runtime.lane import Claim, Lane, Token, enrol

WAIT = 20.0


def noted(order: list[tuple[int, Token | None]], number: int, token: Token | None) -> None:
    order.append((number, token))


def numbers(order: list[tuple[int, Token | None]]) -> list[int]:
    return [number for number, _ in order]


def taken(lane: Lane) -> Token:
    token = lane.try_take()
    assert token is not None
    return token


def test_there_are_as_many_tokens_as_the_lane_is_wide() -> None:
    lane = Lane(2)
    first, second = taken(lane), taken(lane)
    assert not lane.try_take()
    first.give_back()
    assert lane.try_take() is first
    assert second.lane is lane


def test_a_token_that_is_dropped_is_made_up_for_and_goes_to_who_waits() -> None:
    lane = Lane(1)
    won: list[Token | None] = []
    token: Token | None = taken(lane)
    enrol(Claim(won.append), [lane])
    assert (won, lane.free) == ([], 0)
    token = None
    assert [one and one.lane for one in won] == [lane]
    del won[:]
    assert (token, lane.free) == (None, 1)


def test_a_token_that_is_dropped_after_its_lane_became_narrower_is_the_one_that_goes() -> None:
    lane = Lane(2)
    first, second = taken(lane), taken(lane)
    lane.resize(1)
    del first
    assert lane.free == 0
    second.give_back()
    assert (lane.free, len(lane._owed)) == (1, 0)


def test_a_lane_that_nobody_refers_to_takes_its_tokens_along() -> None:
    lane = Lane(3)
    token = taken(lane)
    gone = ref(lane)
    del lane
    assert gone() is None
    assert token.lane is None
    token.give_back()


def test_who_waits_is_woken_though_the_thread_that_serves_is_interrupted() -> None:
    lane = Lane(1)
    token = taken(lane)
    won: list[Token | None] = []

    def wake(token: Token | None) -> None:
        won.append(token)
        if len(won) == 1:
            raise KeyboardInterrupt

    enrol(Claim(wake), [lane])
    with pytest.raises(KeyboardInterrupt):
        token.give_back()
    assert won == [token, token]


def test_a_free_token_is_given_at_once() -> None:
    won: SimpleQueue[Token | None] = SimpleQueue()
    lane = Lane(1)
    enrol(Claim(won.put), [lane])
    token = won.get_nowait()
    assert token is not None
    assert token.lane is lane


def test_those_who_wait_are_served_in_order_and_newcomers_stand_behind() -> None:
    lane = Lane(1)
    token = taken(lane)
    order: list[tuple[int, Token | None]] = []
    for number in range(3):
        enrol(Claim(partial(noted, order, number)), [lane])
    assert not lane.try_take()
    for _ in range(3):
        token.give_back()
    assert numbers(order) == [0, 1, 2]


def test_a_newcomer_who_comes_while_the_line_is_being_served_passes_nobody() -> None:
    lane = Lane(1)
    token = taken(lane)
    order: list[tuple[int, Token | None]] = []
    newcomers: list[Token | None] = []

    def wake(token: Token | None) -> None:
        noted(order, 0, token)
        newcomers.append(lane.try_take())

    enrol(Claim(wake), [lane])
    enrol(Claim(partial(noted, order, 1)), [lane])
    lane.resize(3)
    assert newcomers == [None]
    assert (numbers(order), lane.free) == ([0, 1], 0)
    assert token.lane is lane


def test_the_first_token_wins_and_the_other_lane_keeps_its_own() -> None:
    won: list[Token | None] = []
    first, second = Lane(1), Lane(1)
    of_first, of_second = taken(first), taken(second)
    enrol(Claim(won.append), [first, second])
    of_second.give_back()
    of_first.give_back()
    assert won == [of_second]
    assert first.try_take()


def test_a_wait_given_up_takes_no_token() -> None:
    won: list[Token | None] = []
    lane = Lane(1)
    token = taken(lane)
    claim = Claim(won.append)
    enrol(claim, [lane])
    assert claim.settle(None)
    token.give_back()
    assert won == [None]
    assert lane.try_take()


def test_the_line_of_a_hanging_provider_does_not_grow_with_calls_that_others_serve() -> None:
    hanging, serving = Lane(1), Lane(1)
    hung = taken(hanging)
    for _ in range(5000):
        token = taken(serving)
        enrol(Claim(lambda token: None), [hanging, serving])
        token.give_back()
        token.give_back()
    assert hung.lane is hanging
    assert len(hanging._line) < 200
    assert serving.free == 1


def test_a_lane_that_grows_serves_those_who_wait_at_once() -> None:
    lane = Lane(1)
    token = taken(lane)
    order: list[tuple[int, Token | None]] = []
    for number in range(3):
        enrol(Claim(partial(noted, order, number)), [lane])
    lane.resize(3)
    assert (numbers(order), lane.width, lane.free, token.lane) == ([0, 1], 3, 0, lane)


def test_a_lane_that_shrinks_retires_what_is_free_now_and_the_rest_as_it_comes_back() -> None:
    lane = Lane(4)
    first, second, third = (taken(lane) for _ in range(3))
    lane.resize(2)
    assert (lane.free, lane.try_take()) == (0, None)
    first.give_back()
    assert not lane.try_take()
    second.give_back()
    assert lane.try_take() is second
    second.give_back()
    third.give_back()
    assert lane.free == lane.width == 2


def test_nobody_in_line_gets_a_token_that_is_retired() -> None:
    lane = Lane(2)
    first, second = taken(lane), taken(lane)
    order: list[tuple[int, Token | None]] = []
    enrol(Claim(partial(noted, order, 0)), [lane])
    lane.resize(1)
    first.give_back()
    assert order == []
    second.give_back()
    assert numbers(order) == [0]


def test_a_lane_that_shrinks_while_a_token_is_held_out_to_who_gives_up_gets_that_one_back() -> None:
    lane = Lane(2)
    first, second = taken(lane), taken(lane)

    class GivesUp(Claim):
        def settle(self, token: Token | None) -> bool:
            lane.resize(1)
            return False

    enrol(GivesUp(lambda token: None), [lane])
    first.give_back()
    # The other is still out, and there is to be no more than one.
    assert lane.try_take() is None
    second.give_back()
    assert (lane.free, lane.width, len(lane._owed)) == (1, 1, 0)


def test_a_lane_that_grows_again_forgives_what_it_is_still_owed() -> None:
    lane = Lane(3)
    tokens = [taken(lane) for _ in range(3)]
    lane.resize(1)
    lane.resize(2)
    for token in tokens:
        token.give_back()
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
            won: SimpleQueue[Token | None] = SimpleQueue()
            claim = Claim(won.put)
            enrol(claim, [lane])
            if rng.random() < 0.1:
                claim.settle(None)
            token = won.get(timeout=WAIT)
            if token is not None and rng.random() < 0.9:
                token.give_back()
            token = None

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
            won: SimpleQueue[Token | None] = SimpleQueue()
            claim = Claim(won.put)
            enrol(claim, [lanes[index] for index in chosen])
            if rng.random() < 0.1:
                claim.settle(None)
            token = won.get(timeout=WAIT)
            if token is None:
                continue
            assert token.lane is not None
            index = lanes.index(token.lane)
            inside[index].put(1)
            highest[index] = max(highest[index], inside[index].qsize())
            inside[index].get()
            if rng.random() < 0.9:
                token.give_back()
            token = None
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
