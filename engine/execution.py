"""The walk: one invocation along its plan, as a generator that somebody drives.

It yields what it needs next and is sent the result, so that it can leave a worker while it waits and be interleaved in
one thread by tests. What a caller has seen, its next call knows: whatever changes a circuit is told and acknowledged
before the walk goes on to an answer, an error or the next provider.
"""

import asyncio
import math
from collections.abc import Generator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, NamedTuple

from loguru import logger

from turnout.actors.health import Circuits, Failed, Health, Succeeded, exclusion_detail
from turnout.actors.ledger import Ledger
from turnout.actors.ordering import Ordering
from turnout.adapters.contract import NormalizedStream
from turnout.calls import Attempt, CallType, FilterReason, Outcome, Reason, Usage
from turnout.clock import Clock
from turnout.deadline import Limit
from turnout.decisions.circuit import Circuit, State
from turnout.decisions.walk import Next, StreamEnd, after_attempt, stream_outcome
from turnout.endings import (
    Broken,
    excluded,
    exhausted,
    failed_attempt,
    last_error,
    refused,
    restart_of,
    so_far,
    unfinished,
    without_frames,
)
from turnout.errors import DeadlineExceededError, NoEligibleProvidersError, told
from turnout.faults import FAULTS, Effect, Failure, Fault
from turnout.invocation import OpenedStream, Progress, Target, Try
from turnout.policies.contract import RoutingContext
from turnout.runtime.lane import Lane
from turnout.runtime.steps import Ask, Await, HandOver, Step, TakeLane

_REGULAR_CONTEXT, _STREAMING_CONTEXT = RoutingContext(CallType.REGULAR), RoutingContext(CallType.STREAMING)
_AWAITABLE = (CoroutineType, asyncio.Future)
# Members of an Enum are slow to look up by name in Python 3.11, and these are needed at every call.
_OK, _STREAMING, _ANSWER = Outcome.OK, CallType.STREAMING, Next.ANSWER


