"""Rows made by columns are the rows made one by one."""

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.calls import Attempt, CallType, Identity, Outcome, Reason, Usage
from turnout.errors import StorageError
from turnout.faults import Fault
from turnout.storage.attempts import AttemptRows
from turnout.storage.columns import COLUMNS, LABELS, column, labelled
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.rows import row_of
from turnout.storage.sqlite import SQLiteMetricsStore

SCOPE = "scope"
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
IDENTITIES = [
    Identity("a", "A", "m", "openai_chat"),
    Identity("b", "B"),
    Identity("a", "A", "m", "openai_chat"),
]
seconds = st.floats(0, 1e6, allow_nan=False)
usages = st.builds(Usage, *[st.none() | st.integers(-5, 2**40)] * 3)
attempts = st.builds(
    Attempt,
    key=st.integers(0, 2**128 - 1),
    invocation_key=st.integers(0, 2**128 - 1),
    number=st.integers(1, 4),
    reason=st.sampled_from(Reason),
    by=st.sampled_from(IDENTITIES),
    call_type=st.sampled_from(CallType),
    began=st.floats(-1e9, 4e9, allow_nan=False),
    elapsed_seconds=seconds,
    queue_seconds=seconds,
    outcome=st.sampled_from(Outcome),
    epoch=st.integers(0, 9),
    fault=st.none() | st.sampled_from(Fault),
    http_status=st.none() | st.sampled_from([400, 429, 500]),
    error_code=st.none() | st.text(max_size=4),
    first_seconds=st.none() | seconds,
    stream_opened=st.sampled_from([None, True, False]),
    usage=st.none() | usages,
)


def attempt_of(number: int) -> Attempt:
    return Attempt(
        2**100 + number, 2**100, number, Reason.PRIMARY, IDENTITIES[number % 2], CallType.REGULAR,
        1_700_000_000.123456 + number, 0.25, 0.0, Outcome.OK, 0, usage=Usage(1, None, 3),
    )  # fmt: skip


class Held(list[Attempt]):
    """Attempts whose rows are being made, until they are let go."""

    def __init__(self, *attempts: Attempt) -> None:
        super().__init__(attempts)
        self.entered, self.let_go = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[Attempt]:
        self.entered.set()
        assert self.let_go.wait(30)
        return super().__iter__()


def test_rows_of_one_ledger_are_made_while_those_of_another_are() -> None:
    held, made = Held(attempt_of(1)), threading.Event()

    def make() -> None:
        assert AttemptRows([attempt_of(2)], SCOPE).column("queue_ms") == [0.0]
        made.set()

    threads = [
        threading.Thread(target=lambda: AttemptRows(held, SCOPE).column("queue_ms")),
        threading.Thread(target=make),
    ]
    threads[0].start()
    assert held.entered.wait(30)
    threads[1].start()
    in_time = made.wait(5)
    held.let_go.set()
    for thread in threads:
        thread.join(30)

    assert in_time


@given(st.lists(attempts, min_size=1, max_size=12))
def test_every_column_made_at_once_equals_that_of_the_rows(some: list[Attempt]) -> None:
    at_once, rows = AttemptRows(some, SCOPE), [row_of(attempt, SCOPE) for attempt in some]
    assert list(at_once) == rows
    for name in COLUMNS:
        if name not in LABELS:
            assert column(at_once, name) == column(rows, name), name
    places, labels = labelled(at_once)
    wanted_places, wanted = labelled(rows)
    assert [labels[place] for place in places] == [wanted[place] for place in wanted_places]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "memory"])
def test_every_store_keeps_attempts_as_it_keeps_their_rows(kind: str, tmp_path: Path) -> None:
    made: dict[str, Any] = {
        "duckdb": lambda: DuckDBMetricsStore(tmp_path / "metrics.duckdb"),
        "sqlite": lambda: SQLiteMetricsStore(tmp_path / "metrics.sqlite"),
        "memory": MemoryMetricsStore,
    }
    some = [attempt_of(number) for number in range(1, 40)]
    store = made[kind]()
    store.record_attempts(AttemptRows(some, SCOPE))
    found = store.query_recent(since=LONG_AGO)
    store.close()
    assert found == [row_of(attempt, SCOPE) for attempt in some]


@pytest.mark.parametrize(
    "bad", [["a" * 30, "b" * 34], ["", "0" * 64], ["aa " * 10 + "aa", "b" * 32], ["x" * 32]]
)
def test_texts_that_are_no_uuids_are_refused_and_never_shifted_into_each_other(
    bad: list[str], tmp_path: Path
) -> None:
    rows = [row_of(attempt_of(number), SCOPE)._replace(attempt_id=text) for number, text in enumerate(bad, 1)]
    with closing(DuckDBMetricsStore(tmp_path / "metrics.duckdb")) as store:
        with pytest.raises(StorageError, match="UUID"):
            store.record_attempts(rows)
        assert store.query_recent(since=LONG_AGO) == []


@pytest.mark.parametrize("status", [[500], 500.0, {"code": 1}, "500"])
def test_a_status_that_is_no_number_is_unknown_and_costs_no_other_row(status: Any, tmp_path: Path) -> None:
    some = [attempt_of(number)._replace(http_status=one) for number, one in enumerate([500, status, 500], 1)]
    with closing(DuckDBMetricsStore(tmp_path / "metrics.duckdb")) as store:
        store.record_attempts(AttemptRows(some, SCOPE))
        assert [row.http_status for row in store.query_recent(since=LONG_AGO)] == [500, None, 500]
