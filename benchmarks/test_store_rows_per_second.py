"""How many rows a second does a store take, beside the driver's own bulk insert of the same rows?

Both write batches of 500 full rows into tables of the same schema, in turns, so that both see the same machine. The
driver is handed ready tuples; the store starts from rows.
"""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

import duckdb
import pytest
from turnout.storage import schema
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

BATCH_ROWS: Final = 500
ROUNDS: Final = 40
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
START: Final = datetime(2026, 3, 1, tzinfo=UTC)

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


def run(
    benchmark: Any,
    store_writes: Write,
    driver_writes: Write,
    tuples: Callable[[list[Row]], list[Any]],
) -> None:
    """Time the store with ``benchmark`` and the driver by hand, turn by turn, and report the ratio."""
    source = batches()
    floor_seconds: list[float] = []

    def setup() -> tuple[tuple[list[Row]], dict[str, Any]]:
        ready = tuples(next(source))
        began = time.perf_counter()
        driver_writes(ready)
        floor_seconds.append(time.perf_counter() - began)
        return (next(source),), {}

    benchmark.pedantic(store_writes, setup=setup, rounds=ROUNDS, warmup_rounds=3)
    ours = BATCH_ROWS / benchmark.stats.stats.median
    floor = BATCH_ROWS / median(floor_seconds[3:])
    told = {
        "rows_per_second": round(ours),
        "driver_rows_per_second": round(floor),
        "ratio": round(ours / floor, 2),
    }
    benchmark.extra_info.update(told)
    print("\n", told)


@pytest.mark.benchmark(group="rows a second, DuckDB")
def test_duckdb_takes_rows_as_fast_as_its_own_appender(
    benchmark: Any, tmp_path: Path
) -> None:
    with (
        closing(DuckDBMetricsStore(tmp_path / "store.duckdb")) as store,
        closing(duckdb.connect(str(tmp_path / "driver.duckdb"))) as database,
    ):
        database.execute("SET threads = 1")
        database.execute(schema.script("duckdb"))
        appender = database.appender("provider_attempts")

        def append(rows: Sequence[Any]) -> None:
            appender.append_rows(rows)
            appender.flush()

        run(
            benchmark,
            store.record_attempts,
            append,
            lambda rows: [tuple(row) for row in rows],
        )


@pytest.mark.benchmark(group="rows a second, SQLite")
def test_sqlite_takes_rows_as_fast_as_its_own_executemany(
    benchmark: Any, tmp_path: Path
) -> None:
    with (
        closing(SQLiteMetricsStore(tmp_path / "store.sqlite")) as store,
        closing(
            sqlite3.connect(tmp_path / "driver.sqlite", isolation_level=None)
        ) as database,
    ):
        database.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
            + schema.script("sqlite")
        )

        def insert(rows: Sequence[Any]) -> None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                f"INSERT INTO provider_attempts VALUES ({', '.join('?' * 25)})", rows
            )
            database.execute("COMMIT")

        run(benchmark, store.record_attempts, insert, sqlite_tuples)


def sqlite_tuples(rows: list[Row]) -> list[Any]:
    made = [list(row) for row in rows]
    for values in made:
        values[4] = (values[4] - EPOCH) // timedelta(microseconds=1)
    return made