class Settled(NamedTuple):
    """What an attempt that is over means: what follows, what its circuit's owner must know before anyone may see the
    attempt, and the stream that broke with it."""

    next: Next
    attempt: Attempt
    news: Failed | Succeeded | None = None
    broken: Broken | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """Walks invocations over fixed targets. Holds no state of its own: any number of threads walk at once."""

    targets: tuple[Target, ...]
    health: Health
    circuits: Circuits
    ordering: Ordering
    ledger: Ledger | None
    clock: Clock

    def walk(self, progress: Progress) -> Generator[Step, Any, Any]:
        """One invocation from plan to answer. Returns the answer; raises a ``TurnoutError`` where there is none."""
        invocation = progress.invocation
        progress.queue_seconds = self.clock.monotonic() - invocation.asked_at
        eligible = self._eligible(progress)
        context = _STREAMING_CONTEXT if invocation.call_type is _STREAMING else _REGULAR_CONTEXT
        plan = self.ordering.plan(eligible, context)
        if plan is None:
            plan = yield from self.ordering.asked(eligible, context)
        remaining = list(plan)
        reason, broken = Reason.PRIMARY, None
        while True:
            found = self._next_target(remaining, progress)
            if isinstance(found, list):
                found = yield from self._waited(found, remaining, progress)
            target = found
            if target is None:
                raise exhausted(progress)
            value = end = error = None
            this = Try(target, reason, progress, self.circuits.snapshot.epoch, self.clock)
            try:
                value = yield this
                if isinstance(value, _AWAITABLE):
                    value = yield Await(value, this.limit, invocation.context)
                if invocation.call_type is _STREAMING and isinstance(value, NormalizedStream):
                    end = yield HandOver(
                        OpenedStream(value, progress, this.started, restart_of(broken, target, progress))
                    )
            except Exception as raised:
                error = raised
            except BaseException:
                # Closed from outside, or an interrupt: nobody's success or failure.
                if isinstance(value, NormalizedStream):
                    value.close()
                progress.show(self._recorded(this.ended(self.clock.monotonic(), Outcome.IGNORED)))
                raise
            finally:
                if target.lane is not None:
                    target.lane.give_back()
            settled = self._settled(this, value, end, error)
            # An error keeps this frame by its traceback: what it reaches from here would be a cycle.
            error = None
            if settled.news is not None:
                self.health.announce((yield Ask(self.health.actor, settled.news)))
            progress.show(settled.attempt)
            if settled.next is _ANSWER:
                return value if end is None else None
            if settled.next is not Next.FAIL_OVER:
                raise self._last_word(settled.next, progress)
            broken = settled.broken or broken
            reason = Reason.FAILOVER if broken is None else Reason.STREAM_RESTART

    def _eligible(self, progress: Progress) -> list[Target]:
        """The providers that may be tried; those filtered out are noted with their reasons."""
        request = progress.invocation.request
        snapshot = self.circuits.snapshot
        eligible: list[Target] = []
        for target in self.targets:
            try:
                refusal = None if target.supports(request) else excluded(target, *target.why_not(request))
            except Exception as error:
                # That provider's failure, not the route's.
                refusal = excluded(target, FilterReason.UNSUPPORTED, f"supports raised {told(error)}")
            if refusal is not None:
                progress.exclusions.append(refusal)
            elif snapshot.clean or not self._benched(target, snapshot.circuits[target.provider_id], progress):
                eligible.append(target)
        if not eligible:
            raise NoEligibleProvidersError(progress.exclusions)
        return eligible

    def _next_target(self, remaining: list[Target], progress: Progress) -> Target | list[Lane] | None:
        """Take the first provider left that is not benched by now and has room. Where all that are left are full:
        their lanes."""
        if progress.cut_reason is not None or progress.invocation.deadline.at != math.inf:
            self._refuse_to_go_on(progress)
        snapshot = self.circuits.snapshot
        full: list[Lane] = []
        index = 0
        while index < len(remaining):
            target = remaining[index]
            if not snapshot.clean and self._benched(target, snapshot.circuits[target.provider_id], progress):
                del remaining[index]
            elif target.lane is None or target.lane.try_take():
                del remaining[index]
                return target
            else:
                full.append(target.lane)
                index += 1
        return full or None

    def _waited(
        self, lanes: list[Lane], remaining: list[Target], progress: Progress
    ) -> Generator[Step, Any, Target | None]:
        """Wait for room at any provider left, and take it; None where all were benched meanwhile."""
        while True:
            limit = progress.under(Limit(progress.invocation.deadline.at, self.clock))
            won: Lane | None = yield TakeLane(lanes, limit)
            if won is not None:
                target = next(target for target in remaining if target.lane is won)
                if self._may_begin(target, progress):
                    remaining.remove(target)
                    return target
                won.give_back()
            self._refuse_to_go_on(progress, waiting_for="room at a provider")
            found = self._next_target(remaining, progress)
            if not isinstance(found, list):
                return found
            lanes = found

    def _may_begin(self, target: Target, progress: Progress) -> bool:
        """Whether an attempt whose room was waited for is still to be made."""
        if progress.cut_reason is not None or progress.invocation.deadline.expired():
            return False
        return self.health.snapshot.circuits[target.provider_id].admits(self.clock.monotonic())

    def _settled(self, this: Try, value: Any, end: StreamEnd | None, error: Exception | None) -> Settled:
        """Judge and record an attempt that is over: with ``error``, a stream's ``end``, or a whole answer."""
        target = this.target
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
        snapshot = self.circuits.snapshot
        if outcome is Outcome.IGNORED or snapshot.clean or snapshot.circuits[target.provider_id].clean:
            return Settled(_ANSWER, attempt)
        return Settled(_ANSWER, attempt, Succeeded(target.provider_id, this.epoch))

    def _failed(
        self, this: Try, error: Exception, end: StreamEnd | None, fault: Fault | None = None
    ) -> Settled:
        """Record a failure, and what follows from it."""
        target, progress = this.target, this.progress
        failure = self._classified(this, error) if fault is None else Failure(fault, told(error))
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
        tells = FAULTS[failure.fault].effect is not Effect.NONE
        news = Failed(target.provider_id, this.epoch, failure) if tells else None
        broken = None if end is None else Broken(target.identity, end.chunks, error)
        seen = None if end is None else so_far(progress, end)
        return Settled(after_attempt(outcome, failure.fault, seen), attempt, news, broken)

    def _last_word(self, follows: Next, progress: Progress) -> BaseException:
        """What the caller is told where the walk ends without an answer."""
        if follows is Next.RAISE:
            if progress.failed[-1].fault is Fault.DEADLINE:
                self._refuse_to_go_on(progress)
            return progress.failed.pop().error
        self._refuse_to_go_on(progress)
        return exhausted(progress)

    def _classified(self, this: Try, error: Exception) -> Failure:
        """Our own cut is what we say it is, whatever came out of the SDK; the rest is the provider's word."""
        if this.limit.reason is not None:
            return Failure(Fault.CANCELLED, told(error))
        deadline = this.progress.invocation.deadline
        if this.limit.until >= deadline.at and deadline.expired():
            return Failure(Fault.DEADLINE, told(error))
        try:
            failure: object = this.target.classify(error)
        except Exception as raised:
            return Failure(Fault.TERMINAL, f"classify raised {type(raised).__name__} on {told(error)}")
        if not isinstance(failure, Failure):
            return Failure(Fault.TERMINAL, f"classify did not return a Failure for {told(error)}")
        return failure

    def _recorded(self, attempt: Attempt) -> Attempt:
        if self.ledger is not None:
            self.ledger.put(attempt)
        if self.ordering.learns:
            self.ordering.observe(attempt)
        return attempt

    def _benched(self, target: Target, circuit: Circuit, progress: Progress) -> bool:
        now = self.clock.monotonic()
        if circuit.admits(now):
            return False
        disabled = circuit.state is State.DISABLED
        reason = FilterReason.AUTH_DISABLED_THIS_RUN if disabled else FilterReason.IN_COOLDOWN
        exclusion = excluded(target, reason, exclusion_detail(circuit, now))
        if all(known.provider_id != target.provider_id for known in progress.exclusions):
            progress.exclusions.append(exclusion)
        return True

    def _refuse_to_go_on(self, progress: Progress, waiting_for: str = "") -> None:
        if progress.cut_reason is not None:
            raise CancelledError
        deadline = progress.invocation.deadline
        if deadline.expired():
            raise DeadlineExceededError(
                deadline.timeout_seconds, progress.failed, progress.exclusions, waiting_for
            ) from last_error(progress)
