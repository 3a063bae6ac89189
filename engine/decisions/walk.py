"""What follows an attempt."""

from dataclasses import dataclass
from enum import StrEnum

from turnout.calls import Outcome, StreamFailurePolicy
from turnout.faults import FAULTS, Fault, Then


class Next(StrEnum):
    """The walk's next step."""

    ANSWER = "answer"
    FAIL_OVER = "fail_over"
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
            goes_on = FAULTS[fault or Fault.UNKNOWN].then is Then.NEXT
            if stream is None:
                return Next.FAIL_OVER if goes_on else Next.STOP
            return Next.FAIL_OVER if goes_on and _may_restart(stream) else Next.RAISE


def _may_restart(stream: StreamSoFar) -> bool:
    match stream.failure_policy:
        case StreamFailurePolicy.RAISE:
            return False
        case StreamFailurePolicy.RESTART:
            return stream.restart_announced or not stream.content_given


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream ended, as its reader saw it. ``error`` is what reading raised; ``closed`` says that the caller
    closed it or let it go. Seconds run from the start of the attempt."""

    chunks: int
    completed: bool
    content_given: bool
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
