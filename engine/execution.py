"""The walk: one invocation along its plan, as a generator that somebody drives.

It yields what it needs next and is sent the result, so that it can leave a worker while it waits and be interleaved in
one thread by tests. What a caller has seen, its next call knows: whatever changes a circuit is told and acknowledged
before the walk goes on to an answer, an error or the next provider.
"""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass, replace
from types import CoroutineType
from typing import Any, NamedTuple

from loguru import logger

from turnout.actors.health import Circuits, Failed, Health, Returned, Succeeded
from turnout.actors.ledger import Ledger
from turnout.actors.ordering import Ordering
from turnout.adapters.contract import NormalizedStream
from turnout.calls import Attempt, CallType, Outcome, Reason, Usage
from turnout.clock import Clock
from turnout.deadline import DEADLINE
from turnout.decisions.walk import Next, StreamEnd, after_attempt, fault_for_circuit, stream_outcome
from turnout.eligibility import Admitted, Eligibility, Found
from turnout.endings import (
    Broken,
    exhausted,
    failed_attempt,
    refused,
    restart_of,
    so_far,
    unfinished,
    without_frames,
)
from turnout.faults import FAULTS, Effect, Failure, Fault
from turnout.invocation import OpenedStream, Progress, Target, Try
from turnout.policies.contract import RoutingContext
from turnout.retrying import Retries
from turnout.runtime.lane import Lane
from turnout.runtime.steps import Ask, Await, HandOver, Step

_REGULAR_CONTEXT, _STREAMING_CONTEXT = RoutingContext(CallType.REGULAR), RoutingContext(CallType.STREAMING)
_AWAITABLE = (CoroutineType, asyncio.Future)
# Members of an Enum are slow to look up by name in Python 3.11, and these are needed at every call.
_OK, _STREAMING, _ANSWER, _PRIMARY = Outcome.OK, CallType.STREAMING, Next.ANSWER, Reason.PRIMARY


