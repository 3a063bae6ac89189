"""One statement for the sums that scores are made from, in the words of each database."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from turnout.calls import EPOCH, MICROSECOND
from turnout.decisions.aggregates import SECONDS_PER_HOUR, Partition, ScoreAggregate, ScoreAggregateQuery
from turnout.faults import Fault

_MICROSECONDS_PER_HOUR: Final = SECONDS_PER_HOUR * 1e6
_READ: Final = "place, success, fault, latency_ms"
_ONE: Final = "CAST(1 AS DOUBLE PRECISION)"


def _power_series() -> str:
    """``0.5 ** halvings``, but for the last digit, in plain arithmetic: shifts for its whole part, and for the rest
    (from -0.5 to 0.5) the series of the exponential."""
    whole = "CAST(halvings + 0.5 AS INTEGER)"
    shifts = [f"(1.0 / (1 << min(max({whole} - {step}, 0), 62)))" for step in range(0, 1101, 62)]
    series = "1.0"
    for term in range(13, 0, -1):
        series = f"1.0 - (halvings - {whole}) * {math.log(2) / term!r} * ({series})"
    return f"CASE WHEN {whole} < 62 THEN {shifts[0]} ELSE {' * '.join(shifts)} END * ({series})"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one database says in its own way.

    ``text`` is a parameter that may be NULL, ``same`` an equality that NULL has with NULL, ``since`` a parameter in
    microseconds where ``started_at`` is compared with it. ``halvings`` is a row's age in half-lives, of two parameters
    in microseconds, and ``halved`` what it then weighs. ``total`` adds up; ``apart`` has a subquery worked out once.
    """

    text: str
    same: str
    since: str
    halvings: str
    halved: str
    total: str
    apart: str


DUCKDB: Final = Dialect(
    text="?::VARCHAR",
    same="IS NOT DISTINCT FROM",
    since="make_timestamptz(?)",
    halvings="least(greatest(? - epoch_us(started_at), 0) / ?, 1100.0)",
    halved="pow(0.5, halvings)",
    total="fsum",
    apart="",
)
SQLITE: Final = Dialect(
    text="?",
    same="IS",
    since="?",
    halvings="min(max(? - started_at, 0) / ?, 1100.0)",
    halved="pow(0.5, halvings)",
    # Before SQLite 3.43 this adds plainly, which a million weights or latencies put off by 1.1e-10 of itself at most.
    total="sum",
    apart="LIMIT -1 OFFSET 0",
)
#: Not every build of SQLite has pow(). A function in Python in its place takes the GIL for every row: beside one busy
#: thread that was 1.3 ms a row. The series takes 1 microsecond.
SQLITE_WITHOUT_POW: Final = Dialect(
    SQLITE.text, SQLITE.same, SQLITE.since, SQLITE.halvings, _power_series(), SQLITE.total, SQLITE.apart
)


def score_statement(query: ScoreAggregateQuery, say: Dialect) -> tuple[str, list[Any]]:
    """The statement that answers ``query``, which asks for one provider at least, and its parameters. It gives one row
    for each partition, in their order: what ``ScoreAggregate`` holds besides the provider's id."""
    asked = ", ".join(f"({place}, {', '.join([say.text] * 3)})" for place in range(len(query.partitions)))
    parameters: list[Any] = [_text(part) for partition in query.partitions for part in partition]
    halvings, weight = _ONE, _ONE
    if query.half_life_hours is not None:
        halvings, weight = say.halvings, say.halved
        parameters += [_microseconds(query.reference), query.half_life_hours * _MICROSECONDS_PER_HOUR]
    scope = ""
    parameters += [query.call_type.value, _microseconds(query.since)]
    if query.metrics_scope is not None:
        scope = "AND metrics_scope = ?"
        parameters.append(query.metrics_scope)
    return (
        f"""
        WITH asked (place, asked_id, asked_model, asked_protocol) AS (VALUES {asked})
        SELECT
            coalesce({say.total}(CASE WHEN success IS NOT NULL THEN weight END), 0.0),
            coalesce({say.total}(CASE WHEN success THEN weight END), 0.0),
            coalesce({say.total}(CASE WHEN success AND latency_ms IS NOT NULL THEN weight END), 0.0),
            coalesce({say.total}(CASE WHEN success THEN weight * latency_ms END), 0.0),
            count(CASE WHEN NOT success THEN 1 END),
            count(CASE WHEN NOT success AND fault = '{Fault.RATE_LIMIT}' THEN 1 END),
            count(CASE WHEN NOT success AND fault = '{Fault.TIMEOUT}' THEN 1 END)
        FROM (
            SELECT {_READ}, {weight} AS weight
            FROM (
                SELECT {_READ}, {halvings} AS halvings
                FROM asked LEFT JOIN provider_attempts
                    ON provider_id = asked_id AND model {say.same} asked_model AND protocol {say.same} asked_protocol
                    AND call_type = ? AND started_at >= {say.since} {scope}
                {say.apart}
            ) AS aged
            {say.apart}
        ) AS weighed
        GROUP BY place ORDER BY place
        """,
        parameters,
    )


def score_aggregates(partitions: Sequence[Partition], sums: Iterable[Sequence[Any]]) -> list[ScoreAggregate]:
    """What the statement found, each under its provider's id."""
    return [
        ScoreAggregate(partition.provider_id, *found)
        for partition, found in zip(partitions, sums, strict=True)
    ]


def _text(part: str | None) -> str | None:
    # Members of a StrEnum are texts that not every driver takes for one.
    return None if part is None else str(part)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND
