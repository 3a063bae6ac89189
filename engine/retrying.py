"""Attempts made again at the same provider: the gates, the policy's word, the budget, and the wait."""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from loguru import logger

from turnout.actors.health import AskToken, Circuits, Health
from turnout.clock import Clock
from turnout.deadline import Limit
from turnout.decisions.circuit import Admission
from turnout.decisions.retry import cycle, may_retry, pause_seconds
from turnout.faults import Failure
from turnout.ids import number_of
from turnout.invocation import Progress, Try
from turnout.policies.retry import MOST_ATTEMPTS, RetryContext, RetryPolicy, seconds_of
from turnout.runtime.steps import Ask, Sleep, Step

#: How long a retry is waited for where a policy of the user's own names no ``max_wait_seconds``.
_LONGEST_WAIT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Retries:
    """Says whether to try again. Holds no state of its own: what was made is in the invocation's attempts."""

    policies: Mapping[str, RetryPolicy]
    health: Health
    circuits: Circuits
    clock: Clock

    def again(
        self, this: Try, failure: Failure, error: BaseException, *, leads: bool, stream_opened: bool
    ) -> Generator[Step, Any, bool]:
        """Whether the attempt is to be made again, once the wait for it is over. ``leads`` says whether its provider
        leads the order."""
        target, progress = this.target, this.progress
        policy = self.policies.get(target.provider_id)
        if policy is None:
            return False
        made = cycle(progress.attempts)
        at_most = _number(policy, "max_attempts", 0)
        if made is None or not may_retry(
            failure, made, min(at_most, MOST_ATTEMPTS), stream_opened=stream_opened
        ):
            return False
        now = self.clock.monotonic()
        if self.circuits.admission(target.provider_id, now) is not Admission.FREE:
            return False
        context = RetryContext(
            target.identity,
            progress.invocation.call_type,
            failure.fault,
            error,
            made,
            leads,
            failure.should_retry is True,
        )
        if not _wants(policy, context):
            return False
        pause = pause_seconds(
            _wait(policy, made, error),
            failure.retry_after_seconds,
            _number(policy, "max_wait_seconds", _LONGEST_WAIT_SECONDS),
        )
        if pause is None or now + pause >= progress.invocation.deadline.at:
            return False
        if not (yield from self.token(progress)):
            return False
        if pause:
            yield Sleep(progress.under(Limit(now + pause, self.clock)))
        return True

    def token(self, progress: Progress) -> Generator[Step, Any, bool]:
        """Whether the budget has one attempt more to give."""
        given = yield Ask(self.health.actor, AskToken(number_of(progress.invocation.key)))
        if not given:
            last = progress.attempts[-1].by.described
            logger.debug("the retry budget is used up: nothing more is tried after {}", last)
        return bool(given)


def _wants(policy: RetryPolicy, context: RetryContext) -> bool:
    try:
        wanted: object = policy.should_retry(context)
    except Exception as error:
        logger.warning("{}.should_retry raised {!r}; no retry is made", type(policy).__name__, error)
        return False
    if not isinstance(wanted, bool):
        logger.warning(
            "{}.should_retry gave {!r}, not True or False; no retry is made", type(policy).__name__, wanted
        )
    return wanted is True


def _number(policy: RetryPolicy, name: str, default: float) -> float:
    """What the policy says now, which may be other than when the router was built; where that is no number, so little
    that no retry is made."""
    try:
        number = getattr(policy, name, default)
    except Exception as error:
        logger.warning("{}.{} raised {!r}; no retry is made", type(policy).__name__, name, error)
        return -1.0
    if isinstance(number, bool) or not isinstance(number, int | float):
        logger.warning("{}.{} is {!r}, no number; no retry is made", type(policy).__name__, name, number)
        return -1.0
    return number


def _wait(policy: RetryPolicy, made: int, failed: BaseException) -> float:
    """What the policy's wait, one of tenacity's, says before the retry that follows ``made`` attempts and the last
    one's error."""
    try:
        wait = getattr(policy, "wait", None)
        seconds = 0.0 if wait is None else seconds_of(wait, made, failed)
    except Exception as error:
        logger.warning("the wait of {} raised {!r}; none is made", type(policy).__name__, error)
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0
