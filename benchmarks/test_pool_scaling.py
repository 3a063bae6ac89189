"""Do as many 200 ms calls as there are workers finish together?

Every block begins with a pool that has no thread yet, the router's as well as the bare one.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import pytest

pytestmark = pytest.mark.benchmark(
    group="Calls of 200 ms, as many as workers, beside a new ThreadPoolExecutor"
)

CALL_SECONDS: Final = 0.2


class Waiting:
    """Takes 200 ms of waiting, and keeps count of who waits."""

    def __init__(self) -> None:
        self._inside: list[None] = []
        self._seen = [0]

    @property
    def peak(self) -> int:
        return max(self._seen)

    def work(self) -> None:
        self._inside.append(None)
        self._seen.append(len(self._inside))
        time.sleep(CALL_SECONDS)
        self._inside.pop()

    def invoke(self, operation: str, arguments: Mapping[str, Any]) -> None:
        self.work()


def together(submit: Callable[[], Future[Any]], calls: int, waiting: Waiting) -> Mapping[str, float]:
    began = time.perf_counter()
    for future in [submit() for _ in range(calls)]:
        future.result()
    beyond = time.perf_counter() - began - CALL_SECONDS
    return {"ms beyond 200": beyond * 1e3, "in flight at once": waiting.peak}


@pytest.mark.parametrize("workers", [8, 64, 256, 512])
def test_calls_in_flight_at_once(side_by_side: Any, routers: Any, workers: int) -> None:
    calls = routers.chat()

    def floor() -> Mapping[str, float]:
        waiting = Waiting()
        with ThreadPoolExecutor(workers) as executor:
            return together(lambda: executor.submit(waiting.work), workers, waiting)

    def ours() -> Mapping[str, float]:
        waiting = Waiting()
        with routers.lent(waiting, pool={"max_workers": workers}) as router:
            told = together(lambda: router.submit(calls), workers, waiting)
            router.flush()
            return told

    side_by_side.compare(
        f"{workers} calls, {workers} workers",
        floor,
        ours,
        asked={"ms beyond 200": "ours under 1,000 ms"} if workers == 512 else None,
        one_round_in=4,
        warm_up=False,
    )
