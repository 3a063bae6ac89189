"""Attempts as rows: one by one for those who read them so, and by columns for stores that are quick about it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, overload

from turnout.calls import Attempt
from turnout.ids import id_text
from turnout.storage.rows import Row, code_of, count_of, row_of

_MICROSECONDS: Final = 1_000_000


class AttemptRows(Sequence[Row]):
    """The rows of some attempts of one metrics scope. A row is made when it is asked for.

    A column is made from all attempts at once, which takes a third of the time that rows take on the way.
    """

    def __init__(self, attempts: Sequence[Attempt], metrics_scope: str) -> None:
        self._attempts = attempts
        self._scope = metrics_scope

    def __len__(self) -> int:
        return len(self._attempts)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> "AttemptRows": ...
    def __getitem__(self, place: int | slice) -> "Row | AttemptRows":
        if isinstance(place, slice):
            return AttemptRows(self._attempts[place], self._scope)
        return row_of(self._attempts[place], self._scope)

    def column(self, name: str) -> list[Any]:
        """One value a row, as ``turnout.storage.columns.column`` gives it."""
        make = _COLUMNS.get(name)
        return [getattr(row, name) for row in self] if make is None else make(self._fields)

    def identities(self, name: str) -> bytes:
        """``attempt_id`` or ``invocation_id`` of each row, as 16 bytes each."""
        return b"".join([key.to_bytes(16, "big") for key in self._fields[_KEYS[name]]])

    def kinds(self) -> tuple[list[int], list[Row]]:
        """For each row the number of its kind, and one row of each kind: rows of a kind differ only in what
        ``column`` gives at once."""
        fields = self._fields
        # Identities and members of an Enum are told apart by what they are, not by a hash that Python computes.
        told_apart: list[Sequence[Any]] = [
            fields["number"],
            [*map(id, fields["reason"])],
            [*map(id, fields["by"])],
            [*map(id, fields["call_type"])],
            [*map(id, fields["outcome"])],
            [*map(id, fields["fault"])],
            fields["stream_opened"],
            # As they will be kept: what a provider sent may be anything, and equal to what it is not.
            [None if status is None else count_of(status) for status in fields["http_status"]],
            [None if code is None else code_of(code) for code in fields["error_code"]],
        ]
        # Most are the same throughout a batch, which is found out sooner than every row is told apart by them.
        varying = [values for values in told_apart if values.count(values[0]) < len(values)]
        if not varying:
            return [0] * len(self), [self[0]]
        numbers: dict[tuple[Any, ...], int] = {}
        number = numbers.setdefault
        places = [number(kind, len(numbers)) for kind in zip(*varying, strict=True)]
        firsts: dict[int, Row] = {}
        for kind in range(len(numbers)):
            firsts[kind] = self[places.index(kind)]
        return places, list(firsts.values())

    @cached_property
    def _fields(self) -> dict[str, Sequence[Any]]:
        return dict(zip(Attempt._fields, zip(*self._attempts, strict=True), strict=True))


Fields = dict[str, Sequence[Any]]


def _milliseconds(name: str) -> Callable[[Fields], list[Any]]:
    return lambda fields: [seconds * 1000.0 for seconds in fields[name]]


def _latency(fields: Fields) -> list[float | None]:
    return [
        whole * 1000.0 if opened is None else None if first is None else first * 1000.0
        for whole, opened, first in zip(
            fields["elapsed_seconds"], fields["stream_opened"], fields["first_seconds"], strict=True
        )
    ]


def _began(fields: Fields) -> list[int]:
    return [
        int(began // 1.0) * _MICROSECONDS + round(began % 1.0 * _MICROSECONDS) for began in fields["began"]
    ]


def _tokens(name: str) -> Callable[[Fields], list[Any]]:
    return lambda fields: [
        None if usage is None else count_of(getattr(usage, name)) for usage in fields["usage"]
    ]


_KEYS: Final = {"attempt_id": "key", "invocation_id": "invocation_key"}
_COLUMNS: Final[dict[str, Callable[[Fields], list[Any]]]] = {
    "attempt_id": lambda fields: [id_text(key) for key in fields["key"]],
    "invocation_id": lambda fields: [id_text(key) for key in fields["invocation_key"]],
    "started_at": _began,
    "latency_ms": _latency,
    "total_duration_ms": _milliseconds("elapsed_seconds"),
    "queue_ms": _milliseconds("queue_seconds"),
    "input_tokens": _tokens("input_tokens"),
    "cached_tokens": _tokens("cached_tokens"),
    "output_tokens": _tokens("output_tokens"),
    "cost_usd": lambda fields: [None] * len(fields["key"]),
}
