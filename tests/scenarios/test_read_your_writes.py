"""What a caller has seen, its next call knows: who was benched by one's own failure is not asked again."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import Fault, NoEligibleProvidersError, PreferencePolicy, ProviderHTTPError, RouterExhaustedError
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters

THREADS = 16
ROUNDS = 63
REPETITIONS = THREADS * ROUNDS


def rate_limited() -> ProviderHTTPError:
    return ProviderHTTPError("HTTP 429", status_code=429, fault=Fault.RATE_LIMIT)


class Rounds:
    """Sixteen threads in rounds of two calls each; between rounds all health is reset.

    ``limited`` is the script of a provider that always says 429: whatever second call reaches it is noted as an
    ``intruder``, for the thread that makes it has seen the bench.
    """

    def __init__(self) -> None:
        self.intruders: list[str] = []
        self.done: SimpleQueue[None] = SimpleQueue()

    def limited(self, call: Any) -> None:
        said = call.arguments["messages"][0]["content"]
        if "second" in said:
            self.intruders.append(said)
        raise rate_limited()

    def run(self, router: Any, twice: Callable[[str, str], None]) -> None:
        """``twice(first, second)`` makes a thread's two calls, with these texts."""
        barrier = threading.Barrier(THREADS, action=router.reset_health)

        def work(thread: int) -> None:
            for number in range(ROUNDS):
                barrier.wait(30)
                twice(f"{thread}-{number}-first", f"{thread}-{number}-second")
                self.done.put(None)

        with ThreadPoolExecutor(THREADS) as pool:
            for future in [pool.submit(_or_break, barrier, work, thread) for thread in range(THREADS)]:
                future.result(60)


def _or_break(barrier: threading.Barrier, work: Callable[[int], None], thread: int) -> None:
    """Run ``work``; where it fails, the others need not wait for it."""
    try:
        work(thread)
    except BaseException:
        barrier.abort()
        raise


def _doors(router: Any) -> dict[str, Callable[[Any], Any]]:
    return {"invoke": router.invoke, "submit": lambda calls: router.submit(calls).result(30)}


@pytest.mark.parametrize("door", ["invoke", "submit"])
def test_after_a_rate_limit_was_raised_the_next_call_does_not_go_there(rig: Any, door: str) -> None:
    rounds = Rounds()
    router = rig.scripted(ScriptedAdapters({"a": [rounds.limited]}), "a", clock=ManualClock())
    called = _doors(router)[door]

    def twice(first: str, second: str) -> None:
        # Whoever benched it, this thread has seen it benched.
        with pytest.raises((RouterExhaustedError, NoEligibleProvidersError)):
            called(rig.chat(first))
        with pytest.raises(NoEligibleProvidersError):
            called(rig.chat(second))

    rounds.run(router, twice)

    assert rounds.intruders == []
    assert rounds.done.qsize() == REPETITIONS


@pytest.mark.parametrize("door", ["invoke", "submit"])
def test_after_an_answer_that_failed_over_the_next_call_does_not_go_there(rig: Any, door: str) -> None:
    rounds = Rounds()
    adapters = ScriptedAdapters({"a": [rounds.limited], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), clock=ManualClock())
    called = _doors(router)[door]

    def twice(first: str, second: str) -> None:
        assert called(rig.chat(first)) == called(rig.chat(second)) == "b"

    rounds.run(router, twice)

    assert rounds.intruders == []
    assert rounds.done.qsize() == REPETITIONS


def test_after_the_first_chunk_of_a_stream_that_started_over_the_next_call_does_not_go_there(
    rig: Any,
) -> None:
    rounds = Rounds()
    adapters = ScriptedAdapters({"a": [_limited_stream(rounds)], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), clock=ManualClock())

    def twice(first: str, second: str) -> None:
        with router.invoke(rig.chat(first, stream=True)) as stream:
            assert next(stream) == "y"
            assert list(router.invoke(rig.chat(second, stream=True))) == ["y"]

    rounds.run(router, twice)

    assert rounds.intruders == []


def _limited_stream(rounds: Rounds) -> Callable[[Any], list[Any]]:
    """A stream that opens, and says 429 in the place of its first chunk."""
    return lambda call: [lambda: rounds.limited(call)]


def test_a_done_callback_already_finds_the_provider_benched(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [rate_limited()]}), "a", clock=ManualClock())
    seen: SimpleQueue[float | None] = SimpleQueue()

    def look(future: Future[Any]) -> None:
        seen.put(router.health_report()["a"].cooldown_remaining_seconds)

    for _ in range(200):
        router.reset_health()
        router.submit(rig.chat()).add_done_callback(look)
        assert seen.get(timeout=30) == 60.0


def test_on_restart_already_finds_the_provider_that_broke_benched(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [["x", rate_limited()]], "b": [["y", FINISHED]]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), clock=ManualClock())
    seen: list[float | None] = []

    def look(restart: Any) -> None:
        seen.append(router.health_report()["a"].cooldown_remaining_seconds)

    assert list(router.invoke(rig.chat(stream=True), on_restart=look)) == ["x", "y"]
    assert seen == [60.0]


def test_the_end_of_a_streak_is_known_to_whoever_has_the_answer(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [ConnectionError("down"), "a"] * 200})
    router = rig.scripted(adapters, "a", clock=ManualClock())

    for _ in range(200):
        with pytest.raises(RouterExhaustedError):
            router.invoke(rig.chat())
        assert router.health_report()["a"].consecutive_failures == 1
        assert router.submit(rig.chat()).result(30) == "a"
        assert router.health_report()["a"].consecutive_failures == 0
