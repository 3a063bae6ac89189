"""How long does a null call take while another thread of the process computes without a pause?

That thread gives the interpreter away only when its 5 ms are over, so each change of thread on a call's way may cost as
much. The rows of the router's calls go into DuckDB meanwhile.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pytest

pytestmark = pytest.mark.benchmark(
    group="A null call beside one CPU-bound thread, both pools beside it alike"
)

CALLS: Final = 200
INVOKED: Final = 1000
FIGURES: Final = ("p50", "p99", "mean")


def nothing() -> None:
    """What the thread pool runs."""


@contextmanager
def cpu_bound_thread() -> Iterator[None]:
    leave = threading.Event()

    def compute() -> None:
        while not leave.is_set():
            for _ in range(10_000):
                pass

    thread = threading.Thread(target=compute, name="cpu-bound", daemon=True)
    thread.start()
    try:
        yield
    finally:
        leave.set()
        thread.join()


def beside_it(
    side_by_side: Any, what: str, floor: Callable[[], object], ours: Callable[[], object], calls: int
) -> None:
    with cpu_bound_thread():
        side_by_side.compare(
            what,
            side_by_side.calls(floor, CALLS, tell=FIGURES),
            side_by_side.calls(ours, calls, tell=FIGURES),
            one_round_in=5,
        )


def test_invoke(side_by_side: Any, routers: Any, executor: ThreadPoolExecutor) -> None:
    router = routers()
    beside_it(
        side_by_side,
        "invoke()",
        lambda: executor.submit(nothing).result(),
        partial(router.invoke, routers.chat()),
        INVOKED,
    )


@pytest.mark.parametrize("timeout", [None, 60], ids=["by the caller", "by a worker"])
def test_submit(side_by_side: Any, routers: Any, executor: ThreadPoolExecutor, timeout: float | None) -> None:
    router, calls = routers(), routers.chat()
    beside_it(
        side_by_side,
        "submit().result()" if timeout is None else "submit().result(timeout)",
        lambda: executor.submit(nothing).result(),
        lambda: router.submit(calls).result(timeout),
        CALLS,
    )


def test_like_against_like(side_by_side: Any, executor: ThreadPoolExecutor) -> None:
    with ThreadPoolExecutor(32) as other:
        beside_it(
            side_by_side,
            "the thread pool against another",
            lambda: executor.submit(nothing).result(),
            lambda: other.submit(nothing).result(),
            CALLS,
        )
