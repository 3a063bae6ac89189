"""Stores that do almost what a store must, each wrong in one way, with the tests that have to see it.

Run by ``test_store_conformance`` in a project of a user's kind, not collected here.
"""

import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from turnout import MemoryMetricsStore, Row, ScoreAggregate, ScoreAggregateQuery
from turnout.decisions.stats import aggregates_of

MICROSECOND = timedelta(microseconds=1)


class Changed(MemoryMetricsStore):
    """Right, until a subclass changes one of the steps."""

    def asked(self, query: ScoreAggregateQuery) -> ScoreAggregateQuery:
        return query

    def kept(self, row: Row) -> Row:
        return row

    def found(self, row: Row) -> Row:
        return row

    def added(self, sums: ScoreAggregate) -> ScoreAggregate:
        return sums

    def answer(self, sums: list[ScoreAggregate]) -> list[ScoreAggregate]:
        return sums

    def record_attempts(self, rows: Sequence[Row]) -> None:
        super().record_attempts([self.kept(row) for row in rows])

    def query_recent(self, **filters: Any) -> list[Row]:
        return [self.found(row) for row in super().query_recent(**filters)]

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        return self.answer([*map(self.added, super().query_score_aggregates(self.asked(query)))])


class DropsTheBoundary(Changed):
    def asked(self, query: ScoreAggregateQuery) -> ScoreAggregateQuery:
        return replace(query, since=query.since + MICROSECOND)


class CountsIgnored(Changed):
    def kept(self, row: Row) -> Row:
        return row if row.success is not None else row._replace(success=False)


class AveragesOverAllSuccesses(Changed):
    def added(self, sums: ScoreAggregate) -> ScoreAggregate:
        return replace(sums, successful_latency_weight=sums.success_weight)


class KeepsReplays(Changed):
    def record_attempts(self, rows: Sequence[Row]) -> None:
        for row in rows:
            super().record_attempts([row])
            self._rows[f"{row.attempt_id} {len(self._rows)}"] = self._rows[row.attempt_id]


