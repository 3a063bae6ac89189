"""Rows for the tests, and histories of providers drawn from a seed."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final
from uuid import UUID

from turnout.calls import CallType, Outcome
from turnout.decisions.aggregates import Partition, ScoreAggregateQuery
from turnout.faults import Fault
from turnout.storage.rows import Row

NOON: Final = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
APP: Final = "my-app:production"
PARTITION: Final = Partition("eu-1", "gpt-x", "openai_chat")

_identities: Final = random.Random("identities")


def new_identity() -> str:
    """A UUID that no other row of this process has."""
    return str(UUID(int=_identities.getrandbits(128), version=4))


def a_row(**known: Any) -> Row:
    """A row with something in every column; ``known`` says what is to be there instead."""
    full = Row(
        attempt_id=new_identity(),
        invocation_id=new_identity(),
        attempt_number=2,
        reason="failover",
        started_at=NOON,
        metrics_scope=APP,
        provider_id=PARTITION.provider_id,
        provider_name="Zürich 東京 🚉",
        model=PARTITION.model,
        protocol=PARTITION.protocol,
        call_type="streaming",
        success=False,
        outcome="failed",
        fault="server_error",
        stream_opened=True,
        latency_ms=12.25,
        total_duration_ms=1 / 3,
        queue_ms=1e-9,
        input_tokens=2**31 - 1,
        cached_tokens=0,
        output_tokens=7,
        cost_usd=0.1,
        billing_state="calculated",
        http_status=503,
        error_code="overloaded",
    )
    return full._replace(**known)


def a_success(**known: Any) -> Row:
    """A regular call that was answered after 100 ms."""
    told = {"call_type": "regular", "success": True, "outcome": "ok", "fault": None, "stream_opened": None}
    return a_row(**{**told, "latency_ms": 100.0, **known})


#: What a row may not know.
UNKNOWN: Final[dict[str, Any]] = dict.fromkeys(
    (
        "model",
        "protocol",
        "success",
        "fault",
        "stream_opened",
        "latency_ms",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "cost_usd",
        "http_status",
        "error_code",
    )
)

#: The last has no history.
PARTITIONS: Final = (
    Partition("eu-2", None, "openai_chat"),
    PARTITION,
    Partition("us-1", "gpt-x", None),
    Partition("a thing's", None, None),
    Partition("eu", "gpt-x", "openai_chat"),
)
SINCE: Final = NOON - timedelta(hours=36)
_SCOPES: Final = (APP, "my-app", "MY-APP:production")


def a_history(rng: random.Random, count: int) -> list[Row]:
    """``count`` attempts of any kind around the times and partitions that ``questions`` asks about."""
    return [_an_attempt(rng) for _ in range(count)]


def _an_attempt(rng: random.Random) -> Row:
    partition = rng.choice(PARTITIONS[:-1])
    success, outcome = rng.choice(
        [(True, Outcome.OK)] * 4
        + [(True, Outcome.DEGRADED), (None, Outcome.IGNORED), (False, Outcome.INVALID)]
        + [(False, Outcome.FAILED)] * 3
    )
    fault = None if outcome is Outcome.OK else rng.choice([None, *Fault, Fault.RATE_LIMIT, Fault.TIMEOUT])
    return a_row(
        started_at=_a_time(rng),
        metrics_scope=rng.choice([APP, APP, *_SCOPES]),
        provider_id=partition.provider_id,
        model=rng.choice([partition.model] * 4 + ["gpt-x", "gpt-y", None]),
        protocol=rng.choice([partition.protocol] * 4 + ["openai_chat", "openai_responses", None]),
        call_type=rng.choice([*CallType]).value,
        success=success,
        outcome=outcome.value,
        fault=None if fault is None else fault.value,
        latency_ms=rng.choice([None, 0.0, rng.lognormvariate(6, 2), rng.lognormvariate(6, 2)]),
    )


def _a_time(rng: random.Random) -> datetime:
    return rng.choice(
        [
            SINCE,
            SINCE - MICROSECOND,
            NOON,
            NOON + MICROSECOND,
            NOON + timedelta(hours=rng.uniform(0, 30)),
            *(NOON - timedelta(hours=rng.uniform(0, 40)) for _ in range(5)),
        ]
    )


def questions() -> Iterator[ScoreAggregateQuery]:
    """Every kind of question about such a history."""
    for call_type, scope, half_life in product(CallType, (APP, None), (None, 6.0, 0.05)):
        yield ScoreAggregateQuery(PARTITIONS, call_type, SINCE, NOON, scope, half_life)
