"""The walk: one invocation along its plan, as a generator that somebody drives.

It yields what it needs next and is sent the result, so that it can leave a worker while it waits and be interleaved in
one thread by tests. What a caller has seen, its next call knows: whatever changes a circuit is told and acknowledged
before the walk goes on to an answer, an error or the next provider.
"""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from turnout.actors.health import Circuits, Failed, Health, Returned, Succeeded
from turnout.actors.ordering import Ordering
from turnout.adapters.contract import NormalizedStream
from turnout.calls import CallType, Outcome, Reason
from turnout.clock import Clock
from turnout.decisions.walk import Next
from turnout.eligibility import Admitted, Eligibility, Found
from turnout.endings import Broken, exhausted, restart_of
from turnout.exclusions import keep_larger, note_omitted, note_used_up
from turnout.faults import Fault
from turnout.invocation import OpenedStream, Progress, Target, Try
from turnout.judging import Judge, Settled
from turnout.policies.contract import RoutingContext
from turnout.probing import ProbeStream
from turnout.retrying import Retries
from turnout.runtime.lane import Lane
from turnout.runtime.steps import Ask, Await, HandOver, Step
from turnout.turns import hand_on

_REGULAR_CONTEXT, _STREAMING_CONTEXT = RoutingContext(CallType.REGULAR), RoutingContext(CallType.STREAMING)
_AWAITABLE = (CoroutineType, asyncio.Future)
# Members of an Enum are slow to look up by name in Python 3.11, and these are needed at every call.
_STREAMING, _ANSWER, _PRIMARY = CallType.STREAMING, Next.ANSWER, Reason.PRIMARY


