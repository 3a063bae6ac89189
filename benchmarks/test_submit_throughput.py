"""How many null calls a second come back to 1 and to 16 threads at once, beside a bare thread pool?

Each thread either waits for every call before the next, or submits 100 and gathers them. The time runs until the last
row is in DuckDB.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import pytest

pytestmark = pytest.mark.benchmark(group="Many callers: null calls a second, beside ThreadPoolExecutor")

#: Many flushes long: what is left to write after the last call is to be a small part of a block's time.
CALLS: Final = 25_600
GATHERED: Final = 100
FIGURE: Final = "calls a second"

Submit = Callable[[], Future[Any]]


def nothing() -> None:
    """What the thread pool runs."""


def waiting(submit: Submit, calls: int) -> None:
    for _ in range(calls):
        submit().result()


def gathering(submit: Submit, calls: int) -> None:
    for _ in range(calls // GATHERED):
        for future in [submit() for _ in range(GATHERED)]:
            future.result()


PATTERNS: Final = {"submit().result()": waiting, f"submit {GATHERED}, then gather": gathering}


def crowd(
    pattern: Callable[[Submit, int], None], submit: Submit, threads: int, then: Callable[[], object]
) -> Callable[[], Mapping[str, float]]:
    """A block of CALLS calls from so many threads, as calls a second."""

    def block() -> Mapping[str, float]:
        together = threading.Barrier(threads + 1)

        def caller() -> None:
            together.wait()
            pattern(submit, CALLS // threads)

        members = [threading.Thread(target=caller, name=f"caller-{n}", daemon=True) for n in range(threads)]
        for member in members:
            member.start()
        # Before the barrier: once it opens, this thread may be long in getting a turn.
        began = time.perf_counter()
        together.wait()
        for member in members:
            member.join()
        then()
        return {FIGURE: CALLS / (time.perf_counter() - began)}

    return block


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("threads", [1, 16])
def test_throughput(
    side_by_side: Any, routers: Any, executor: ThreadPoolExecutor, threads: int, pattern: str
) -> None:
    router, calls = routers(), routers.chat()
    side_by_side.compare(
        f"{threads} {'thread' if threads == 1 else 'threads'}: {pattern}",
        crowd(PATTERNS[pattern], lambda: executor.submit(nothing), threads, lambda: None),
        crowd(PATTERNS[pattern], lambda: router.submit(calls), threads, router.flush),
        asked={FIGURE: "at least 0.9, goal 1.2"} if (threads, PATTERNS[pattern]) == (16, waiting) else None,
        one_round_in=2,
    )


def test_like_against_like(side_by_side: Any, executor: ThreadPoolExecutor) -> None:
    with ThreadPoolExecutor(32) as other:
        side_by_side.compare(
            "16 threads: the thread pool against another",
            crowd(waiting, lambda: executor.submit(nothing), 16, lambda: None),
            crowd(waiting, lambda: other.submit(nothing), 16, lambda: None),
            one_round_in=2,
        )
