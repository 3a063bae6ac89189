"""A million attempts are told of in little memory, wherever they are kept."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from turnout.storage.columns import COLUMNS
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.sqlite import SQLiteMetricsStore

ROWS = 1_000_000
#: What one list of so many rows would take several times over.
MOST_MEGABYTES = 200
START = datetime(2026, 3, 1, tzinfo=UTC)
START_MICROSECONDS = int(START.timestamp()) * 1_000_000

#: Half a million calls at five providers, 5,000 attempts a second: each first attempt fails, another follows.
DUCKDB_ROW = f"""
    ('01900000-0001-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
    ('01900000-0002-7000-8000-' || lpad(to_hex(n // 2), 12, '0'))::uuid,
    1 + n % 2, CASE n % 2 WHEN 0 THEN 'primary' ELSE 'failover' END, make_timestamptz({START_MICROSECONDS} + n * 200),
    'scope', 'p' || (n % 5), 'P', 'm', 'openai_chat', 'regular', n % 2 = 1,
    CASE n % 2 WHEN 0 THEN 'failed' ELSE 'ok' END, CASE n % 2 WHEN 0 THEN 'timeout' END, NULL, (n * 7919) % 1000, 1.0,
    0.0, 10, NULL, 20, NULL, 'unknown', NULL, NULL
"""
POSTGRES_ROW = DUCKDB_ROW.replace("//", "/").replace(
    f"make_timestamptz({START_MICROSECONDS} + n * 200)", f"'{START}'::timestamptz + n * interval '200 us'"
)
SQLITE_ROW = (
    DUCKDB_ROW.replace("::uuid", "")
    .replace("//", "/")
    .replace("lpad(to_hex(n), 12, '0')", "printf('%012x', n)")
    .replace("lpad(to_hex(n / 2), 12, '0')", "printf('%012x', n / 2)")
    .replace(f"make_timestamptz({START_MICROSECONDS} + n * 200)", f"{START_MICROSECONDS} + n * 200")
)
INTO = f"INSERT INTO provider_attempts ({', '.join(COLUMNS)})"

MEASURED = """
import sys
from turnout.cli.app import main
try:
    main()
finally:
    # Not from getrusage(), which counts what the parent had as well.
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(int(lines["VmHWM"].split()[0]) // 1024, file=sys.stderr)
"""


def in_duckdb(path: Path) -> None:
    with closing(DuckDBMetricsStore(path)) as store:
        store.query_recent(since=START)
    with closing(duckdb.connect(str(path))) as database:
        database.execute(f"{INTO} SELECT {DUCKDB_ROW} FROM range({ROWS}) AS numbers (n)")


def in_sqlite(path: Path) -> None:
    with closing(SQLiteMetricsStore(path)) as store:
        store.query_recent(since=START)
    numbers = f"WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers LIMIT {ROWS})"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"{INTO} {numbers} SELECT {SQLITE_ROW} FROM numbers")


def in_postgres(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(
            f"{INTO} SELECT {POSTGRES_ROW} FROM generate_series(0::bigint, {ROWS - 1}) AS n".encode()
        )
        database.execute("ANALYZE provider_attempts")


def told(*arguments: str, url: str) -> tuple[Any, int]:
    """What it says, and the most memory that it took, in megabytes."""
    ended = subprocess.run(
        [sys.executable, "-c", MEASURED, "stats", "--json", *arguments],
        capture_output=True, text=True, timeout=250, env={**os.environ, "TURNOUT_POSTGRES_URL": url},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)["providers"], int(ended.stderr)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not say so")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", ["duckdb", "sqlite", "postgres"])
def test_a_million_attempts_take_little_memory(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest, measured: Any
) -> None:
    url, path = "", tmp_path / "ledger"
    match backend:
        case "duckdb":
            in_duckdb(path)
        case "sqlite":
            in_sqlite(path)
        case _:
            in_postgres(url := request.getfixturevalue("postgres_ledger"))
    place = ["--backend", backend, *([] if url else ["--path", str(path)])]
    nothing, before = told(*place, "--since", "2020-01-01", "--until", "2021-01-01", url=url)
    providers, most = told(*place, "--since", START.isoformat(), url=url)
    assert nothing == []
    assert sum(one["attempts"] for one in providers) == ROWS
    assert sum(one["failovers_caused"] for one in providers) == ROWS // 2
    assert {one["p50_ms"] for one in providers} <= {float(ms) for ms in range(490, 510)}
    measured(f"a million attempts in {backend}: {most} MB, of which {before} MB for none")
    assert most - before < MOST_MEGABYTES
