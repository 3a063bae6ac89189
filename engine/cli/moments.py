"""Moments as people write them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from turnout.errors import ConfigError

_DAY: Final = timedelta(days=1)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGO: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhd])")
_FORMS: Final = "90s, 15m, 24h or 7d ago, or a time as 2026-03-01 or 2026-03-01T09:30+01:00"


def moment_of(text: str, now: datetime, what: str) -> datetime:
    """``24h`` before ``now``, or an ISO 8601 date or time, which is local where it names no time zone; in UTC. Raises
    ``ConfigError`` naming ``what`` was meant."""
    written = text.strip()
    try:
        if ago := _AGO.fullmatch(written):
            return now - timedelta(**{_UNITS[ago[2]]: float(ago[1])})
        return datetime.fromisoformat(written).astimezone(UTC)
    except OverflowError:
        raise ConfigError(f"{what} {text!r} is before all time; write a shorter one") from None
    except (ValueError, OSError):
        raise ConfigError(f"{what} must be {_FORMS}, not {text!r}") from None


def span_of(since: str | None, until: str | None, now: datetime) -> tuple[datetime, datetime]:
    """From when to when is meant: up to now, and the day before that, where nothing is said. Raises ``ConfigError``."""
    end = now if until is None else moment_of(until, now, "--until")
    try:
        start = end - _DAY if since is None else moment_of(since, now, "--since")
    except OverflowError:
        raise ConfigError(f"--until {until} has no day before it; say --since too") from None
    if start >= end:
        raise ConfigError(f"--since {since} is not before --until {until or 'now'}")
    return start, end


def shown(moment: datetime) -> str:
    """A moment, to the second, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
