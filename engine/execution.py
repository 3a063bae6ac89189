"""The walk: one invocation along its plan, as a generator that somebody drives.

It yields what it needs next and is sent the result, so that it can leave a worker while it waits and be interleaved in
one thread by tests. What a caller has seen, its next call knows: whatever changes a circuit is told and acknowledged
before the walk goes on to an answer, an error or the next provider.
"""

from collections.abc import Generator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnout.actors.health import Failed, Health, Succeeded, exclusion_detail
from turnout.actors.ledger import Ledger
from turnout.actors.ordering import Ordering
from turnout.adapters.contract import NormalizedStream
from turnout.calls import Attempt, CallType, FilterReason, Identity, Outcome, Reason, StreamRestart
from turnout.clock import Clock
from turnout.deadline import Limit
from turnout.decisions.circuit import Circuit, State
from turnout.decisions.walk import Next, StreamEnd, StreamSoFar, after_attempt, stream_outcome
from turnout.errors import (
    DeadlineExceededError,
    Exclusion,
    FailedAttempt,
    NoEligibleProvidersError,
    ProviderStreamInterruptedError,
    RouterExhaustedError,
    named,
    told,
)
from turnout.faults import FAULTS, Effect, Failure, Fault
from turnout.ids import TimeOrderedIds
from turnout.invocation import OpenedStream, Progress, Target, Try
from turnout.policies.contract import RoutingContext
from turnout.runtime.lane import Lane
from turnout.runtime.steps import Ask, Await, Call, HandOver, Step, TakeLane


_CONTEXTS = {call_type: RoutingContext(call_type) for call_type in CallType}


class Broken(NamedTuple):
    """A stream that the next one starts over."""

    by: Identity
    chunks: int
    error: Exception


