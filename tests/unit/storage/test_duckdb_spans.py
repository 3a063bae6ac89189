"""Spans of time by which rows are read: each holds few, whatever the rows' times are, and none is left out."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from turnout.storage import duckdb_spans
from turnout.storage.duckdb_spans import Span, spans

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SMALL = 4


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(duckdb_spans, "_ROWS", SMALL)
    with closing(duckdb.connect(":memory:", config={"threads": 1})) as database:
        database.execute("CREATE TABLE provider_attempts (started_at TIMESTAMPTZ)")
        yield database


steps = st.sampled_from([0, 1, 40, 10**6, 59 * 10**6, 86_400 * 10**6])


@example([1] * 60, 0, True)
@example([40, 10**6] * 30, 0, False)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=60), st.integers(-(10**8), 10**15), st.booleans())
def test_they_follow_one_another_and_hold_few_rows_each(
    database: Any, steps: list[int], first: int, endless: bool
) -> None:
    moments = [first + sum(steps[: place + 1]) for place in range(len(steps))]
    whole = Span(first, None if endless else first + sum(steps) // 2 + 1)
    database.execute("TRUNCATE provider_attempts")
    for moment in moments:
        database.execute("INSERT INTO provider_attempts VALUES (?)", [EPOCH + timedelta(microseconds=moment)])
    cut = list(spans(database, whole, "true", []))
    within = [moment for moment in moments if whole.end is None or moment < whole.end]
    if not within:
        assert cut == []
        return
    assert (cut[0].start, cut[-1].end) == (whole.start, whole.end)
    assert all(one.end == next_one.start for one, next_one in pairwise(cut))
    for start, end in cut:
        held = [moment for moment in within if moment >= start and (end is None or moment < end)]
        # Only those of one moment cannot be told apart.
        assert len(held) <= 2 * SMALL or len(held) - held.count(max(held)) <= 2 * SMALL
