"""The statement behind scores: what it reads, and that it can do without functions that not every SQLite has."""

import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnout.calls import ApiProtocol, CallType
from turnout.decisions.aggregates import Partition, ScoreAggregate, ScoreAggregateQuery
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.rows import Row
from turnout.storage.score_sql import SQLITE, SQLITE_WITHOUT_POW, Dialect, score_statement
from turnout.storage.sqlite import SQLiteMetricsStore, _dialect

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORDS = pytest.mark.parametrize("say", [SQLITE, SQLITE_WITHOUT_POW], ids=["with pow", "without pow"])


def a_query(half_life_hours: float | None, metrics_scope: str | None = "app") -> ScoreAggregateQuery:
    return ScoreAggregateQuery(
        (Partition("a", "m", ApiProtocol.OPENAI_CHAT), Partition("b", None, None)),
        CallType.REGULAR,
        since=NOON - timedelta(hours=40),
        reference=NOON,
        metrics_scope=metrics_scope,
        half_life_hours=half_life_hours,
    )


def some_rows(count: int) -> list[Row]:
    nothing = (None,) * 4
    return [
        Row(
            f"01900000-0000-7000-8000-{number:012x}",
            f"01900000-0000-7000-8000-{number:012x}",
            1,
            "primary",
            NOON - timedelta(minutes=31 * number),
            "app",
            "ab"[number % 2],
            "A or B",
            ["m", None][number % 2],
            [ApiProtocol.OPENAI_CHAT.value, None][number % 2],
            "regular",
            number % 3 > 0,
            "ok",
            None,
            None,
            None if number % 5 == 0 else 100.0 + number,
            1.0,
            0.0,
            *nothing,
            "unknown",
            None,
            None,
        )
        for number in range(count)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteMetricsStore]:
    with closing(SQLiteMetricsStore(tmp_path / "metrics.sqlite")) as store:
        store.record_attempts(some_rows(60))
        yield store


@WORDS
@pytest.mark.parametrize("half_life_hours", [None, 3.0])
@pytest.mark.parametrize("metrics_scope", [None, "app"])
def test_sqlite_looks_each_partition_up_in_the_index_for_scores(
    store: SQLiteMetricsStore, say: Dialect, half_life_hours: float | None, metrics_scope: str | None
) -> None:
    statement, parameters = score_statement(a_query(half_life_hours, metrics_scope), say)
    with closing(sqlite3.connect(store.path)) as connection:
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    (reading,) = (step for step in plan if "provider_attempts" in step)
    assert reading.startswith(
        "SEARCH provider_attempts USING INDEX provider_attempts_scores "
        "(provider_id=? AND model=? AND protocol=? AND call_type=? AND started_at>?)"
    )


@pytest.mark.parametrize("half_life_hours", [None, 3.0, 1e-3, 1e-300, 1e300])
def test_sqlite_without_pow_adds_up_the_same(
    store: SQLiteMetricsStore, half_life_hours: float | None
) -> None:
    query = a_query(half_life_hours)
    statement, parameters = score_statement(query, SQLITE_WITHOUT_POW)
    with closing(sqlite3.connect(store.path)) as connection:
        found = connection.execute(statement, parameters).fetchall()
    for sums, expected in zip(found, store.query_score_aggregates(query), strict=True):
        assert sums == pytest.approx(astuple(expected)[1:], rel=1e-12, abs=1e-290)


def test_a_build_of_sqlite_without_pow_is_recognised() -> None:
    def no_pow(action: int, _: object, function: str | None, *__: object) -> int:
        unknown = action == sqlite3.SQLITE_FUNCTION and function == "pow"
        return sqlite3.SQLITE_DENY if unknown else sqlite3.SQLITE_OK

    with closing(sqlite3.connect(":memory:")) as connection:
        connection.set_authorizer(no_pow)
        assert _dialect(connection) is SQLITE_WITHOUT_POW


@example(0.5)
@example(61.5)
@example(700.499)
@given(st.floats(0, 1100))
def test_the_series_is_one_half_to_that_power(halvings: float) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        (found,) = connection.execute(
            f"SELECT {SQLITE_WITHOUT_POW.halved} FROM (SELECT ? AS halvings)", (halvings,)
        ).fetchone()
    assert math.isclose(found, 0.5**halvings, rel_tol=1e-12, abs_tol=1e-305)


Filled = Callable[[Path], DuckDBMetricsStore | SQLiteMetricsStore]
COUNT = 1_000_000
APART_MICROSECONDS = 77_777
#: Of row ``number``, in Python and in SQL.
SUCCESS = "number % 7 > 0"
LATENCY_MS = "(number % 1009) * (number % 1009) * 1.5 + 0.1"
Numbered = Callable[[int], float]


def a_full_duckdb(folder: Path) -> DuckDBMetricsStore:
    store = DuckDBMetricsStore(folder / "metrics.duckdb")
    store.record_attempts(some_rows(1))
    store.release()
    with closing(duckdb.connect(store.path)) as connection:
        connection.execute(
            f"""
            INSERT INTO provider_attempts
            SELECT one.* REPLACE (
                uuid() AS attempt_id, {SUCCESS} AS success, {LATENCY_MS} AS latency_ms,
                started_at - to_microseconds(number * {APART_MICROSECONDS}) AS started_at
            )
            FROM provider_attempts AS one, range(1, {COUNT}) AS numbers (number)
            """
        )
    return store


def a_full_sqlite(folder: Path) -> SQLiteMetricsStore:
    store = SQLiteMetricsStore(folder / "metrics.sqlite")
    store.record_attempts(some_rows(1))
    changed = {
        "attempt_id": "printf('%036d', number)",
        "success": SUCCESS,
        "latency_ms": LATENCY_MS,
        "started_at": f"started_at - number * {APART_MICROSECONDS}",
    }
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(
            f"""
            WITH RECURSIVE numbers (number) AS (
                VALUES (1) UNION ALL SELECT number + 1 FROM numbers WHERE number < {COUNT - 1}
            )
            INSERT INTO provider_attempts
            SELECT {", ".join(changed.get(name, name) for name in Row._fields)}
            FROM numbers, provider_attempts AS one
            """
        )
    return store


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("filled", [a_full_duckdb, a_full_sqlite])
def test_sums_of_a_million_rows_are_exact_to_a_billionth(filled: Filled, tmp_path: Path) -> None:
    success: Numbered = eval(f"lambda number: {SUCCESS}")
    latency_ms: Numbered = eval(f"lambda number: {LATENCY_MS}")
    with closing(filled(tmp_path)) as store:
        for half_life_hours in (None, 3.0):
            halved = 0.5 if half_life_hours else 1.0
            half_life = (half_life_hours or 1.0) * 3600e6
            weights = [halved ** (number * APART_MICROSECONDS / half_life) for number in range(COUNT)]
            good = [number for number in range(COUNT) if success(number)]
            found, nothing = store.query_score_aggregates(a_query(half_life_hours))
            assert nothing == ScoreAggregate("b")
            assert found.recent_error_count == COUNT - len(good)
            assert found.attempt_weight == pytest.approx(math.fsum(weights), rel=1e-9)
            assert found.success_weight == pytest.approx(math.fsum(weights[at] for at in good), rel=1e-9)
            assert found.successful_latency_total_ms == pytest.approx(
                math.fsum(weights[at] * latency_ms(at) for at in good), rel=1e-9
            )
