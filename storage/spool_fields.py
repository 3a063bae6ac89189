"""What each field of a row may be, so that every store takes it: DuckDB, SQLite, PostgreSQL and memory.

Each check gives the value as it is kept, or raises ``ValueError`` that says what it must be.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from turnout.storage.columns import COLUMNS, IDENTITIES
from turnout.storage.rows import Row

_Check = Callable[[Any], Any]

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch
#: A day short of the years 1 to 9999: a driver may tell a time in the time zone of its session.
_FIRST_TIME: Final = -62_135_510_400_000_000
_LAST_TIME: Final = 253_402_214_400_000_000
_LARGEST_32: Final = 2**31 - 1
_LARGEST_64: Final = 2**63 - 1
#: An entry of a PostgreSQL index holds 2,704 bytes, and these are in one together.
_INDEXED: Final = ("provider_id", "model", "protocol", "call_type")
_LONGEST_INDEXED: Final = 640


def _identity(value: Any) -> str:
    try:
        return value if _UUID(value) else str(UUID(value))
    except (TypeError, ValueError, AttributeError):
        raise ValueError("must be a UUID") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("must be text that UTF-8 can hold") from None
    if "\0" in value:
        raise ValueError("must not hold a NUL")
    return value


def _short_text(value: Any) -> str:
    text = _text(value)
    if len(text) <= _LONGEST_INDEXED and (text.isascii() or len(text.encode()) <= _LONGEST_INDEXED):
        return text
    raise ValueError(f"must be of at most {_LONGEST_INDEXED} bytes")


def _number(value: Any) -> float:
    if isinstance(value, (float, int)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        raise ValueError("must be finite")
    raise ValueError("must be a number")


def _flag(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise ValueError("must be true or false")


def _between(least: int, most: int) -> _Check:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError("must be a whole number")
        if least <= value <= most:
            return int(value)
        raise ValueError(f"must be between {least} and {most}")

    return check


def _or_none(check: _Check) -> _Check:
    return lambda value: None if value is None else check(value)


def _check_of(name: str, kind: Any) -> _Check:
    if name in IDENTITIES:
        return _identity
    if name == "started_at":
        return _between(_FIRST_TIME, _LAST_TIME)
    if name in _INDEXED:
        return _short_text
    if name in ("attempt_number", "http_status"):
        return _between(0, _LARGEST_32)
    return {str: _text, float: _number, bool: _flag, int: _between(0, _LARGEST_64)}[kind]


def _checks() -> dict[str, _Check]:
    checks = {}
    for name, annotation in Row.__annotations__.items():
        kinds = getattr(annotation, "__args__", (annotation,))
        check = _check_of(name, kinds[0])
        checks[name] = _or_none(check) if type(None) in kinds else check
    return checks


#: In the order of ``COLUMNS``; ``started_at`` is whole microseconds since 1970 UTC.
CHECKS: Final = _checks()
#: What a row cannot be without.
REQUIRED: Final = tuple(
    name for name, kind in Row.__annotations__.items() if type(None) not in getattr(kind, "__args__", ())
)


def first_fault(values: Sequence[Any]) -> str:
    """What is wrong with the first of a row's ``values`` that has something wrong."""
    for name, value in zip(COLUMNS, values, strict=True):
        try:
            CHECKS[name](value)
        except ValueError as error:
            return f"{name} {error}"
    return ""
