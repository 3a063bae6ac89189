"""Rows turned on their side: the values of one column at a time, at the speed of C."""

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from turnout.calls import EPOCH, MICROSECOND
from turnout.errors import StorageError
from turnout.storage.attempts import AttemptRows
from turnout.storage.rows import Row

COLUMNS: Final = Row._fields
# Few combinations of these occur in a batch, so each combination is handed to a database once.
LABELS: Final = (
    "attempt_number",
    "reason",
    "metrics_scope",
    "provider_id",
    "provider_name",
    "model",
    "protocol",
    "call_type",
    "success",
    "outcome",
    "fault",
    "stream_opened",
    "billing_state",
    "http_status",
    "error_code",
)
IDENTITIES: Final = ("attempt_id", "invocation_id")
_UUID_LENGTH: Final = 36
_UUID_DASHES: Final = (8, 13, 18, 23)
_KEY_BYTES: Final = 16
_labels_of: Final = attrgetter(*LABELS)
_GETTERS: Final = {name: attrgetter(name) for name in COLUMNS}
_NUMBERS: Final = frozenset(
    name
    for name, kind in Row.__annotations__.items()
    if kind is float or float in getattr(kind, "__args__", ())
)


def column(rows: Sequence[Row], name: str) -> list[Any]:
    """One value a row. Times are microseconds since 1970 UTC; a number that is not finite raises ``StorageError``."""
    if isinstance(rows, AttemptRows):
        return rows.column(name)
    values: list[Any] = list(map(_GETTERS[name], rows))
    if name == "started_at":
        return [(moment - EPOCH) // MICROSECOND for moment in values]
    if name in _NUMBERS:
        _refuse_unbounded(name, values)
    return values


def identities(rows: Sequence[Row], name: str) -> bytes:
    """One of ``IDENTITIES`` of each row, as 16 bytes each; a text that is no UUID raises ``StorageError``."""
    if isinstance(rows, AttemptRows):
        return rows.identities(name)
    try:
        texts = column(rows, name)
        together = "".join(texts)
        # All in their usual form: dashes where they belong, and between them nothing but digits.
        if set(map(len, texts)) == {_UUID_LENGTH} and all(
            together[dash::_UUID_LENGTH] == "-" * len(texts) for dash in _UUID_DASHES
        ):
            keys = bytes.fromhex(together.replace("-", ""))
            # Shorter where there were more dashes, or spaces, among them.
            if len(keys) == _KEY_BYTES * len(texts):
                return keys
        return b"".join([UUID(text).bytes for text in texts])
    except (AttributeError, TypeError, ValueError) as error:
        raise StorageError(f"a row whose {name} is not a UUID cannot be kept") from error


def labelled(rows: Sequence[Row]) -> tuple[list[int], list[tuple[Any, ...]]]:
    """For each row the place of its combination of ``LABELS`` in the list of combinations, and that list."""
    if isinstance(rows, AttemptRows):
        kinds, firsts = rows.kinds()
        return kinds, [_labels_of(row) for row in firsts]
    places: dict[tuple[Any, ...], int] = {}
    place = places.setdefault
    return [place(labels, len(places)) for labels in map(_labels_of, rows)], list(places)


def _refuse_unbounded(name: str, values: Iterable[float | None]) -> None:
    # One sum finds almost every good column good; only a sum that overflowed needs the second look.
    if math.isfinite(sum(filter(None, values))):
        return
    if not all(value is None or math.isfinite(value) for value in values):
        raise StorageError(f"a row whose {name} is not finite cannot be kept")
