"""Rows turned on their side: the values of one column at a time, at the speed of C."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from turnout.errors import StorageError
from turnout.storage.filters import EPOCH, MICROSECOND
from turnout.storage.rows import Row

COLUMNS: Final = tuple(field.name for field in fields(Row))
WIDTH: Final = len(COLUMNS)
_GETTERS: Final = {name: attrgetter(name) for name in COLUMNS}
_NUMBERS: Final = frozenset(
    name
    for name, kind in Row.__annotations__.items()
    if kind is float or float in getattr(kind, "__args__", ())
)


def column(rows: Sequence[Row], name: str) -> list[Any]:
    """One value a row. Times are microseconds since 1970 UTC; a number that is not finite raises ``StorageError``."""
    values: list[Any] = list(map(_GETTERS[name], rows))
    if name == "started_at":
        return [(moment - EPOCH) // MICROSECOND for moment in values]
    if name in _NUMBERS:
        _refuse_unbounded(name, values)
    return values


def _refuse_unbounded(name: str, values: Iterable[float | None]) -> None:
    # One sum finds almost every good column good; only a sum that overflowed needs the second look.
    if math.isfinite(sum(filter(None, values))):
        return
    if not all(value is None or math.isfinite(value) for value in values):
        raise StorageError(f"a row whose {name} is not finite cannot be kept")
