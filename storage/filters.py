"""Which rows a reader asks for."""

from dataclasses import dataclass, fields
from datetime import datetime

from turnout.calls import EPOCH, MICROSECOND
from turnout.errors import ConfigError
from turnout.storage.rows import Row


@dataclass(frozen=True, slots=True)
class Filters:
    """Rows that started at or after ``since`` and have every value given; a filter that is None lets all through."""

    since: datetime
    metrics_scope: str | None
    provider_id: str | None
    model: str | None
    protocol: str | None
    call_type: str | None

    def __post_init__(self) -> None:
        if self.since.tzinfo is None:
            raise ConfigError("since= has no time zone; give it one, as in datetime.now(UTC)")

    @property
    def since_microseconds(self) -> int:
        """``since`` in microseconds since 1970, UTC."""
        return (self.since - EPOCH) // MICROSECOND

    @property
    def equal(self) -> dict[str, str]:
        """The columns that must have a given value."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self)[1:])
        return {name: value for name, value in named if value is not None}

    def match(self, row: Row) -> bool:
        """Whether ``row`` is wanted."""
        return row.started_at >= self.since and all(
            getattr(row, name) == value for name, value in self.equal.items()
        )