@dataclass(frozen=True, slots=True)
class Execution:
    """Walks invocations over fixed targets. Holds no state of its own: any number of threads walk at once."""

    eligibility: Eligibility
    retries: Retries
    attempts_at_most: int
    health: Health
    circuits: Circuits
    ordering: Ordering
    judge: Judge
    clock: Clock

    def walk(self, progress: Progress) -> Generator[Step, Any, Any]:
        """One invocation from plan to answer. Returns the answer; raises a ``TurnoutError`` where there is none."""
        invocation = progress.invocation
        progress.queue_seconds = self.clock.monotonic() - invocation.asked_at
        able = eligible = self.eligibility.able(progress)
        broken: Broken | None = None
        again: Target | None = None
        this: Try | None = None
        found: Found | list[Lane] | Admitted | None
        settled: Settled | None = None
        try:
            if not self.circuits.snapshot.clean:
                eligible = yield from self.eligibility.not_benched(able, progress)
            context = _STREAMING_CONTEXT if invocation.call_type is _STREAMING else _REGULAR_CONTEXT
            plan = self.ordering.plan(eligible, context)
            if plan is None:
                plan = yield from self.ordering.asked(eligible, context)
            remaining = list(plan)
            if self.ordering.may_omit:
                note_omitted(eligible, remaining, progress)
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
                    yield from self._told(this, settled.news)
                # Who waits for its room must find the circuit as this attempt left it.
                if this.token is not None:
                    this.gives_room_back()
                progress.show(settled.attempt, settled.failed)
                if settled.next is _ANSWER:
                    return settled.answer
                if settled.next is Next.FAIL_OVER_LARGER:
                    keep_larger(target, remaining, progress)
                elif settled.next is not Next.FAIL_OVER:
                    raise self._last_word(settled.next, progress)
                broken = settled.broken or broken
                again = yield from self._again(this, settled, able, remaining, leads=target is plan[0])
        finally:
            # Frames of errors may keep this one, with all that it holds.
            settled = found = token = None
            if (
                progress.failed
                or progress.turn is not None
                or progress.unused is not None
                or (this is not None and (this.token is not None or this.permit is not None))
            ):
                self._let_go(progress, this)

    def _another_round(
        self, able: list[Target], context: RoutingContext, progress: Progress
    ) -> Generator[Step, Any, list[Target]]:
        """The plan for after a bench that was waited for. Raises where there is none."""
        eligible, tried = yield from self.eligibility.another_round(able, progress)
        if tried and not (yield from self.retries.token(progress)):
            raise exhausted(progress, self.eligibility.retry_after_seconds(able, progress))
        plan = self.ordering.plan(eligible, context)
        if plan is None:
            plan = yield from self.ordering.asked(eligible, context)
        if self.ordering.may_omit:
            note_omitted(eligible, plan, progress)
        return list(plan)

    def _again(
        self, this: Try, settled: Settled, able: list[Target], remaining: list[Target], *, leads: bool
    ) -> Generator[Step, Any, Target | None]:
        """After a failure that the walk may go on from: the target that is to be tried again next, if it is. Raises
        where the call has had all the attempts that it may have."""
        progress = this.progress
        self.eligibility.note_benched(this.target, progress)
        if len(progress.attempts) >= self.attempts_at_most:
            note_used_up(remaining, progress, self.attempts_at_most)
            raise exhausted(progress, self.eligibility.retry_after_seconds(able, progress))
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
        # Only now: what an interrupt leaves, ``this`` gives back.
        if this.permit is not None:
            progress.unused = None
        if progress.turn is not None:
            hand_on(progress, self.health, self.clock)
        try:
            value = yield this
            if isinstance(value, _AWAITABLE):
                this.leaves_worker()
                value = yield Await(value, this.limit, progress.invocation.context)
            if progress.invocation.call_type is _STREAMING and isinstance(value, NormalizedStream):
                this.leaves_worker()
                progress.pooled = False
                end = yield HandOver(
                    OpenedStream(
                        value
                        if this.permit is None
                        else ProbeStream(value, target, this.permit, self.health.actor, self.clock),
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
            if isinstance(value, NormalizedStream):
                value.close()
            self._interrupted(this)
            raise
        try:
            return self.judge.settled(this, value, end, error)
        except BaseException:
            # Of the provider's code that judges: what is no Exception is not its word.
            self._interrupted(this)
            raise
        finally:
            # An error keeps this frame by its traceback: what it reaches from here would be a cycle.
            error = None

    def _told(self, this: Try, news: Failed | Succeeded | Returned) -> Generator[Step, Any, None]:
        """Have the circuit's owner know of an attempt, its permit with it."""
        self.health.announce((yield Ask(self.health.actor, news)))
        this.permit = None

    def _interrupted(self, this: Try) -> None:
        """Record an attempt that was closed from outside, or left by an interrupt: nobody's success or failure."""
        if this.progress.under_way is not None:
            ignored = this.ended(self.clock.monotonic(), Outcome.IGNORED)
            this.progress.show(self.judge.recorded(this, ignored))

    def _let_go(self, progress: Progress, this: Try | None) -> None:
        """Of what a walk that ends still holds. Whoever is told of its failures has them; here they would be in a
        cycle with the frames that they came through."""
        progress.failed = []
        if progress.unused is not None:
            self.health.actor.tell(progress.unused)
        if this is not None:
            this.gives_room_back()
            if this.permit is not None:
                # Told, not asked: nothing can be waited for any more.
                self.health.actor.tell(Returned(this.target.provider_id, this.permit))
        hand_on(progress, self.health, self.clock)

    def _last_word(self, follows: Next, progress: Progress) -> BaseException:
        """What the caller is told where the walk ends without an answer."""
        if follows is Next.RAISE:
            if progress.failed[-1].fault is Fault.DEADLINE:
                self.eligibility.refuse_to_go_on(progress)
            return progress.failed.pop().error
        self.eligibility.refuse_to_go_on(progress)
        # For the caller to mend: the end of no bench would help.
        return exhausted(progress, None)


def _reason(target: Target, again: Target | None, broken: Broken | None) -> Reason:
    """Why another attempt is made after one that failed."""
    if target is again:
        return Reason.RETRY
    return Reason.FAILOVER if broken is None else Reason.STREAM_RESTART
