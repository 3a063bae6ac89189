"""Which rows a reader asks for."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from turnout.calls import EPOCH, MICROSECOND
from turnout.errors import ConfigError
from turnout.storage.rows import Row

_EQUAL: Final = ("metrics_scope", "provider_id", "model", "protocol", "call_type")


@dataclass(frozen=True, slots=True)
class Filters:
    """Rows that started at or after ``since``, before ``until``, and have every value given; a filter that is None lets
    all through."""

    since: datetime
    metrics_scope: str | None = None
    provider_id: str | None = None
    model: str | None = None
    protocol: str | None = None
    call_type: str | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name, moment in (("since", self.since), ("until", self.until)):
            if moment is not None and moment.tzinfo is None:
                raise ConfigError(f"{name}= has no time zone; give it one, as in datetime.now(UTC)")

    @property
    def since_microseconds(self) -> int:
        """``since`` in microseconds since 1970, UTC."""
        return (self.since - EPOCH) // MICROSECOND

    @property
    def until_microseconds(self) -> int | None:
        """``until`` likewise, if there is one."""
        return None if self.until is None else (self.until - EPOCH) // MICROSECOND

    @property
    def equal(self) -> dict[str, str]:
        """The columns that must have a given value."""
        named = ((name, getattr(self, name)) for name in _EQUAL)
        return {name: value for name, value in named if value is not None}

    def match(self, row: Row) -> bool:
        """Whether ``row`` is wanted."""
        return (
            row.started_at >= self.since
            and (self.until is None or row.started_at < self.until)
            and all(getattr(row, name) == value for name, value in self.equal.items())
        )
