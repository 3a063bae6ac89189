"""Moments as people write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from turnout.cli.moments import moment_of, shown, span_of
from turnout.errors import ConfigError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        (" 1.5h ", timedelta(minutes=90)),
        ("0s", timedelta(0)),
    ],
)
def test_a_duration_is_so_long_before_now(text: str, ago: timedelta) -> None:
    assert moment_of(text, NOW, "--since") == NOW - ago


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-02-28T10:30:00Z", datetime(2026, 2, 28, 10, 30, tzinfo=UTC)),
        ("2026-02-28T10:30+01:00", datetime(2026, 2, 28, 9, 30, tzinfo=UTC)),
        ("2026-02-28", datetime(2026, 2, 28).astimezone()),
        ("2026-02-28 10:30", datetime(2026, 2, 28, 10, 30).astimezone()),
    ],
)
def test_a_date_or_time_is_itself_and_local_where_it_has_no_zone(text: str, moment: datetime) -> None:
    told = moment_of(text, NOW, "--since")
    assert told == moment
    assert told.tzinfo is UTC


@pytest.mark.parametrize(
    "text", ["", "yesterday", "24", "h", "-1h", "1w", "2026-13-01", "1h30m", "٣h", "nan"]
)
def test_anything_else_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(ConfigError, match="--since must be 90s, 15m, 24h or 7d ago, or a time as"):
        moment_of(text, NOW, "--since")


@pytest.mark.parametrize("text", ["999999999d", "800000d"])
def test_what_is_before_all_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="before all time"):
        moment_of(text, NOW, "--until")


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [(None, None, (24, 0)), ("2h", None, (2, 0)), (None, "48h", (72, 48)), ("48h", "1h", (48, 1))],
)
def test_the_day_before_its_end_is_meant_where_no_beginning_is_said(
    since: str | None, until: str | None, hours: tuple[int, int]
) -> None:
    assert span_of(since, until, NOW) == tuple(NOW - timedelta(hours=ago) for ago in hours)


def test_a_span_that_has_no_beginning_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no day before it; say --since too"):
        span_of(None, "0001-01-01T05:00Z", NOW)


def test_a_moment_is_shown_in_utc() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=9)))
    assert shown(there) == "2026-03-01 12:00:00 UTC"