class Verdict(NamedTuple):
    """What one attempt means for the walk."""

    next: Next
    value: Any = None
    error: Exception | None = None
    broken: Broken | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """Walks invocations over fixed targets. Holds no state of its own: any number of threads walk at once."""

    targets: tuple[Target, ...]
    health: Health
    ordering: Ordering
    ledger: Ledger | None
    clock: Clock
    ids: TimeOrderedIds

    def walk(self, progress: Progress) -> Generator[Step, Any, Any]:
        """One invocation from plan to answer. Returns the answer; raises a ``TurnoutError`` where there is none."""
        invocation = progress.invocation
        progress.queue_seconds = self.clock.monotonic() - invocation.asked_at
        eligible = self._eligible(progress)
        context = _CONTEXTS[invocation.call_type]
        plan = self.ordering.plan(eligible, context)
        if plan is None:
            identities = [target.identity for target in eligible]
            plan = yield from self.ordering.asked(eligible, identities, context)
        remaining = list(plan)
        reason, broken = Reason.PRIMARY, None
        while True:
            target = self._next_target(remaining, progress)
            if type(target) is list:
                target = yield from self._waited(target, remaining, progress)
            if target is None:
                raise _exhausted(progress)
            try:
                verdict: Verdict = yield from self._attempt(target, reason, progress, broken)
            finally:
                if target.lane is not None:
                    target.lane.give_back()
            match verdict.next:
                case Next.ANSWER:
                    return verdict.value
                case Next.RAISE if verdict.error is not None:
                    raise verdict.error
                case Next.FAIL_OVER:
                    broken = verdict.broken or broken
                    reason = Reason.FAILOVER if broken is None else Reason.STREAM_RESTART
                case _:
                    self._refuse_to_go_on(progress)
                    raise _exhausted(progress)

    def _eligible(self, progress: Progress) -> list[Target]:
        """The providers that may be tried; those filtered out are noted with their reasons."""
        request = progress.invocation.request
        snapshot = self.health.snapshot
        eligible: list[Target] = []
        for target in self.targets:
            refusal = target.refusal(request)
            if refusal is not None:
                progress.exclusions.append(_excluded(target, *refusal))
            elif snapshot.clean or not self._benched(target, snapshot.circuits[target.provider_id], progress):
                eligible.append(target)
        if not eligible:
            raise NoEligibleProvidersError(progress.exclusions)
        return eligible

    def _next_target(self, remaining: list[Target], progress: Progress) -> Target | list[Lane] | None:
        """Take the first provider left that is not benched by now and has room. Where all that are left are full:
        their lanes."""
        self._refuse_to_go_on(progress)
        snapshot = self.health.snapshot
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
            if won is None:
                self._refuse_to_go_on(progress, waiting_for="room at a provider")
                continue
            target = next(target for target in remaining if target.lane is won)
            if self.health.snapshot.circuits[target.provider_id].admits(self.clock.monotonic()):
                remaining.remove(target)
                return target
            won.give_back()
            found = self._next_target(remaining, progress)
            if type(found) is not list:
                return found
            lanes = found

    def _attempt(
        self, target: Target, reason: Reason, progress: Progress, broken: Broken | None
    ) -> Generator[Step, Any, Verdict]:
        """One physical try, to the end of its stream where it opens one."""
        invocation = progress.invocation
        this = Try(self.ids(), target, reason, progress, self.health.snapshot.epoch, self.clock)
        stream = end = None
        try:
            value = yield Call(target.invoke, invocation.request, this.limit, invocation.context.copy())
            if hasattr(type(value), "__await__"):
                value = yield Await(value, this.limit, invocation.context)
            if invocation.call_type is CallType.STREAMING and isinstance(value, NormalizedStream):
                stream = value
                end = yield HandOver(
                    OpenedStream(stream, progress, this.started, _restart(broken, target, progress))
                )
        except Exception as error:
            return (yield from self._failed(this, error, None))
        except BaseException:
            # Closed from outside, or an interrupt: nobody's success or failure.
            self._record(this.ended(self.clock.monotonic(), Outcome.IGNORED), progress)
            raise
        if stream is not None:
            outcome, usage = stream_outcome(end), target.usage(stream.usage)
            if outcome is Outcome.FAILED:
                return (yield from self._failed(this, end.error or _unfinished(target, end), end))
            value = None
        else:
            outcome, usage = Outcome.OK, target.usage(value)
        attempt = this.ended(self.clock.monotonic(), outcome, None, usage, end)
        if end is None:
            judged = self._judged(target, value, attempt)
            if type(judged) is not Attempt:
                return (yield from self._failed(this, *judged))
            attempt = judged
        self._record(attempt, progress)
        if outcome is Outcome.IGNORED:
            return Verdict(Next.ANSWER)
        progress.answered_by = target.identity
        snapshot = self.health.snapshot
        if not snapshot.clean and not snapshot.circuits[target.provider_id].clean:
            self.health.announce((yield Ask(self.health.actor, Succeeded(target.provider_id, this.epoch))))
        return Verdict(Next.ANSWER, value)

    def _judged(
        self, target: Target, value: Any, attempt: Attempt
    ) -> Attempt | tuple[Exception, None, Fault]:
        """The attempt as its provider judges its answer, or what a refused answer fails with."""
        try:
            outcome = target.assess(value, attempt)
        except Exception as error:
            return error, None, Fault.TERMINAL
        match outcome:
            case Outcome.OK:
                return attempt
            case Outcome.DEGRADED:
                return attempt._replace(outcome=outcome)
            case _:
                who = named(target.identity.name, target.provider_id)
                return ValueError(f"{who} judged its own answer {outcome!r}"), None, Fault.INVALID_RESULT

    def _failed(
        self, this: Try, error: Exception, end: StreamEnd | None, fault: Fault | None = None
    ) -> Generator[Step, Any, Verdict]:
        """A failure: recorded, told to health and acknowledged, and what follows from it."""
        target, progress = this.target, this.progress
        failure = self._classified(this, error) if fault is None else Failure(fault, told(error))
        outcome = Outcome.IGNORED if failure.fault is Fault.CANCELLED else Outcome.FAILED
        if failure.fault is Fault.INVALID_RESULT:
            outcome = Outcome.INVALID
        self._record(this.ended(self.clock.monotonic(), outcome, failure, None, end), progress)
        identity = target.identity
        progress.failed.append(
            FailedAttempt(
                target.provider_id, identity.name, identity.model, failure.fault, error, failure.message
            )
        )
        if FAULTS[failure.fault].effect is not Effect.NONE:
            change = yield Ask(self.health.actor, Failed(target.provider_id, this.epoch, failure))
            self.health.announce(change)
        so_far = None if end is None else _so_far(progress, end)
        follows = after_attempt(outcome, failure.fault, so_far)
        broken = None if end is None else Broken(identity, end.chunks, error)
        return Verdict(follows, None, error, broken)

    def _classified(self, this: Try, error: Exception) -> Failure:
        """Our own cut is what we say it is, whatever came out of the SDK; the rest is the provider's word."""
        if this.limit.reason is not None:
            return Failure(Fault.CANCELLED, told(error))
        deadline = this.progress.invocation.deadline
        if this.limit.until >= deadline.at and deadline.expired():
            return Failure(Fault.DEADLINE, told(error))
        try:
            failure = this.target.classify(error)
        except Exception as raised:
            return Failure(Fault.TERMINAL, f"classify raised {type(raised).__name__} on {told(error)}")
        if not isinstance(failure, Failure):
            return Failure(Fault.TERMINAL, f"classify did not return a Failure for {told(error)}")
        return failure

    def _record(self, attempt: Attempt, progress: Progress) -> None:
        progress.attempts.append(attempt)
        if self.ledger is not None:
            self.ledger.put(attempt)
        self.ordering.observe(attempt)

    def _benched(self, target: Target, circuit: Circuit, progress: Progress) -> bool:
        now = self.clock.monotonic()
        if circuit.admits(now):
            return False
        disabled = circuit.state is State.DISABLED
        reason = FilterReason.AUTH_DISABLED_THIS_RUN if disabled else FilterReason.IN_COOLDOWN
        exclusion = _excluded(target, reason, exclusion_detail(circuit, now))
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
            ) from _last_error(progress)


