"""What a caller asks for, and what became of it: frozen facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from turnout.errors import Exclusion, InvalidCallError, named
from turnout.faults import Fault
from turnout.ids import id_text

#: Times are told and kept as whole microseconds from here.
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


class ApiProtocol(StrEnum):
    """The native API that a call is written for."""

    OPENAI_CHAT = "openai_chat"
    OPENAI_RESPONSES = "openai_responses"


class CallType(StrEnum):
    """Whether a call is answered whole or as a stream. The two are measured and scored apart."""

    REGULAR = "regular"
    STREAMING = "streaming"


def _member(kind: type[StrEnum], value: str, field: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise InvalidCallError(f"{field} must be one of {known}, not {value!r}") from None


@dataclass(frozen=True, slots=True)
class CallVariant:
    """The native call for one protocol.

    ``operation`` is the dotted path on the SDK's client, ``arguments`` exactly what that method takes, without
    ``model``. The arguments are opaque: never inspected, never changed but for the injected model.
    """

    protocol: ApiProtocol
    operation: str
    call_type: CallType
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        # Plain strings do as well, as everywhere.
        if type(self.protocol) is not ApiProtocol:
            object.__setattr__(self, "protocol", _member(ApiProtocol, self.protocol, "protocol"))
        if type(self.call_type) is not CallType:
            object.__setattr__(self, "call_type", _member(CallType, self.call_type, "call_type"))
        if not isinstance(self.operation, str):
            raise InvalidCallError(
                f"operation must be a dotted path, as chat.completions.create, not {type(self.operation).__name__}"
            )
        if not isinstance(self.arguments, Mapping):
            raise InvalidCallError(f"arguments must be a mapping, not {type(self.arguments).__name__}")


class Outcome(StrEnum):
    """What an attempt ended in."""

    OK = "ok"
    DEGRADED = "degraded"
    INVALID = "invalid"
    FAILED = "failed"
    IGNORED = "ignored"


class Reason(StrEnum):
    """Why an attempt was made."""

    PRIMARY = "primary"
    RETRY = "retry"
    FAILOVER = "failover"
    HEDGE = "hedge"
    STREAM_RESTART = "stream_restart"
    VALIDATION = "validation"
    PROBE = "probe"


class BillingState(StrEnum):
    """How far the cost of an attempt is known."""

    ACTUAL = "actual"
    CALCULATED = "calculated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that one attempt used, as the provider reported them. None is unknown, never zero."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a provider is, as attempts, reports and the ledger name it."""

    provider_id: str
    name: str
    model: str | None = None
    protocol: str | None = None

    @property
    def described(self) -> str:
        """How people are told of it: name, id where that differs, and model."""
        who = named(self.name, self.provider_id)
        return f"{who}, model {self.model}" if self.model else who


class Attempt(NamedTuple):
    """One physical try at one provider. (A named tuple: a frozen dataclass of this size takes five times as long to
    make, and every call makes one.)

    ``began`` is UTC seconds since the epoch. ``elapsed_seconds`` runs to the end of the attempt, a stream's included;
    ``first_seconds`` to a stream's first chunk (None where none came, and for regular calls). ``stream_opened`` is None
    for regular calls. ``epoch`` is the health snapshot that the attempt began in.
    """

    key: int
    invocation_key: int
    number: int
    reason: Reason
    by: Identity
    call_type: CallType
    began: float
    elapsed_seconds: float
    queue_seconds: float
    outcome: Outcome
    epoch: int
    fault: Fault | None = None
    http_status: int | None = None
    error_code: str | None = None
    first_seconds: float | None = None
    stream_opened: bool | None = None
    usage: Usage | None = None

    @property
    def provider(self) -> str:
        """The provider's display name."""
        return self.by.name

    @property
    def provider_name(self) -> str:
        """The same, as errors name it."""
        return self.by.name

    @property
    def provider_id(self) -> str:
        """Of whom was asked."""
        return self.by.provider_id

    @property
    def attempt_id(self) -> str:
        """UUIDv7, as text."""
        return id_text(self.key)

    @property
    def invocation_id(self) -> str:
        """UUIDv7 of the invocation that this attempt belongs to, as text."""
        return id_text(self.invocation_key)

    @property
    def started_at(self) -> datetime:
        """When it began, in UTC."""
        return EPOCH + round(self.began * 1e6) * MICROSECOND


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one invocation: who answered, every attempt in physical order, who was not tried and why.

    ``answered_by`` is None while nobody has answered; a stream's answer counts once its end was seen.
    """

    invocation_id: str
    answered_by: Identity | None
    attempts: tuple[Attempt, ...]
    exclusions: tuple[Exclusion, ...]
    queue_seconds: float

    @property
    def failed_over(self) -> bool:
        """Whether a provider ahead of the one that answered failed."""
        if self.answered_by is None:
            return False
        return any(
            attempt.outcome is Outcome.FAILED and attempt.by != self.answered_by for attempt in self.attempts
        )


@dataclass(frozen=True, slots=True)
class StreamRestart:
    """A stream broke and another provider starts its answer over: discard ``chunks_yielded`` chunks.

    ``restarts`` counts this one. ``error`` is why the first stream ended.
    """

    failed_provider: str
    failed_provider_id: str
    next_provider: str
    next_provider_id: str
    chunks_yielded: int
    restarts: int
    error: BaseException


class FilterReason(StrEnum):
    """Why a provider was not tried."""

    DISABLED = "disabled"
    AUTH_DISABLED_THIS_RUN = "auth_disabled_this_run"
    IN_COOLDOWN = "in_cooldown"
    MISSING_API_KEY = "missing_api_key"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    NO_MATCHING_VARIANT = "no_matching_variant"
    UNSUPPORTED = "unsupported"
    OMITTED_BY_POLICY = "omitted_by_policy"
    CONTEXT_TOO_SMALL = "context_too_small"
    ATTEMPTS_USED_UP = "attempts_used_up"


class StreamFailurePolicy(StrEnum):
    """What happens when a stream breaks.

    ``RESTART`` starts it over on the next provider: unseen before its content, and after that only where ``on_restart``
    discards what came. ``RAISE`` gives the caller the provider's error. ``HOLD`` hands nothing out before the answer is
    whole, so that it can always be started over unseen.
    """

    RESTART = "restart"
    RAISE = "raise"
    HOLD = "hold"
