"""Tokens: as many are out as were given and not taken back, whoever takes them at once."""

import threading
from queue import SimpleQueue

from turnout.clock import SystemClock
from turnout.runtime.tokens import Tokens

WAIT = 20.0


def test_each_is_taken_once_and_none_is_there_that_was_not_given() -> None:
    tokens = Tokens(2)
    assert [tokens.take() for _ in range(3)] == [True, True, False]
    assert not tokens
    tokens.give()
    assert len(tokens) == 1
    assert tokens.wait(SystemClock(), 0.0)
    assert not tokens.wait(SystemClock(), 0.0)


def test_of_many_takers_so_many_succeed_as_there_are_tokens() -> None:
    for _ in range(100):
        tokens, start, won = Tokens(3), threading.Barrier(6), SimpleQueue[int]()

        def taker(tokens: Tokens = tokens, start: threading.Barrier = start, won: object = won) -> None:
            start.wait(WAIT)
            if tokens.take():
                assert isinstance(won, SimpleQueue)
                won.put(1)

        takers = [threading.Thread(target=taker) for _ in range(6)]
        for one in takers:
            one.start()
        for one in takers:
            one.join(WAIT)
        assert won.qsize() == 3


def test_who_waits_for_one_gets_one_that_is_given_later() -> None:
    tokens, got = Tokens(), SimpleQueue[bool]()
    waiting = threading.Thread(target=lambda: got.put(tokens.wait(SystemClock(), WAIT)))
    waiting.start()
    tokens.give()
    waiting.join(WAIT)
    assert got.get(timeout=WAIT)
    assert not tokens
