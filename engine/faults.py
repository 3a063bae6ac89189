"""The closed list of failure kinds, and the one table that says what each does.

A Fault is what an adapter, or a provider's own ``classify``, says an exception is. ``FAULTS`` says what it does to the
provider's circuit and what the walk does next; no other place decides either.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """What went wrong in one attempt."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER_ERROR = "server_error"
    STREAM_INTERRUPTED = "stream_interrupted"
    UNKNOWN = "unknown"
    TRANSIENT = "transient"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    AUTH = "auth"
    CONTEXT_LENGTH = "context_length"
    CONTENT_FILTER = "content_filter"
    BAD_REQUEST = "bad_request"
    INVALID_OPERATION = "invalid_operation"
    TERMINAL = "terminal"
    UNSUPPORTED = "unsupported"
    INVALID_RESULT = "invalid_result"
    BUDGET = "budget"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"


class Effect(StrEnum):
    """What a fault does to the circuit of the provider that showed it."""

    NONE = "none"
    COUNT = "count"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    DISABLE = "disable"


class Then(StrEnum):
    """What the walk does after a fault."""

    NEXT = "next"
    #: Only to a provider that may hold more; where there is none, stop.
    LARGER = "larger"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class FaultRule:
    effect: Effect
    then: Then


_COUNTED = FaultRule(Effect.COUNT, Then.NEXT)
_CALLERS_OWN = FaultRule(Effect.NONE, Then.STOP)
_PASSED_OVER = FaultRule(Effect.NONE, Then.NEXT)

FAULTS: Final[dict[Fault, FaultRule]] = {
    Fault.TIMEOUT: _COUNTED,
    Fault.CONNECTION: _COUNTED,
    Fault.SERVER_ERROR: _COUNTED,
    Fault.STREAM_INTERRUPTED: _COUNTED,
    Fault.UNKNOWN: _COUNTED,
    Fault.TRANSIENT: _COUNTED,
    Fault.RATE_LIMIT: FaultRule(Effect.RATE_LIMIT, Then.NEXT),
    Fault.QUOTA: FaultRule(Effect.QUOTA, Then.NEXT),
    Fault.AUTH: FaultRule(Effect.DISABLE, Then.NEXT),
    Fault.CONTEXT_LENGTH: FaultRule(Effect.NONE, Then.LARGER),
    # Told to the caller: a refusal is not routed around.
    Fault.CONTENT_FILTER: _CALLERS_OWN,
    Fault.BAD_REQUEST: _CALLERS_OWN,
    Fault.INVALID_OPERATION: _CALLERS_OWN,
    Fault.TERMINAL: _PASSED_OVER,
    Fault.UNSUPPORTED: _PASSED_OVER,
    Fault.INVALID_RESULT: _PASSED_OVER,
    Fault.BUDGET: _CALLERS_OWN,
    Fault.CANCELLED: _CALLERS_OWN,
    Fault.DEADLINE: _CALLERS_OWN,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One classified failure.

    ``message`` is the provider's own words, with no key, header or request body in it. ``retry_after_seconds`` is how
    long the provider asked to be left alone, if it did; ``should_retry`` whether it wants the same request again, None
    where it did not say. ``http_status`` and ``error_code`` go to the ledger. ``by_caller`` marks a timeout that the
    call's own arguments gave, and what an adapter of the caller's own did wrong.
    """

    fault: Fault
    message: str = ""
    retry_after_seconds: float | None = None
    http_status: int | None = None
    error_code: str | None = None
    should_retry: bool | None = None
    by_caller: bool = False

    def __str__(self) -> str:
        return f"{self.fault}: {self.message}" if self.message else self.fault.value
