"""Rows as routers write them, and as the drivers take them."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final
from uuid import UUID

from turnout.storage.rows import Row

BATCH_ROWS: Final = 500
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
START: Final = datetime(2026, 3, 1, tzinfo=UTC)


def batches() -> Iterator[list[Row]]:
    """Batches as five busy providers would fill them, one attempt in twenty failed."""
    rng = random.Random(7)
    numbers = count(1)

    def one() -> Row:
        number = next(numbers)
        failed = number % 20 == 0
        who = number % 5
        return Row(
            attempt_id=f"01900000-0001-7000-8000-{number:012x}",
            invocation_id=f"01900000-0002-7000-8000-{number:012x}",
            attempt_number=1,
            reason="primary",
            started_at=START + timedelta(microseconds=number * 201),
            metrics_scope="my-app:production",
            provider_id=f"openai-eu-{who}",
            provider_name=f"OpenAI Europe {who}",
            model="gpt-5.1-mini",
            protocol="openai_chat",
            call_type="regular",
            success=not failed,
            outcome="failed" if failed else "ok",
            fault="server_error" if failed else None,
            stream_opened=None,
            latency_ms=rng.random() * 900,
            total_duration_ms=rng.random() * 900,
            queue_ms=rng.random(),
            input_tokens=rng.randrange(4000),
            cached_tokens=None,
            output_tokens=rng.randrange(900),
            cost_usd=None,
            billing_state="unknown",
            http_status=500 if failed else None,
            error_code="overloaded" if failed else None,
        )

    while True:
        yield [one() for _ in range(BATCH_ROWS)]


def sqlite_tuples(rows: list[Row]) -> list[Any]:
    at = Row._fields.index("started_at")
    return [
        (*row[:at], (row.started_at - EPOCH) // timedelta(microseconds=1), *row[at + 1 :]) for row in rows
    ]


def postgres_tuples(rows: list[Row]) -> list[Any]:
    return [(UUID(row.attempt_id), UUID(row.invocation_id), *row[2:]) for row in rows]
