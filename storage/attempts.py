"""Attempts as rows: one by one for those who read them so, and by columns for stores that are quick about it."""

from collections.abc import Callable, Sequence
from typing import Any, Final, overload

from turnout.attempts import WIDTH, Attempts
from turnout.calls import Attempt
from turnout.ids import id_text
from turnout.storage.rows import Row, code_of, count_of, row_of

Fields = dict[str, Sequence[Any]]


class AttemptRows(Sequence[Row]):
    """The rows of some attempts of one metrics scope. A row is made when it is asked for.

    A column is made from all attempts at once, which takes a third of the time that rows take on the way.
    """

    def __init__(self, attempts: Sequence[Attempt], metrics_scope: str) -> None:
        self._attempts = Attempts.of(attempts)
        self._scope = metrics_scope
        self._by_name: Fields | None = None

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
        # Most are the same throughout a batch, which is found out sooner than every row is told apart by them.
        varying = [fields[name] for name in ("number", "stream_opened") if _vary(fields[name])]
        # Members of an Enum and identities are told apart by what they are, not by a hash that Python computes.
        members = [
            fields[name] for name in ("reason", "call_type", "outcome", "fault") if _vary(fields[name])
        ]
        varying += [[*map(id, values)] for values in members]
        if _vary(identities := [*map(id, fields["by"])]):
            varying.append(identities)
        # As they will be kept: what a provider sent may be anything, and equal to what it is not.
        for name, kept in (("http_status", count_of), ("error_code", code_of)):
            if fields[name].count(None) < len(self):
                varying.append([*map(kept, fields[name])])
        if not varying:
            return [0] * len(self), [self[0]]
        numbers: dict[tuple[Any, ...], int] = {}
        number = numbers.setdefault
        places = [number(kind, len(numbers)) for kind in zip(*varying, strict=True)]
        firsts: dict[int, Row] = {}
        for kind in range(len(numbers)):
            firsts[kind] = self[places.index(kind)]
        return places, list(firsts.values())

    @property
    def _fields(self) -> Fields:
        # No cached_property: before Python 3.12 all of a class share a lock, which a forked child may find held.
        if self._by_name is None:
            self._by_name = self._cut()
        return self._by_name

    def _cut(self) -> Fields:
        values = self._attempts.values
        return {name: values[place::WIDTH] for place, name in enumerate(Attempt._fields)}


def _vary(values: Sequence[Any]) -> bool:
    return values.count(values[0]) < len(values)


def _milliseconds(name: str) -> Callable[[Fields], list[Any]]:
    return lambda fields: [seconds * 1000.0 for seconds in fields[name]]


def _latency(fields: Fields) -> list[float | None]:
    return [
        whole * 1000.0 if opened is None else None if first is None else first * 1000.0
        for whole, opened, first in zip(
            fields["elapsed_seconds"], fields["stream_opened"], fields["first_seconds"], strict=True
        )
    ]


def _tokens(name: str) -> Callable[[Fields], list[Any]]:
    return lambda fields: [
        None if usage is None else count_of(getattr(usage, name)) for usage in fields["usage"]
    ]


_KEYS: Final = {"attempt_id": "key", "invocation_id": "invocation_key"}
_COLUMNS: Final[dict[str, Callable[[Fields], list[Any]]]] = {
    "attempt_id": lambda fields: [id_text(key) for key in fields["key"]],
    "invocation_id": lambda fields: [id_text(key) for key in fields["invocation_key"]],
    "started_at": lambda fields: [round(began * 1e6) for began in fields["began"]],
    "latency_ms": _latency,
    "total_duration_ms": _milliseconds("elapsed_seconds"),
    "queue_ms": _milliseconds("queue_seconds"),
    "input_tokens": _tokens("input_tokens"),
    "cached_tokens": _tokens("cached_tokens"),
    "output_tokens": _tokens("output_tokens"),
    "cost_usd": lambda fields: [None] * len(fields["key"]),
}
