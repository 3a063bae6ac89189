"""Spans of time that hold about as many rows each, so that rows can be read in order and in bounded memory.

DuckDB sorts whatever a statement is to give in order before it gives the first row, and finds no page by its key.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROWS: Final = 16_384
#: Microseconds. Where a minute holds too many rows, it is cut into seconds, and so on.
_WIDEST: Final = 60_000_000
_CUT_INTO: Final = 60


class Span(NamedTuple):
    """From a moment up to, but not including, another: microseconds since 1970, UTC; None has no end."""

    start: int
    end: int | None


def spans(
    cursor: "DuckDBPyConnection", whole: Span, where: str, values: Sequence[Any], width: int = _WIDEST
) -> Iterator[Span]:
    """Spans that follow one another and make up ``whole``. ``where`` and its ``values`` say which rows count."""
    starts = cursor.execute(
        f"""
        SELECT min(bucket) * {width}, sum(attempts)
        FROM (
            SELECT bucket, attempts, (sum(attempts) OVER (ORDER BY bucket) - attempts) // {_ROWS} AS slice
            FROM (
                SELECT epoch_us(started_at) // {width} AS bucket, count(*) AS attempts
                FROM provider_attempts WHERE {where} AND {between(whole)} GROUP BY bucket
            )
        )
        GROUP BY slice ORDER BY slice
        """,
        [*values, *known(whole)],
    ).fetchall()
    # The first begins where the whole does, each ends where the next begins: no moment is left out.
    begins = [whole.start, *(start for start, _ in starts[1:])]
    ends = [*begins[1:], whole.end]
    for (_, rows), start, end in zip(starts, begins, ends, strict=False):
        span = Span(start, end)
        if rows > 2 * _ROWS and width > 1:
            yield from spans(cursor, span, where, values, max(width // _CUT_INTO, 1))
        else:
            yield span


def between(span: Span) -> str:
    """The condition that a row started within ``span``, for the values that ``known`` gives."""
    start = "started_at >= make_timestamptz(?)"
    return start if span.end is None else f"{start} AND started_at < make_timestamptz(?)"


def known(span: Span) -> list[int]:
    return [moment for moment in span if moment is not None]
