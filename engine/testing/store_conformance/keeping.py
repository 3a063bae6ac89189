"""What is recorded is kept as it was: every column, once, and whole batches or nothing of them."""

from datetime import datetime, timedelta, timezone
from typing import Any, Final

import pytest

from turnout.calls import Attempt, CallType, Identity, Outcome, Reason, Usage
from turnout.errors import StorageError
from turnout.faults import Fault
from turnout.storage.attempts import AttemptRows
from turnout.storage.contract import MetricsStore
from turnout.storage.rows import Row
from turnout.testing.store_conformance.fixtures import OfOneStore
from turnout.testing.store_conformance.histories import LONG_AGO, MICROSECOND, NOON, UNKNOWN, a_row

_TEXTS: Final = (
    "",
    " ",
    "it's; DROP TABLE provider_attempts --",
    'a "name" \\ with\ttabs\nand lines',
    "Ünïcode e\u0301 東京 🚉👩‍🚀 العربية",
    "%s {} :name $1 ?",
    "x" * 5000,
)
#: Columns that no store may take, in a row that is good besides.
_BAD: Final[dict[str, dict[str, Any]]] = {
    "a required value is missing": {"provider_id": None},
    "a number is not one": {"total_duration_ms": float("nan")},
    "a number has no end": {"latency_ms": float("inf")},
    "the time has no time zone": {"started_at": datetime(2026, 1, 1)},  # noqa: DTZ001
}


def _by_id(rows: list[Row]) -> dict[str, Row]:
    assert len({row.attempt_id for row in rows}) == len(rows)
    return {row.attempt_id: row for row in rows}


class Keeping(OfOneStore):
    """Tests of ``record_attempts``."""

    def test_every_column_comes_back_as_it_went_in(self, store: MetricsStore) -> None:
        row = a_row()
        store.record_attempts([row])
        (found,) = store.query_recent(since=NOON)
        assert found == row
        # 1 is equal to True, and no answer to the question.
        assert [*map(type, found)] == [*map(type, row)]

    def test_what_is_unknown_comes_back_unknown_beside_rows_that_know(self, store: MetricsStore) -> None:
        known, unknown = a_row(), a_row(**UNKNOWN, started_at=NOON + MICROSECOND)
        store.record_attempts([unknown])
        store.record_attempts([known])
        assert store.query_recent(since=NOON) == [known, unknown]

    def test_false_and_zero_and_empty_are_not_unknown(self, store: MetricsStore) -> None:
        row = a_row(
            success=False,
            stream_opened=False,
            latency_ms=0.0,
            cost_usd=0.0,
            input_tokens=0,
            error_code="",
        )
        store.record_attempts([a_row(**UNKNOWN), row])
        assert _by_id(store.query_recent(since=NOON))[row.attempt_id] == row

    def test_any_text_comes_back(self, store: MetricsStore) -> None:
        rows = [
            a_row(metrics_scope=text, provider_id=text, provider_name=text, model=text, error_code=text)
            for text in _TEXTS
        ]
        store.record_attempts(rows)
        assert _by_id(store.query_recent(since=NOON)) == _by_id(rows)

    def test_times_are_exact_to_the_microsecond_and_come_back_in_utc(self, store: MetricsStore) -> None:
        tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
        store.record_attempts([a_row(started_at=tokyo)])
        (found,) = store.query_recent(since=tokyo)
        assert found.started_at == NOON
        assert found.started_at.utcoffset() == timedelta(0)
        assert store.query_recent(since=NOON + MICROSECOND) == []

    def test_recording_nothing_is_nothing(self, store: MetricsStore) -> None:
        store.record_attempts([])
        assert store.query_recent(since=LONG_AGO) == []

    def test_a_large_batch_arrives_whole(self, store: MetricsStore) -> None:
        rows = [a_row(provider_id=f"p{number % 7}", http_status=number) for number in range(1300)]
        store.record_attempts(rows)
        assert _by_id(store.query_recent(since=NOON)) == _by_id(rows)

    def test_the_rows_may_be_any_sequence(self, store: MetricsStore) -> None:
        # The ledger's own makes each row as it is read.
        attempts = [
            Attempt(
                key=0x01900000_0000_7000_8000_000000000000 + number,
                invocation_key=0x01900000_0000_7000_9000_000000000000,
                number=number,
                reason=Reason.PRIMARY,
                by=Identity("eu-1", "Europe"),
                call_type=CallType.STREAMING,
                began=NOON.timestamp() + number,
                elapsed_seconds=0.5,
                queue_seconds=0.0,
                outcome=outcome,
                epoch=0,
                fault=Fault.TIMEOUT if outcome is Outcome.FAILED else None,
                stream_opened=True,
                first_seconds=0.25,
                usage=Usage(input_tokens=number),
            )
            for number, outcome in enumerate(Outcome)
        ]
        rows = AttemptRows(attempts, "scope")
        store.record_attempts(rows)
        assert store.query_recent(since=LONG_AGO) == [*rows]

    def test_a_replayed_batch_changes_nothing(self, store: MetricsStore) -> None:
        rows = [a_row(started_at=NOON + timedelta(seconds=second)) for second in range(5)]
        store.record_attempts(rows)
        store.record_attempts([rows[0]._replace(provider_id="changed"), *rows[1:], late := a_row()])
        assert _by_id(store.query_recent(since=NOON)) == _by_id([*rows, late])

    def test_the_first_of_two_rows_with_one_identity_in_a_batch_is_kept(self, store: MetricsStore) -> None:
        row = a_row()
        store.record_attempts([row, row._replace(provider_id="second"), row._replace(provider_id="third")])
        assert store.query_recent(since=NOON) == [row]

    @pytest.mark.parametrize("bad", _BAD.values(), ids=_BAD.keys())
    def test_one_bad_row_keeps_its_whole_batch_out_and_no_other(
        self, store: MetricsStore, bad: dict[str, Any]
    ) -> None:
        before, after = a_row(), a_row()
        store.record_attempts([before])
        with pytest.raises(StorageError):
            store.record_attempts([a_row(), before, a_row(**bad), a_row()])
        store.record_attempts([after])
        assert _by_id(store.query_recent(since=LONG_AGO)) == _by_id([before, after])
