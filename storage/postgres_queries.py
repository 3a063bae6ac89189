"""What the store on PostgreSQL asks for, as SQL and its parameters."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from turnout.calls import EPOCH, MICROSECOND
from turnout.decisions.aggregates import SECONDS_PER_HOUR, ScoreAggregateQuery
from turnout.faults import Fault
from turnout.storage.columns import COLUMNS, IDENTITIES, LABELS, column, identities, labelled
from turnout.storage.filters import Filters
from turnout.storage.postgres_copy import COPIED
from turnout.storage.rows import Row


class Statement(NamedTuple):
    sql: bytes
    parameters: Sequence[Any] | Mapping[str, Any]


COPY: Final = f"COPY provider_attempts ({', '.join(COPIED)}) FROM STDIN (FORMAT binary)".encode()

PAGE_ROWS: Final = 4_096
_STARTED: Final = COLUMNS.index("started_at")
_READ: Final = ", ".join(
    {
        "attempt_id": "attempt_id::text",
        "invocation_id": "invocation_id::text",
        "started_at": "(extract(epoch FROM started_at) * 1000000)::bigint",
    }.get(name, name)
    for name in COLUMNS
)


def recent(wanted: Filters) -> Statement:
    """Rows as ``row_of_values`` takes them, oldest first."""
    equal = wanted.equal
    where = " AND ".join(["started_at >= %s", *(f"{name} = %s" for name in equal)])
    sql = f"SELECT {_READ} FROM provider_attempts WHERE {where} ORDER BY started_at, provider_attempts.attempt_id"
    return Statement(sql.encode(), [wanted.since, *map(str, equal.values())])


def page(wanted: Filters, after: Row | None) -> Statement:
    """The first ``PAGE_ROWS`` of the rows wanted that come after that one."""
    equal = wanted.equal
    where = ["started_at >= %s", *(f"{name} = %s" for name in equal)]
    values: list[Any] = [wanted.since if after is None else after.started_at, *map(str, equal.values())]
    if after is not None:
        where.append("(started_at, provider_attempts.attempt_id) > (%s, %s::uuid)")
        values += [after.started_at, after.attempt_id]
    if wanted.until is not None:
        where.append("started_at < %s")
        values.append(wanted.until)
    sql = (
        f"SELECT {_READ} FROM provider_attempts WHERE {' AND '.join(where)} "
        f"ORDER BY started_at, provider_attempts.attempt_id LIMIT {PAGE_ROWS}"
    )
    return Statement(sql.encode(), values)


def row_of_values(values: tuple[Any, ...]) -> Row:
    started = EPOCH + values[_STARTED] * MICROSECOND
    return Row._make((*values[:_STARTED], started, *values[_STARTED + 1 :]))


def insert(rows: Sequence[Row]) -> Statement:
    """Keeps those of ``rows`` whose ``attempt_id`` is not kept yet, the first of two that share one."""
    places, combinations = labelled(rows)
    shared = dict(zip(LABELS, zip(*combinations, strict=True), strict=True))
    values = [
        [shared[name][place] for place in places] if name in shared else _own(rows, name) for name in COLUMNS
    ]
    return Statement(_INSERT, values)


def _own(rows: Sequence[Row], name: str) -> list[Any]:
    if name not in IDENTITIES:
        return column(rows, name)
    digits = identities(rows, name).hex()
    return [digits[start : start + 32] for start in range(0, len(digits), 32)]


def _type(name: str) -> str:
    kind = str(Row.__annotations__[name])
    words = (("datetime", "bigint"), ("bool", "boolean"), ("float", "float8"), ("int", "bigint"))
    return "uuid" if name in IDENTITIES else next((code for word, code in words if word in kind), "text")


_INSERT: Final = (
    f"INSERT INTO provider_attempts ({', '.join(COLUMNS)}) SELECT "
    + ", ".join(
        "timestamptz 'epoch' + started_at * interval '1 microsecond'" if name == "started_at" else name
        for name in COLUMNS
    )
    + f" FROM unnest({', '.join(f'%s::{_type(name)}[]' for name in COLUMNS)}) WITH ORDINALITY"
    + f" AS replayed ({', '.join(COLUMNS)}, place) ORDER BY place ON CONFLICT (attempt_id) DO NOTHING"
).encode()

#: What is older than so many half-lives weighs nothing: a result that is no normal number any more is an error here.
_MOST_HALVINGS: Final = 1000.0
_AGE: Final = "greatest(date_part('epoch', %(reference)s::timestamptz - started_at), 0)"
_HALVED: Final = (
    f"CASE WHEN {_AGE} > %(oldest)s::float8 THEN 0 "
    f"ELSE power(0.5::float8, {_AGE} / %(half_life)s::float8) END"
)
_SUMS: Final = {
    "attempts": "sum(weight)",
    "successes": "sum(weight) FILTER (WHERE success)",
    "timed": "sum(weight) FILTER (WHERE success AND latency_ms IS NOT NULL)",
    "total_ms": "sum(weight * latency_ms) FILTER (WHERE success AND abs(latency_ms) > 1e-20)",
    "errors": "count(*) FILTER (WHERE NOT success)",
    "rate_limits": f"count(*) FILTER (WHERE NOT success AND fault = '{Fault.RATE_LIMIT}')",
    "timeouts": f"count(*) FILTER (WHERE NOT success AND fault = '{Fault.TIMEOUT}')",
}


def score_sums(query: ScoreAggregateQuery) -> Statement:
    """One row for each partition, in their order: what ``ScoreAggregate`` holds besides the provider's id."""
    weight = "1::float8" if query.half_life_hours is None else _HALVED
    half_life_seconds = (query.half_life_hours or 0.0) * SECONDS_PER_HOUR
    scope = "" if query.metrics_scope is None else "AND metrics_scope = %(scope)s"
    # Grouped by its own columns the table is read once and added up as it comes. Joined first with what is asked, its
    # rows would be sorted, on disk where they are many: the planner knows nothing of a list. And no index serves IS NOT
    # DISTINCT FROM.
    sql = f"""
        SELECT {", ".join(f"coalesce({name}, 0)" for name in _SUMS)}
        FROM unnest(%(ids)s::text[], %(models)s::text[], %(protocols)s::text[]) WITH ORDINALITY
            AS asked (asked_id, asked_model, asked_protocol, place)
        LEFT JOIN (
            SELECT provider_id, model, protocol, {", ".join(f"{sql} AS {name}" for name, sql in _SUMS.items())}
            FROM (
                SELECT provider_id, model, protocol, success, fault, latency_ms, {weight} AS weight
                FROM provider_attempts
                WHERE provider_id = ANY (%(ids)s::text[]) AND call_type = %(call_type)s
                    AND started_at >= %(since)s AND success IS NOT NULL {scope}
            ) AS weighed
            GROUP BY provider_id, model, protocol
        ) AS counted
            ON provider_id = asked_id AND model IS NOT DISTINCT FROM asked_model
            AND protocol IS NOT DISTINCT FROM asked_protocol
        ORDER BY place
    """
    ids, models, protocols = zip(*query.partitions, strict=True)
    parameters = {
        "ids": _texts(ids),
        "models": _texts(models),
        "protocols": _texts(protocols),
        "call_type": query.call_type.value,
        "since": query.since,
        "reference": query.reference,
        "half_life": half_life_seconds,
        "oldest": half_life_seconds * _MOST_HALVINGS,
        "scope": query.metrics_scope,
    }
    return Statement(sql.encode(), parameters)


def _texts(parts: Sequence[str | None]) -> list[str | None]:
    # Members of a StrEnum are texts that the driver takes for something else.
    return [None if part is None else str(part) for part in parts]
