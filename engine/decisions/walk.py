"""What follows an attempt."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from turnout.calls import Outcome, StreamFailurePolicy
from turnout.faults import FAULTS, Failure, Fault, Then


class Next(StrEnum):
    """The walk's next step."""

    ANSWER = "answer"
    FAIL_OVER = "fail_over"
    #: The same, but only to who may hold more than who failed.
    FAIL_OVER_LARGER = "fail_over_larger"
    #: Tell the caller of every attempt.
    STOP = "stop"
    #: Give the caller this attempt's own error: a stream that broke in the caller's hands.
    RAISE = "raise"


@dataclass(frozen=True, slots=True)
class StreamSoFar:
    """What the caller has seen of a stream: whether any content, and what may be done when it breaks."""

    content_given: bool
    failure_policy: StreamFailurePolicy
    restart_announced: bool


def after_attempt(outcome: Outcome, fault: Fault | None, stream: StreamSoFar | None) -> Next:
    """What follows an attempt that ended in ``outcome``. ``stream`` is None for one that opened no stream.

    Two answers are never joined: once content was given, a stream is restarted only where somebody has been asked to
    discard it.
    """
    match outcome:
        case Outcome.OK | Outcome.DEGRADED:
            return Next.ANSWER
        case Outcome.IGNORED:
            return Next.STOP
        case Outcome.INVALID | Outcome.FAILED:
            stopped = Next.STOP if stream is None else Next.RAISE
            if stream is not None and not _may_restart(stream):
                return stopped
            match FAULTS[fault or Fault.UNKNOWN].then:
                case Then.NEXT:
                    return Next.FAIL_OVER
                case Then.LARGER:
                    return Next.FAIL_OVER_LARGER
                case Then.STOP:
                    return stopped


class Size(NamedTuple):
    """How much a provider can take: of which kind it is, and its capacity, where that was declared."""

    kind: str | None
    capacity: int | None


def may_hold_more(other: Size, failed: Size) -> bool:
    """Whether ``other`` may take what was too much for ``failed``: a larger capacity, or, where one is unknown, another
    kind. Never the same size again."""
    if other.capacity is not None and failed.capacity is not None:
        return other.capacity > failed.capacity
    return other.kind != failed.kind


#: So much of its own timeout makes a provider slow, whoever ended the wait.
_MOST: Final = 0.8


def fault_for_circuit(failure: Failure, waited_seconds: float, timeout_seconds: float) -> Fault:
    """What a circuit is told of a failure. The caller's own time, be it a deadline or a timeout among the call's
    arguments, proves a provider slow only where most of the provider's had passed."""
    if failure.fault is not Fault.DEADLINE and not failure.by_caller:
        return failure.fault
    return Fault.TIMEOUT if waited_seconds >= _MOST * timeout_seconds else Fault.DEADLINE


def _may_restart(stream: StreamSoFar) -> bool:
    match stream.failure_policy:
        case StreamFailurePolicy.RAISE:
            return False
        case StreamFailurePolicy.RESTART:
            return stream.restart_announced or not stream.content_given
        case StreamFailurePolicy.HOLD:
            return not stream.content_given


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream ended, as its reader saw it: ``chunks`` came, and ``given`` of them were handed out. ``error`` is
    what reading raised; ``closed`` says that the caller closed it or let it go. Seconds run from the start of the
    attempt."""

    chunks: int
    completed: bool
    given: int
    first_seconds: float | None
    error: Exception | None = None
    closed: bool = False


def stream_outcome(end: StreamEnd) -> Outcome:
    """What a stream's end makes of its attempt. The provider's own end mark decides: a stream is whole only after it,
    and one closed before it is nobody's success or failure. A stream without a single chunk answered nothing."""
    if end.error is not None:
        return Outcome.FAILED
    if end.closed:
        return Outcome.OK if end.completed and end.chunks else Outcome.IGNORED
    return Outcome.OK if end.completed and end.chunks else Outcome.FAILED
