"""Rows as lines of text that carry their own checksums, so that one bad line never costs the good ones.

A line is the CRC-32 of a JSON text in 8 hexadecimal digits, a space, that text, and a newline; all of it is ASCII. The
first line's JSON is an object: ``format``, ``version``, and the names of the ``fields``. Every other line's is an array
of one row's values in the order of those fields: ``started_at`` in whole microseconds since 1970 UTC, numbers exact.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, NoReturn
from zlib import crc32

from turnout.calls import EPOCH, MICROSECOND
from turnout.errors import StorageError
from turnout.storage.columns import COLUMNS, LABELS, column, labelled
from turnout.storage.rows import Row
from turnout.storage.spool_fields import CHECKS, REQUIRED, first_fault

FORMAT: Final = "turnout-spool"
VERSION: Final = 1
#: No row is nearly as long. What has no newline for so many bytes is not read whole.
LONGEST_LINE: Final = 1 << 22
_OWN: Final = tuple(name for name in COLUMNS if name not in LABELS)
_STARTED_AT: Final = COLUMNS.index("started_at")
_START: Final = re.compile(rb"[0-9a-f]{8} [\[{]")
_MOST_STARTS: Final = 16


class UnreadableError(StorageError):
    """A spool file that this process cannot take in; what it says follows the file's name."""


def header() -> bytes:
    """The first line of a file."""
    return _line(json.dumps({"format": FORMAT, "version": VERSION, "fields": COLUMNS})).encode()


def encoded(rows: Sequence[Row]) -> bytes:
    """The lines of ``rows``, of which there is at least one.

    Raises ``StorageError`` for a row that some store would refuse: it could be written here and never taken in.
    """
    try:
        # Few combinations of labels occur in a batch; all that is left for each row is to fill in its own values.
        places, combinations = labelled(rows)
        templates = [_template(labels) for labels in combinations]
        values = zip(*(_texts(name, rows) for name in _OWN), strict=True)
        lines = [_line(templates[place] % own) for place, own in zip(places, values, strict=True)]
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise StorageError(f"a row that no store would take cannot be spooled: {error}") from error
    if max(map(len, lines)) >= LONGEST_LINE:
        raise StorageError(f"a row of more than {LONGEST_LINE} bytes cannot be spooled")
    return "".join(lines).encode()


def _line(text: str) -> str:
    return f"{crc32(text.encode()):08x} {text}\n"


def _template(labels: Sequence[Any]) -> str:
    known = dict(zip(LABELS, labels, strict=True))
    parts = []
    for name in COLUMNS:
        if name in known:
            parts.append(json.dumps(_checked(name, known[name])).replace("%", "%%"))
        else:
            parts.append('"%s"' if Row.__annotations__[name] is str else "%s")
    return f"[{','.join(parts)}]"


def _texts(name: str, rows: Sequence[Row]) -> list[Any]:
    """What ``%s`` makes JSON of."""
    try:
        checked = [*map(CHECKS[name], column(rows, name))]
    except StorageError:
        raise
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} {error}") from error
    return ["null" if value is None else value for value in checked] if None in checked else checked


def _checked(name: str, value: object) -> Any:
    try:
        return CHECKS[name](value)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


class Lines:
    """The rows of one file, and what is wrong with its lines: ``damaged`` counts those that were skipped, ``fault``
    tells of the first. A last line that was not written to its end is none of them."""

    def __init__(self, file: IO[bytes]) -> None:
        """Read the first line. Raises ``UnreadableError``, as iteration does too where the system does."""
        self.damaged = 0
        self.fault = ""
        #: Whether the last line was not written to its end.
        self.torn = False
        self._file = file
        self._number = 0
        self._fields: Sequence[str] = COLUMNS
        self._first = self._next()
        for text in _texts_in(self._first):
            if text.startswith("{"):
                self._fields = _fields_of(text)

    def __iter__(self) -> Iterator[Row]:
        line = self._first
        while line:
            self._number += 1
            following = self._next()
            yield from self._rows(line, is_last=not following)
            line = following

    def _next(self) -> bytes:
        try:
            return self._file.readline(LONGEST_LINE)
        except OSError as error:
            raise UnreadableError(f"cannot be read ({error.strerror or error})") from error

    def _rows(self, line: bytes, *, is_last: bool) -> Iterator[Row]:
        whole = _whole(line)
        why = "" if whole is not None else "does not hold its checksum"
        if why and is_last:
            self.torn, why = True, ""
        for text in _texts_in(line) if whole is None else [whole]:
            if self._number == 1 and text.startswith("{"):
                continue
            try:
                yield self._row(text)
            except ValueError as error:
                why = why or str(error)
        if why:
            self.damaged += 1
            self.fault = self.fault or f"line {self._number}: {why}"

    def _row(self, text: str) -> Row:
        values = _loaded(text)
        if not isinstance(values, list) or len(values) != len(self._fields):
            raise ValueError(f"must be an array of {len(self._fields)} values")
        if self._fields != COLUMNS:
            known = dict(zip(self._fields, values, strict=True))
            values = [known.get(name) for name in COLUMNS]
        try:
            checked = [check(value) for check, value in zip(CHECKS.values(), values, strict=True)]
        except ValueError:
            raise ValueError(first_fault(values)) from None
        checked[_STARTED_AT] = EPOCH + checked[_STARTED_AT] * MICROSECOND
        return Row._make(checked)


def _whole(line: bytes) -> str | None:
    """The JSON text of a line that holds its checksum."""
    body = line[9:].removesuffix(b"\n")
    if line[:9] == b"%08x " % crc32(body) and body.isascii():
        return body.decode()
    return None


def _texts_in(line: bytes) -> Iterator[str]:
    """The JSON texts that are whole in a line that is not, as where the newline between two was lost."""
    starts = [found.start() for found in _START.finditer(line)][:_MOST_STARTS]
    for place, start in enumerate(starts):
        for end in [*(later - 1 for later in starts[place + 1 :]), len(line), len(line) - 1]:
            text = _whole(line[start:end])
            if text is not None:
                yield text
                break


def _fields_of(text: str) -> Sequence[str]:
    try:
        known = _loaded(text)
    except ValueError as error:
        raise UnreadableError(f"begins with a line that is no JSON: {error}") from None
    of, version, fields = known.get("format"), known.get("version"), known.get("fields")
    if of != FORMAT or version != VERSION:
        raise UnreadableError(
            f"is of format {of!r:.40} {version!r:.20}; this turnout reads {FORMAT} {VERSION}"
        )
    if not isinstance(fields, list) or not all(isinstance(name, str) for name in fields):
        raise UnreadableError("does not name its fields")
    if unknown := [name for name in fields if name not in COLUMNS]:
        raise UnreadableError(f"has the field {unknown[0]!r:.40}, which this turnout does not know")
    if missing := [name for name in REQUIRED if name not in fields]:
        raise UnreadableError(f"has no field {missing[0]}, which this turnout needs")
    if len(set(fields)) < len(fields):
        raise UnreadableError("names a field twice")
    return COLUMNS if tuple(fields) == COLUMNS else fields


def _loaded(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"must not hold {name}")


_decoder: Final = json.JSONDecoder(parse_constant=_refuse)
