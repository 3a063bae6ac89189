"""One row of the ledger, and how an attempt becomes one."""

from datetime import datetime
from typing import Final, NamedTuple

from turnout.calls import Attempt, BillingState, Outcome
from turnout.ids import id_text

_OK: Final = Outcome.OK
_UNKNOWN_COST: Final = BillingState.UNKNOWN.value
_SUCCESS: Final = {
    outcome: None if outcome is Outcome.IGNORED else outcome in (Outcome.OK, Outcome.DEGRADED)
    for outcome in Outcome
}
_LONGEST_CODE: Final = 200
_LARGEST_COUNT: Final = 2**31 - 1


class Row(NamedTuple):
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
    """The row of an attempt. What came from outside is made storable here, so that no row can cost its batch."""
    by, usage, outcome, fault = attempt.by, attempt.usage, attempt.outcome, attempt.fault
    latency = attempt.elapsed_seconds if attempt.stream_opened is None else attempt.first_seconds
    # `_value_` is what `value` gives by way of a descriptor in Python; this runs for every attempt.
    return Row._make(
        (
            id_text(attempt.key),
            id_text(attempt.invocation_key),
            attempt.number,
            attempt.reason._value_,
            attempt.started_at,
            metrics_scope,
            by.provider_id,
            by.name,
            by.model,
            by.protocol,
            attempt.call_type._value_,
            True if outcome is _OK else _SUCCESS[outcome],
            outcome._value_,
            None if fault is None else fault._value_,
            attempt.stream_opened,
            None if latency is None else latency * 1000.0,
            attempt.elapsed_seconds * 1000.0,
            attempt.queue_seconds * 1000.0,
            None if usage is None else count_of(usage.input_tokens),
            None if usage is None else count_of(usage.cached_tokens),
            None if usage is None else count_of(usage.output_tokens),
            None,
            _UNKNOWN_COST,
            count_of(attempt.http_status),
            code_of(attempt.error_code),
        )
    )


def code_of(code: str | None) -> str | None:
    """What a provider sent as its error code, as text that every database takes."""
    if code is None:
        return None
    return str(code)[:_LONGEST_CODE].replace("\0", "").encode("utf-8", "replace").decode()


def count_of(tokens: int | None) -> int | None:
    """A count that a provider reported, if it can be one."""
    return tokens if isinstance(tokens, int) and 0 <= tokens <= _LARGEST_COUNT else None
