"""What a walk says when an attempt, a stream, or the walk itself has ended."""

from traceback import clear_frames
from typing import Final, NamedTuple

from turnout.calls import Identity, StreamRestart
from turnout.decisions.walk import StreamEnd, StreamSoFar
from turnout.errors import (
    DeadlineExceededError,
    FailedAttempt,
    NoEligibleProvidersError,
    ProviderError,
    ProviderStreamInterruptedError,
    ProviderTimeoutError,
    RouterExhaustedError,
)
from turnout.faults import Failure, Fault
from turnout.invocation import Progress, Target
from turnout.traces import is_being_handled, let_go_of_frames, note_places

#: Less time than this is not told of.
_WORTH_TELLING_SECONDS: Final = 0.005


class Broken(NamedTuple):
    """A stream that the next one starts over. ``chunks`` of it were handed out, the first of them with content."""

    by: Identity
    chunks: int
    error: Exception


def restart_of(broken: Broken | None, target: Target, progress: Progress) -> StreamRestart | None:
    """What is announced before the first chunk of a stream that starts over a broken one."""
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


def so_far(progress: Progress, end: StreamEnd) -> StreamSoFar:
    """What the caller has seen of a stream that ended, and what the caller allows."""
    invocation = progress.invocation
    return StreamSoFar(end.given > 0, invocation.failure_policy, invocation.on_restart is not None)


def unfinished(target: Target, end: StreamEnd) -> ProviderStreamInterruptedError:
    """The failure of a stream that looks ended but was never marked so."""
    identity = target.identity
    what = "sent no chunk at all"
    if end.chunks:
        what = f"ended after {end.chunks} chunks without marking the answer finished"
    return ProviderStreamInterruptedError(
        f"the stream of {identity.described} {what}",
        provider_id=identity.provider_id,
        provider_name=identity.name,
        model=identity.model,
    )


def late(by: Identity) -> ProviderTimeoutError:
    """The failure of a stream that goes on, and had nothing to hand out by the deadline."""
    return ProviderTimeoutError(
        f"the stream of {by.described} had nothing to hand out in time; give a longer timeout=",
        provider_id=by.provider_id,
        provider_name=by.name,
        model=by.model,
    )


def too_long(by: Identity, chunks: int) -> ProviderError:
    """The failure of a stream that goes on after more chunks than may be held back. The caller's to avoid: from another
    provider the same answer would be as long."""
    return ProviderError(
        f"the stream of {by.described} is longer than can be held back ({chunks} chunks); "
        'ask for such answers with stream_failure_policy="restart" or "raise"',
        provider_id=by.provider_id,
        provider_name=by.name,
        model=by.model,
        fault=Fault.INVALID_OPERATION,
    )


def refused(target: Target, outcome: object) -> ValueError:
    """The failure of an answer that its own provider does not let pass."""
    return ValueError(f"{target.identity.described} judged its own answer {outcome!r}")


def failed_attempt(target: Target, failure: Failure, error: Exception) -> FailedAttempt:
    """A failure as the invocation's error tells of it."""
    identity = target.identity
    return FailedAttempt(
        identity.provider_id, identity.name, identity.model, failure.fault, error, failure.message
    )


def without_frames(error: BaseException) -> None:
    """Let go of the frames that an error, and what is behind it, came through; the places stay, as notes. A stream
    keeps the errors of its walk, frames keep their callers, and a caller keeps its stream: one let go would never be
    collected, nor its connection given back."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        # What was being handled when the call began is the caller's own.
        if one is None or id(one) in seen or is_being_handled(one):
            continue
        seen.add(id(one))
        let_go_of_frames(one)
        if one is not error:
            # An SDK's own, which may hold all that the stream did.
            clear_frames(one.__traceback__)
        note_places(one)
        # Past a class of the user's own in which nothing can be set.
        BaseException.with_traceback(one, None)
        waiting += [one.__cause__, one.__context__]


def overdue(
    progress: Progress, now: float, waiting_for: str = "", *, begun: bool = True
) -> DeadlineExceededError:
    """The error of an invocation whose time is over: who was tried, and where the time went."""
    invocation = progress.invocation
    failed = progress.failed.copy()
    waiting_for = waiting_for or progress.waiting_for
    if not begun:
        progress.queue_seconds, waiting_for = now - invocation.asked_at, "a worker"
    spent = [("in the queue", progress.queue_seconds)]
    spent += [(f"at {attempt.provider}", attempt.elapsed_seconds) for attempt in progress.attempts]
    under_way = progress.under_way
    if under_way is not None:
        # Nobody comes back from it in time to tell.
        spent.append((f"at {under_way.by.name}", now - under_way.started))
        failed.append(_unanswered(under_way.by))
    spent.append(("waiting", now - invocation.asked_at - sum(seconds for _, seconds in spent)))
    error = DeadlineExceededError(
        invocation.deadline.timeout_seconds,
        failed,
        progress.not_tried(),
        waiting_for,
        tuple((where, seconds) for where, seconds in spent if seconds >= _WORTH_TELLING_SECONDS),
    )
    error.__cause__ = failed[-1].error if failed else None
    return error


def _unanswered(by: Identity) -> FailedAttempt:
    text = "had not answered by then"
    return FailedAttempt(by.provider_id, by.name, by.model, Fault.DEADLINE, TimeoutError(text), text)


def exhausted(progress: Progress, retry_after_seconds: float | None) -> Exception:
    """The error that names everyone; it takes the failures with it, so that they are not kept in a cycle."""
    failed, progress.failed = progress.failed, []
    if not failed:
        return NoEligibleProvidersError(progress.not_tried(), retry_after_seconds)
    error = RouterExhaustedError(failed, progress.not_tried(), retry_after_seconds)
    error.__cause__ = failed[-1].error
    return error
