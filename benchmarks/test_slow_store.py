"""Does a store whose every write hangs for 5 s slow the calls down?

Beside the same calls over a store that takes rows at once and does nothing with them: a real one would cost the healthy
side time that the hanging one saves.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final

import pytest

from turnout import Row
from turnout.decisions.aggregates import ScoreAggregate, ScoreAggregateQuery

pytestmark = pytest.mark.benchmark(group="invoke() over a store that hangs, beside a healthy one")

CALLS: Final = 1000
HANG_SECONDS: Final = 5.0
FIGURES: Final = ("p50", "p99")


class Store:
    """Keeps nothing; every write takes ``hang_seconds``, until ``let_go``."""

    def __init__(self, hang_seconds: float = 0.0) -> None:
        self._hang_seconds = hang_seconds
        self._released = threading.Event()

    def record_attempts(self, rows: Sequence[Row]) -> None:
        if self._hang_seconds:
            self._released.wait(self._hang_seconds)

    def query_recent(self, *, since: datetime, **filters: str | None) -> list[Row]:
        return []

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        return [ScoreAggregate(partition.provider_id) for partition in query.partitions]

    def let_go(self) -> None:
        self._released.set()

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def hanging() -> Iterator[Store]:
    store = Store(HANG_SECONDS)
    try:
        yield store
    finally:
        store.let_go()


def test_hanging_store(side_by_side: Any, routers: Any) -> None:
    healthy = routers(store=Store())
    with hanging() as store:
        side_by_side.compare(
            f"every write hangs {HANG_SECONDS:g} s",
            side_by_side.calls(partial(healthy.invoke, routers.chat()), CALLS, tell=FIGURES),
            side_by_side.calls(partial(routers(store=store).invoke, routers.chat()), CALLS, tell=FIGURES),
            asked={"p99, us": "at most 1.1"},
        )


def test_like_against_like(side_by_side: Any, routers: Any) -> None:
    one, other = (routers(store=Store()) for _ in range(2))
    side_by_side.compare(
        "both healthy",
        side_by_side.calls(partial(one.invoke, routers.chat()), CALLS, tell=FIGURES),
        side_by_side.calls(partial(other.invoke, routers.chat()), CALLS, tell=FIGURES),
    )
