"""What an attempt that is over means: judged and recorded, once."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from loguru import logger

from turnout.actors.health import Circuits, Failed, Returned, Succeeded
from turnout.actors.ledger import Ledger
from turnout.actors.ordering import Ordering
from turnout.calls import Attempt, CallType, Outcome, StreamFailurePolicy, Usage
from turnout.clock import Clock
from turnout.deadline import DEADLINE
from turnout.decisions.walk import Next, StreamEnd, after_attempt, fault_for_circuit, stream_outcome
from turnout.endings import Broken, failed_attempt, refused, so_far, unfinished, without_frames
from turnout.errors import FailedAttempt
from turnout.faults import FAULTS, Effect, Failure, Fault
from turnout.invocation import Try

# Members of an Enum are slow to look up by name in Python 3.11, and these are needed at every call.
_OK, _STREAMING, _ANSWER = Outcome.OK, CallType.STREAMING, Next.ANSWER


class Settled(NamedTuple):
    """What an attempt that is over means: what follows, what its circuit's owner must know before anyone may see the
    attempt or its failure, the stream that broke with it, and the answer, if that was not handed over already."""

    next: Next
    attempt: Attempt
    news: Failed | Succeeded | Returned | None = None
    broken: Broken | None = None
    answer: Any = None
    failure: Failure | None = None
    failed: FailedAttempt | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    """Says what became of attempts, and tells the ledger and a policy that learns. Holds no state of its own."""

    circuits: Circuits
    ordering: Ordering
    ledger: Ledger
    clock: Clock

    def settled(self, this: Try, value: Any, end: StreamEnd | None, error: Exception | None) -> Settled:
        """Judge and record an attempt that is over: with ``error``, a stream's ``end``, or a whole answer."""
        target = this.target
        if error is None and this.limit.reason is not None and end is None:
            # Cut, and answered all the same: nobody waits for it any more, and it took too long.
            error = TimeoutError(f"answered only after it was cut ({this.limit.reason})")
        if error is not None:
            return self._failed(this, error, None)
        outcome = _OK if end is None else stream_outcome(end)
        if end is not None and outcome is Outcome.FAILED:
            return self._failed(this, end.error or unfinished(target, end), end)
        usage: Usage | None = None
        try:
            usage = target.usage(value)
        except Exception as unreadable:
            # An answer that was paid for is not lost because it could not be read for the ledger.
            logger.debug(
                "{}: what an answer used could not be read: {!r}", target.identity.described, unreadable
            )
        attempt = this.ended(self.clock.monotonic(), outcome, None, usage, end)
        if end is None:
            try:
                outcome = target.assess(value, attempt)
            except Exception as raised:
                return self._failed(this, raised, None, Fault.TERMINAL)
            if outcome is not _OK:
                if outcome is not Outcome.DEGRADED:
                    return self._failed(this, refused(target, outcome), None, Fault.INVALID_RESULT)
                attempt = attempt._replace(outcome=outcome)
        self.recorded(this, attempt)
        answer = value if end is None else None
        snapshot = self.circuits.snapshot
        if snapshot.clean or snapshot.circuits[target.provider_id].clean:
            # What Settled(...) comes down to, without a call in between at every call.
            return tuple.__new__(Settled, (_ANSWER, attempt, None, None, answer, None, None))
        if outcome is Outcome.IGNORED:
            return Settled(_ANSWER, attempt, _returned(this), None, answer)
        news = Succeeded(target.provider_id, this.epoch, this.permit)
        return Settled(_ANSWER, attempt, news, None, answer)

    def _failed(
        self, this: Try, error: Exception, end: StreamEnd | None, fault: Fault | None = None
    ) -> Settled:
        """Record a failure, and what follows from it."""
        target, progress = this.target, this.progress
        failure = self._classified(this, error) if fault is None else Failure(fault, target.told(error))
        match failure.fault:
            case Fault.CANCELLED:
                outcome = Outcome.IGNORED
            case Fault.INVALID_RESULT:
                outcome = Outcome.INVALID
            case _:
                outcome = Outcome.FAILED
        attempt = self.recorded(this, this.ended(self.clock.monotonic(), outcome, failure, None, end))
        failed = failed_attempt(target, failure, error)
        if progress.invocation.call_type is _STREAMING:
            without_frames(error)
        news: Failed | Returned | None = _returned(this)
        # Once content came, what was granted until then is no measure; of a held stream nobody knows whether it did.
        flowed = end is not None and (
            end.given or progress.invocation.failure_policy is StreamFailurePolicy.HOLD
        )
        waited_seconds = 0.0 if flowed else attempt.elapsed_seconds
        granted_seconds = target.granted_seconds(progress.invocation.call_type)
        shown = fault_for_circuit(failure, waited_seconds, granted_seconds)
        if FAULTS[shown].effect is not Effect.NONE:
            told = failure if shown is failure.fault else replace(failure, fault=shown)
            news = Failed(target.provider_id, this.epoch, told, this.permit)
        broken = None if end is None else Broken(target.identity, end.given, error)
        seen = None if end is None else so_far(progress, end)
        follows = after_attempt(outcome, failure.fault, seen)
        return Settled(follows, attempt, news, broken, None, failure, failed)

    def _classified(self, this: Try, error: Exception) -> Failure:
        """Our own cut is what we say it is, whatever came out of the SDK; the rest is the provider's word."""
        limit = this.limit
        if limit.reason is not None and limit.reason != DEADLINE:
            return Failure(Fault.CANCELLED, this.target.told(error))
        overdue = limit.until >= limit.latest and this.progress.invocation.deadline.expired()
        if limit.reason == DEADLINE or overdue:
            return Failure(Fault.DEADLINE, this.target.told(error))
        try:
            failure: object = this.target.classify(error)
        except Exception as raised:
            return Failure(
                Fault.TERMINAL, f"classify raised {type(raised).__name__} on {this.target.told(error)}"
            )
        if not isinstance(failure, Failure) or not isinstance(failure.fault, Fault):
            return Failure(Fault.TERMINAL, f"classify did not return a Failure for {this.target.told(error)}")
        return failure

    def recorded(self, this: Try, attempt: Attempt) -> Attempt:
        self.ledger.put(attempt)
        this.progress.under_way = None
        if self.ordering.learns:
            self.ordering.observe(attempt)
        return attempt


def _returned(this: Try) -> Returned | None:
    """The permit of a probe that proved nothing."""
    return None if this.permit is None else Returned(this.target.provider_id, this.permit)
