"""How long does one caller wait for a call that costs nothing, beside a bare thread pool?

``submit().result()`` makes the call on the thread that waits, if no worker was quicker; with a timeout it waits for a
worker. Where a ledger is kept, the block ends when its last row is in DuckDB.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import pytest

pytestmark = pytest.mark.benchmark(
    group="One caller: a null call, beside ThreadPoolExecutor.submit(f).result()"
)

#: Many flushes long, so that `drained` tells of steady running: after the last call some 4,000 rows are left to write,
#: which in a block of 10,000 calls was a tenth of its time.
CALLS: Final = 40_000
#: For what takes several times longer.
FEWER_CALLS: Final = 10_000


def nothing() -> None:
    """What the thread pool runs."""


def waited_for(executor: ThreadPoolExecutor) -> Callable[[], object]:
    return lambda: executor.submit(nothing).result()


@pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "no ledger"])
def test_submit_and_result(
    side_by_side: Any, routers: Any, executor: ThreadPoolExecutor, ledger: bool
) -> None:
    router, calls = routers(ledger=ledger), routers.chat()
    side_by_side.compare(
        f"submit().result(), {'DuckDB ledger' if ledger else 'no ledger'}",
        side_by_side.calls(waited_for(executor), CALLS),
        side_by_side.calls(lambda: router.submit(calls).result(), CALLS, then=router.flush),
        asked=dict.fromkeys(("p50, us", "drained, us"), "at most 1.5, goal 1.0") if ledger else None,
    )


def test_submit_answered_by_a_worker(side_by_side: Any, routers: Any, executor: ThreadPoolExecutor) -> None:
    router, calls = routers(), routers.chat()
    side_by_side.compare(
        "submit().result(timeout), DuckDB ledger",
        side_by_side.calls(waited_for(executor), FEWER_CALLS),
        side_by_side.calls(lambda: router.submit(calls).result(60), FEWER_CALLS, then=router.flush),
    )


@pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "no ledger"])
def test_invoke(side_by_side: Any, routers: Any, executor: ThreadPoolExecutor, ledger: bool) -> None:
    router = routers(ledger=ledger)
    side_by_side.compare(
        f"invoke(), {'DuckDB ledger' if ledger else 'no ledger'}",
        side_by_side.calls(waited_for(executor), CALLS),
        side_by_side.calls(partial(router.invoke, routers.chat()), CALLS, then=router.flush),
        asked=dict.fromkeys(("p50, us", "drained, us"), "at most 0.7, goal 0.4") if ledger else None,
    )


def test_like_against_like(side_by_side: Any, executor: ThreadPoolExecutor) -> None:
    with ThreadPoolExecutor(32) as other:
        side_by_side.compare(
            "the thread pool against another",
            side_by_side.calls(waited_for(executor), CALLS),
            side_by_side.calls(waited_for(other), CALLS),
        )