class Settled(NamedTuple):
    """What an attempt that is over means: what follows, what its circuit's owner must know before anyone may see the
    attempt, the stream that broke with it, and the answer, if that was not handed over already."""

    next: Next
    attempt: Attempt
    news: Failed | Succeeded | Returned | None = None
    broken: Broken | None = None
    answer: Any = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """Walks invocations over fixed targets. Holds no state of its own: any number of threads walk at once."""

    eligibility: Eligibility
    retries: Retries
    attempts_at_most: int
    health: Health
    circuits: Circuits
    ordering: Ordering
    ledger: Ledger | None
    clock: Clock

    def walk(self, progress: Progress) -> Generator[Step, Any, Any]:
        """One invocation from plan to answer. Returns the answer; raises a ``TurnoutError`` where there is none."""
        invocation = progress.invocation
        progress.queue_seconds = self.clock.monotonic() - invocation.asked_at
        able = eligible = self.eligibility.able(progress)
        if not self.circuits.snapshot.clean:
            eligible = yield from self.eligibility.not_benched(able, progress)
        context = _STREAMING_CONTEXT if invocation.call_type is _STREAMING else _REGULAR_CONTEXT
        plan = self.ordering.plan(eligible, context)
        if plan is None:
            plan = yield from self.ordering.asked(eligible, context)
        remaining = list(plan)
        if self.ordering.may_omit:
            self.eligibility.note_omitted(eligible, remaining, progress)
        broken: Broken | None = None
        again: Target | None = None
        this: Try | None = None
        found: Found | list[Lane] | Admitted | None
        try:
            while True:
                permit = None
                found = self.eligibility.next_target(remaining, progress)
                # Most often everybody is healthy and has room: then nobody needs to be asked, nor waited for.
                if found is None or isinstance(found, list) or not self.circuits.snapshot.clean:
                    found = yield from self.eligibility.admitted(found, remaining, progress)
                    if found is None:
                        remaining = yield from self._another_round(able, context, progress)
                        continue
                    target, token, permit = found
                else:
                    target, token = found
                reason = _reason(target, again, broken) if progress.attempts else _PRIMARY
                this = Try(target, reason, progress, self.circuits.snapshot.epoch, self.clock, token, permit)
                settled = yield from self._made(this, broken)
                if settled.news is not None:
                    self.health.announce((yield Ask(self.health.actor, settled.news)))
                # Who waits for its room must find the circuit as this attempt left it.
                this.gives_room_back()
                progress.show(settled.attempt)
                if settled.next is _ANSWER:
                    return settled.answer
                if settled.next is Next.FAIL_OVER_LARGER:
                    self.eligibility.keep_larger(target, remaining, progress)
                elif settled.next is not Next.FAIL_OVER:
                    raise self._last_word(settled.next, progress)
                broken = settled.broken or broken
                again = yield from self._again(this, settled, remaining, leads=target is plan[0])
        finally:
            if this is not None:
                this.gives_room_back()

    def _another_round(
        self, able: list[Target], context: RoutingContext, progress: Progress
    ) -> Generator[Step, Any, list[Target]]:
        """The plan for after a bench that was waited for. Raises where there is none."""
        eligible, tried = yield from self.eligibility.another_round(able, progress)
        if tried and not (yield from self.retries.token(progress)):
            raise exhausted(progress, self.eligibility.retry_after_seconds())
        plan = self.ordering.plan(eligible, context)
        if plan is None:
            plan = yield from self.ordering.asked(eligible, context)
        return list(plan)

    def _again(
        self, this: Try, settled: Settled, remaining: list[Target], *, leads: bool
    ) -> Generator[Step, Any, Target | None]:
        """After a failure that the walk may go on from: the target that is to be tried again next, if it is. Raises
        where the call has had all the attempts that it may have."""
        progress = this.progress
        if len(progress.attempts) >= self.attempts_at_most:
            self.eligibility.note_used_up(remaining, progress, self.attempts_at_most)
            raise exhausted(progress, self.eligibility.retry_after_seconds())
        if (
            settled.broken is not None
            and settled.broken.chunks
            and not (yield from self.retries.token(progress))
        ):
            # A restart asks somebody to throw away what was paid for: in a storm of them, the error is better.
            raise self._last_word(Next.RAISE, progress)
        if not self.retries.policies or settled.failure is None:
            return None
        again = yield from self.retries.again(
            this,
            settled.failure,
            progress.failed[-1].error,
            leads=leads,
            stream_opened=settled.broken is not None,
        )
        self.eligibility.refuse_to_go_on(progress, waiting_for=f"a retry at {this.target.identity.described}")
        if not again:
            return None
        remaining.insert(0, this.target)
        return this.target

    def _made(self, this: Try, broken: Broken | None) -> Generator[Step, Any, Settled]:
        """Make one attempt, up to the end of the stream that it opens, and judge it."""
        target, progress = this.target, this.progress
        value = end = error = None
        try:
            value = yield this
            if isinstance(value, _AWAITABLE):
                this.leaves_worker()
                progress.pooled = progress.submitted
                value = yield Await(value, this.limit, progress.invocation.context)
            if progress.invocation.call_type is _STREAMING and isinstance(value, NormalizedStream):
                this.leaves_worker()
                progress.pooled = progress.submitted = False
                end = yield HandOver(
                    OpenedStream(
                        value,
                        target.identity,
                        progress,
                        this.limit,
                        this.started,
                        restart_of(broken, target, progress),
                    )
                )
        except Exception as raised:
            error = raised
        except BaseException:
            # Closed from outside, or an interrupt: nobody's success or failure.
            if isinstance(value, NormalizedStream):
                value.close()
            progress.show(self._recorded(this.ended(self.clock.monotonic(), Outcome.IGNORED)))
            if this.permit is not None:
                # Told, not asked: nothing can be waited for any more.
                self.health.actor.tell(Returned(target.provider_id, this.permit))
            raise
        try:
            return self._settled(this, value, end, error)
        finally:
            # An error keeps this frame by its traceback: what it reaches from here would be a cycle.
            error = None

    def _settled(self, this: Try, value: Any, end: StreamEnd | None, error: Exception | None) -> Settled:
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
        self._recorded(attempt)
        answer = value if end is None else None
        snapshot = self.circuits.snapshot
        if snapshot.clean or snapshot.circuits[target.provider_id].clean:
            return Settled(_ANSWER, attempt, None, None, answer)
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
        attempt = self._recorded(this.ended(self.clock.monotonic(), outcome, failure, None, end))
        progress.failed.append(failed_attempt(target, failure, error))
        if progress.invocation.call_type is _STREAMING:
            without_frames(error)
        news: Failed | Returned | None = _returned(this)
        shown = failure.fault
        if end is None:
            granted_seconds = target.granted_seconds(progress.invocation.call_type)
            shown = fault_for_circuit(shown, attempt.elapsed_seconds, granted_seconds)
        if FAULTS[shown].effect is not Effect.NONE:
            told = failure if shown is failure.fault else replace(failure, fault=shown)
            news = Failed(target.provider_id, this.epoch, told, this.permit)
        broken = None if end is None else Broken(target.identity, end.given, error)
        seen = None if end is None else so_far(progress, end)
        follows = after_attempt(outcome, failure.fault, seen)
        return Settled(follows, attempt, news, broken, None, failure)

    def _last_word(self, follows: Next, progress: Progress) -> BaseException:
        """What the caller is told where the walk ends without an answer."""
        if follows is Next.RAISE:
            if progress.failed[-1].fault is Fault.DEADLINE:
                self.eligibility.refuse_to_go_on(progress)
            return progress.failed.pop().error
        self.eligibility.refuse_to_go_on(progress)
        return exhausted(progress, self.eligibility.retry_after_seconds())

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

    def _recorded(self, attempt: Attempt) -> Attempt:
        if self.ledger is not None:
            self.ledger.put(attempt)
        if self.ordering.learns:
            self.ordering.observe(attempt)
        return attempt


def _reason(target: Target, again: Target | None, broken: Broken | None) -> Reason:
    """Why another attempt is made after one that failed."""
    if target is again:
        return Reason.RETRY
    return Reason.FAILOVER if broken is None else Reason.STREAM_RESTART


def _returned(this: Try) -> Returned | None:
    """The permit of a probe that proved nothing."""
    return None if this.permit is None else Returned(this.target.provider_id, this.permit)