def _restart(broken: Broken | None, target: Target, progress: Progress) -> StreamRestart | None:
    if broken is None:
        return None
    progress.restarts += 1
    return StreamRestart(
        failed_provider=broken.by.name,
        failed_provider_id=broken.by.provider_id,
        next_provider=target.identity.name,
        next_provider_id=target.provider_id,
        chunks_yielded=broken.chunks,
        restarts=progress.restarts,
        error=broken.error,
    )


def _so_far(progress: Progress, end: StreamEnd) -> StreamSoFar:
    invocation = progress.invocation
    return StreamSoFar(end.content_given, invocation.failure_policy, invocation.on_restart is not None)


def _unfinished(target: Target, end: StreamEnd) -> ProviderStreamInterruptedError:
    identity = target.identity
    what = "sent no chunk at all" if not end.chunks else f"ended after {end.chunks} chunks without marking the answer finished"
    return ProviderStreamInterruptedError(
        f"the stream of {named(identity.name, identity.provider_id)} (model {identity.model}) {what}",
        provider_id=identity.provider_id,
        provider_name=identity.name,
        model=identity.model,
    )


def _excluded(target: Target, reason: FilterReason, detail: str) -> Exclusion:
    return Exclusion(target.provider_id, target.identity.name, reason, detail)


def _last_error(progress: Progress) -> BaseException | None:
    return progress.failed[-1].error if progress.failed else None


def _exhausted(progress: Progress) -> Exception:
    if not progress.failed:
        return NoEligibleProvidersError(progress.exclusions)
    error = RouterExhaustedError(progress.failed, progress.exclusions)
    error.__cause__ = _last_error(progress)
    return error