class TheLastWins(Changed):
    def record_attempts(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._rows.pop(row.attempt_id, None)
        super().record_attempts(rows[::-1])


class KeepsHalfABatch(Changed):
    def record_attempts(self, rows: Sequence[Row]) -> None:
        for row in rows:
            super().record_attempts([row])


class ShowsHalfABatch(Changed):
    """A batch is whole once somebody has looked at half of it."""

    looked = threading.Event()

    def record_attempts(self, rows: Sequence[Row]) -> None:
        super().record_attempts(rows[:3])
        self.looked.clear()
        self.looked.wait(5.0)
        super().record_attempts(rows[3:])

    def query_recent(self, **filters: Any) -> list[Row]:
        rows = super().query_recent(**filters)
        self.looked.set()
        return rows


class AnswersTwice(Changed):
    def answer(self, sums: list[ScoreAggregate]) -> list[ScoreAggregate]:
        return [*sums, *sums[:1]]


class AnswersOfThoseItKnows(Changed):
    def answer(self, sums: list[ScoreAggregate]) -> list[ScoreAggregate]:
        return [one for one in sums if one.attempt_weight]


class AnswersByName(Changed):
    def answer(self, sums: list[ScoreAggregate]) -> list[ScoreAggregate]:
        return sorted(sums, key=lambda one: one.provider_id)


class ReadsItsOwnClock(Changed):
    def asked(self, query: ScoreAggregateQuery) -> ScoreAggregateQuery:
        return replace(query, reference=datetime(2031, 1, 1, tzinfo=UTC))


class HasRowsOfTheFutureWeighMore(Changed):
    def asked(self, query: ScoreAggregateQuery) -> ScoreAggregateQuery:
        return replace(query, reference=query.reference + timedelta(hours=10))

    def added(self, sums: ScoreAggregate) -> ScoreAggregate:
        grown = 2.0**5
        return replace(
            sums,
            attempt_weight=sums.attempt_weight * grown,
            success_weight=sums.success_weight * grown,
            successful_latency_weight=sums.successful_latency_weight * grown,
            successful_latency_total_ms=sums.successful_latency_total_ms * grown,
        )


class DecaysCounts(Changed):
    def added(self, sums: ScoreAggregate) -> ScoreAggregate:
        return replace(
            sums, recent_error_count=round(sums.attempt_weight - sums.success_weight), rate_limit_count=0
        )


class TakesNoModelForAny(Changed):
    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[ScoreAggregate]:
        any_model = {one.provider_id for one in query.partitions if one.model is None}
        rows = [
            row._replace(model=None) if row.provider_id in any_model else row for row in self._rows.values()
        ]
        return aggregates_of(rows, query)


class MixesScopes(Changed):
    def asked(self, query: ScoreAggregateQuery) -> ScoreAggregateQuery:
        return replace(query, metrics_scope=None)


class RoundsLatencies(Changed):
    def kept(self, row: Row) -> Row:
        if row.latency_ms is None:
            return row
        return row._replace(latency_ms=struct.unpack("f", struct.pack("f", row.latency_ms))[0])


class CutsTimesShort(Changed):
    def kept(self, row: Row) -> Row:
        return row._replace(
            started_at=row.started_at.replace(microsecond=row.started_at.microsecond // 1000 * 1000)
        )


class ForgetsTheTimeZone(Changed):
    def found(self, row: Row) -> Row:
        return row._replace(started_at=row.started_at.replace(tzinfo=None))


class SaysOneForTrue(Changed):
    def found(self, row: Row) -> Row:
        one_or_zero: Any = None if row.success is None else int(row.success)
        return row._replace(success=one_or_zero)


class TakesUnknownForZero(Changed):
    def found(self, row: Row) -> Row:
        return row._replace(input_tokens=row.input_tokens or 0)


class NewestFirst(Changed):
    def query_recent(self, **filters: Any) -> list[Row]:
        return super().query_recent(**filters)[::-1]


class LivesOn(Changed):
    def close(self) -> None:
        """Not even now."""


HISTORY: Final = "test_any_history_adds_up_as_plain_python_has_it"
REPLAYED: Final = "test_a_replayed_batch_changes_nothing"
EVERY_COLUMN: Final = "test_every_column_comes_back_as_it_went_in"
EXACT_TIMES: Final = "test_times_are_exact_to_the_microsecond_and_come_back_in_utc"
HALF_LIFE: Final = "test_a_row_weighs_half_after_each_half_life_and_one_after_the_reference"
IN_ORDER: Final = "test_every_provider_asked_for_gets_one_answer_in_the_order_of_asking"

#: Each of the tests named, with each of its parameters, has to fail.
SEEN_BY: Final[Mapping[type[Changed], Sequence[str]]] = {
    DropsTheBoundary: ["test_a_row_of_the_very_time_asked_for_counts_and_an_earlier_one_does_not", HISTORY],
    CountsIgnored: ["test_what_was_ignored_says_nothing", HISTORY],
    AveragesOverAllSuccesses: ["test_an_average_knows_only_successes_whose_latency_is_known"],
    KeepsReplays: [REPLAYED, "test_a_replayed_row_is_counted_once"],
    TheLastWins: [REPLAYED, "test_the_first_of_two_rows_with_one_identity_in_a_batch_is_kept"],
    KeepsHalfABatch: ["test_one_bad_row_keeps_its_whole_batch_out_and_no_other"],
    ShowsHalfABatch: ["test_readers_see_whole_batches_while_a_writer_writes"],
    AnswersTwice: ["test_no_history_is_zeros_and_no_question_nothing", IN_ORDER],
    AnswersOfThoseItKnows: ["test_no_history_is_zeros_and_no_question_nothing", IN_ORDER],
    AnswersByName: [IN_ORDER],
    ReadsItsOwnClock: [HALF_LIFE],
    HasRowsOfTheFutureWeighMore: [HALF_LIFE, HISTORY],
    DecaysCounts: ["test_rows_of_thousands_of_half_lives_ago_weigh_nothing_and_are_counted"],
    TakesNoModelForAny: ["test_without_a_model_or_protocol_means_rows_without_them_only", HISTORY],
    MixesScopes: ["test_only_the_scope_asked_for_counts_and_every_one_where_none_is", HISTORY],
    RoundsLatencies: [HISTORY],
    CutsTimesShort: [EXACT_TIMES, EVERY_COLUMN],
    ForgetsTheTimeZone: [EXACT_TIMES],
    SaysOneForTrue: [EVERY_COLUMN],
    TakesUnknownForZero: ["test_what_is_unknown_comes_back_unknown_beside_rows_that_know"],
    NewestFirst: ["test_rows_come_back_oldest_first"],
    LivesOn: ["test_a_closed_store_may_be_closed_again_and_refuses_every_use"],
}
