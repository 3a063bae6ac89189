"""Rows in the binary format of PostgreSQL's COPY, laid out by columns.

The driver's writer looks at each of the 25 values of each row, and takes a number that is too large for its column as
another number. Here what a row has for itself is one ``pack``, what it shares with others is encoded once, and a value
that does not fit is an error.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final

from turnout.errors import StorageError
from turnout.storage.columns import COLUMNS, IDENTITIES, LABELS, column, identities, labelled
from turnout.storage.rows import Row

#: What is always known comes first, so that it becomes one ``pack``.
_KNOWN: Final = ("attempt_id", "invocation_id", "started_at", "total_duration_ms", "queue_ms")
_OWN: Final = (*_KNOWN, *(name for name in COLUMNS if name not in LABELS and name not in _KNOWN))
COPIED: Final = (*_OWN, *LABELS)
#: The server inserts one chunk while the next is laid out.
_CHUNK_ROWS: Final = 250

#: Signature, no flags, no header extension.
_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER: Final = b"\xff\xff"
_NULL: Final = -1
_NULL_FIELD: Final = b"\xff\xff\xff\xff"
#: PostgreSQL counts its microseconds from the year 2000 on.
_YEAR_2000: Final = 946_684_800_000_000
_WIDTHS: Final = {"16s": 16, "q": 8, "d": 8, "i": 4, "?": 1}
_TEXT: Final = "text"


def copy_data(rows: Sequence[Row]) -> Iterator[bytes]:
    """What to send for ``COPY provider_attempts (<COPIED>) FROM STDIN (FORMAT binary)``, in chunks.

    Raises ``StorageError`` for a value that its column does not take.
    """
    yield _HEADER
    for start in range(0, len(rows), _CHUNK_ROWS):
        try:
            yield _chunk(rows[start : start + _CHUNK_ROWS])
        except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
            raise StorageError(
                f"a row with a value that its column does not take cannot be kept: {error}"
            ) from error
    yield _TRAILER


def _chunk(rows: Sequence[Row]) -> bytes:
    parts: list[Iterable[bytes]] = []
    # A run of columns that each are all values or all null is one pack.
    code: str = "h"
    arguments: list[Iterable[Any]] = [repeat(len(COPIED))]
    for name in _OWN:
        values, nulls = _values(rows, name)
        kind = _CODES[name]
        if not nulls:
            code += f"i{kind}"
            arguments += [repeat(_WIDTHS[kind]), values]
        elif nulls == len(rows):
            code += "i"
            arguments.append(repeat(_NULL))
        else:
            pack, width = _FIELDS[kind].pack, _WIDTHS[kind]
            field = [_NULL_FIELD if value is None else pack(width, value) for value in values]
            parts += [*_packed(code, arguments), field]
            code, arguments = "", []
    parts += _packed(code, arguments)
    places, combinations = labelled(rows)
    shared = [_encoded(labels) for labels in combinations]
    parts.append([shared[place] for place in places])
    return b"".join(chain.from_iterable(zip(*parts, strict=False)))


def _packed(code: str, arguments: list[Iterable[Any]]) -> list[Iterable[bytes]]:
    return [map(_struct(f">{code}").pack, *arguments)] if code else []


def _values(rows: Sequence[Row], name: str) -> tuple[Iterable[Any], int]:
    """The values of a column, and how many of them are null."""
    if name in IDENTITIES:
        return chain.from_iterable(_SIXTEENS.iter_unpack(identities(rows, name))), 0
    values = column(rows, name)
    if name == "started_at":
        return [moment - _YEAR_2000 for moment in values], 0
    return values, values.count(None)


@lru_cache(maxsize=1024)
def _encoded(labels: tuple[Any, ...]) -> bytes:
    return b"".join([_field(_CODES[name], value) for name, value in zip(LABELS, labels, strict=True)])


def _field(code: str, value: Any) -> bytes:
    if value is None:
        return _NULL_FIELD
    if code == _TEXT:
        encoded: bytes = value.encode()
        return _LENGTH.pack(len(encoded)) + encoded
    if code == "?" and value not in (True, False):
        raise TypeError(f"{value!r} is neither true nor false")
    return _FIELDS[code].pack(_WIDTHS[code], value)


def _code(name: str) -> str:
    """How the values of a column are packed; see ``postgres_0001.sql``."""
    if name in IDENTITIES:
        return "16s"
    if name in ("attempt_number", "http_status"):
        return "i"
    kind = str(Row.__annotations__[name])
    words = (("datetime", "q"), ("bool", "?"), ("float", "d"), ("int", "q"))
    return next((code for word, code in words if word in kind), _TEXT)


# Of each there are few, batch after batch.
_struct: Final = lru_cache(maxsize=64)(struct.Struct)
_CODES: Final = {name: _code(name) for name in COLUMNS}
_FIELDS: Final = {code: struct.Struct(f">i{code}") for code in _WIDTHS}
_LENGTH: Final = struct.Struct(">i")
_SIXTEENS: Final = struct.Struct("16s")
