"""One row of the ledger, and how an attempt becomes one."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from turnout.calls import Attempt, BillingState, Outcome

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt, as the ledger keeps it; the fields are the columns of ``provider_attempts``, in order.

    ``success`` is None for IGNORED. ``latency_ms`` is the whole time of a regular call and the time to the first chunk
    of a stream. Unknown is None, never zero. No request, response, key or error text is here.
    """

    attempt_id: str
    invocation_id: str
    attempt_number: int
    reason: str
    started_at: datetime
    metrics_scope: str
    provider_id: str
    provider_name: str
    model: str | None
    protocol: str | None
    call_type: str
    success: bool | None
    outcome: str
    fault: str | None
    stream_opened: bool | None
    latency_ms: float | None
    total_duration_ms: float
    queue_ms: float
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    billing_state: str
    http_status: int | None
    error_code: str | None


def row_of(attempt: Attempt, metrics_scope: str) -> Row:
    """The row of an attempt."""
    by, usage = attempt.by, attempt.usage
    latency = (
        attempt.elapsed_seconds
        if attempt.stream_opened is None
        else attempt.first_seconds
    )
    return Row(
        attempt.attempt_id,
        attempt.invocation_id,
        attempt.number,
        attempt.reason.value,
        _EPOCH + timedelta(seconds=attempt.began),
        metrics_scope,
        by.provider_id,
        by.name,
        by.model,
        by.protocol,
        attempt.call_type.value,
        None
        if attempt.outcome is Outcome.IGNORED
        else attempt.outcome in (Outcome.OK, Outcome.DEGRADED),
        attempt.outcome.value,
        None if attempt.fault is None else attempt.fault.value,
        attempt.stream_opened,
        None if latency is None else latency * 1000.0,
        attempt.elapsed_seconds * 1000.0,
        attempt.queue_seconds * 1000.0,
        None if usage is None else usage.input_tokens,
        None if usage is None else usage.cached_tokens,
        None if usage is None else usage.output_tokens,
        None,
        BillingState.UNKNOWN.value,
        attempt.http_status,
        attempt.error_code,
    )
