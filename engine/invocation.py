"""One invocation under way: what was asked, at whom it may be tried, and how far it has come."""

from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnout.actors.health import Returned
from turnout.actors.waiting import Turn
from turnout.adapters.contract import NormalizedStream
from turnout.calls import (
    Attempt,
    CallType,
    FilterReason,
    Identity,
    Outcome,
    Reason,
    Report,
    StreamFailurePolicy,
    StreamRestart,
    Usage,
)
from turnout.clock import Clock
from turnout.config import HealthConfig
from turnout.deadline import Deadline, Limit
from turnout.decisions.walk import Size, StreamEnd
from turnout.errors import Exclusion, FailedAttempt, told
from turnout.faults import Failure
from turnout.ids import id_text
from turnout.runtime.gauge import Gauge, Mark
from turnout.runtime.lane import Lane, Token
from turnout.runtime.pace import Pace
from turnout.runtime.steps import Call

_OK = Outcome.OK
_new = tuple.__new__

#: Why a provider cannot take a request: a stable word, and a sentence.
Refusal = tuple[FilterReason, str]


@dataclass(frozen=True, slots=True)
class Target:
    """A provider's place in one engine: who it is, what it owes (``adapters.contract``), its room and its time.

    An attempt made by a worker takes a token of ``pooled_lane``, any other one of ``lane``; they are one and the same
    where the provider has a bound of its own.
    """

    identity: Identity
    provider_id: str
    supports: Callable[[Any], bool]
    why_not: Callable[[Any], Refusal]
    invoke: Callable[[Any, Limit], Any]
    classify: Callable[[Exception], Failure]
    assess: Callable[[Any, Attempt], Outcome]
    usage: Callable[[Any], Usage | None]
    timeout_seconds: float
    max_concurrency: int | None = None
    health: HealthConfig | None = None
    min_interval_seconds: float = 0.0
    enabled: bool = True
    lane: Lane | None = None
    pooled_lane: Lane | None = None
    pace: Pace | None = None
    #: How long a stream's first content is waited for; None: as long as ``timeout_seconds`` says.
    first_token_seconds: float | None = None
    #: How long each further content of it is; None: the same.
    idle_seconds: float | None = None
    #: An error as text without the provider's secrets.
    told: Callable[[BaseException], str] = told
    #: Whether a call under way always ends when its limit does.
    cuttable: bool = True
    context_window: int | None = None
    #: Counts the attempts in flight, streams until their end, where somebody wants to know.
    in_flight: Gauge | None = None

    def granted_seconds(self, call_type: CallType) -> float:
        """How long an attempt may take: for a whole answer, or until a stream's first content."""
        if call_type is CallType.REGULAR or self.first_token_seconds is None:
            return self.timeout_seconds
        return self.first_token_seconds

    @property
    def size(self) -> Size:
        return Size(self.identity.model, self.context_window)


class Invocation(NamedTuple):
    """One thing a caller asked for. ``asked_at`` is monotonic."""

    key: int
    request: Any
    call_type: CallType
    deadline: Deadline
    asked_at: float
    context: Context
    failure_policy: StreamFailurePolicy = StreamFailurePolicy.RESTART
    on_restart: Callable[[StreamRestart], None] | None = None


class UnderWay(NamedTuple):
    """An attempt in flight; ``started`` is monotonic. ``mark`` counts it as long as it is that."""

    by: Identity
    started: float
    mark: Mark | None = None


class Progress:
    """How far an invocation has come. Who walks it writes it, ``report()`` reads it; ``cut`` comes from anywhere."""

    # Written out: made at every call, it takes half the time of a dataclass with default factories.
    __slots__ = (
        "ahead_of_time",
        "answered_by",
        "attempts",
        "benched",
        "cut_reason",
        "exclusions",
        "failed",
        "invocation",
        "limit",
        "outgrown",
        "pooled",
        "queue_seconds",
        "restarts",
        "turn",
        "under_way",
        "unused",
        "waiting_for",
    )

    def __init__(self, invocation: Invocation) -> None:
        self.invocation = invocation
        self.attempts: list[Attempt] = []
        self.failed: list[FailedAttempt] = []
        self.exclusions: list[Exclusion] = []
        self.answered_by: Identity | None = None
        self.queue_seconds = 0.0
        self.restarts = 0
        #: Whom its own attempts benched.
        self.benched: frozenset[str] = frozenset()
        #: What the request was too long for.
        self.outgrown: tuple[Size, ...] = ()
        self.limit: Limit | None = None
        self.cut_reason: str | None = None
        #: Told of where nobody comes back from it.
        self.under_way: UnderWay | None = None
        self.waiting_for = ""
        #: What it may have to hand on, having waited for a bench.
        self.turn: Turn | None = None
        #: What is to be told of a permit that was asked for and that no attempt has taken over.
        self.unused: Returned | None = None
        #: Every provider is benched, and one is tried all the same.
        self.ahead_of_time = False
        #: Whether its attempts take of the workers' share.
        self.pooled = False

    def cut(self, reason: str) -> None:
        """End the invocation now: the attempt in flight is cut, and no other is begun."""
        if self.cut_reason is None:
            self.cut_reason = reason
        if self.limit is not None:
            self.limit.cut(reason)

    def under(self, limit: Limit) -> Limit:
        """From now on, while the walk waits, a cut is for ``limit``; one that came before is for it too."""
        self.limit = limit
        if self.cut_reason is not None:
            limit.cut(self.cut_reason)
        return limit

    def meets_deadline(self) -> None:
        """What was to be done by then is done: from now on there is none."""
        unbounded = Deadline.after(None, self.invocation.deadline.clock)
        self.invocation = self.invocation._replace(deadline=unbounded)

    def lane_at(self, target: Target) -> Lane | None:
        """Where its next attempt at ``target`` takes its room."""
        return target.pooled_lane if self.pooled else target.lane

    def show(self, attempt: Attempt, failed: FailedAttempt | None = None) -> None:
        """From now on the report has it, and errors its failure: whoever sees it there must find its provider's health
        as it left it."""
        self.attempts.append(attempt)
        if failed is not None:
            self.failed.append(failed)
        if attempt.outcome is _OK or attempt.outcome is Outcome.DEGRADED:
            self.answered_by = attempt.by

    def not_tried(self) -> tuple[Exclusion, ...]:
        """Whom it did not go to, and why. One that it had gone to before, or could go to later, is told of by its
        attempts alone."""
        tried = {attempt.by.provider_id for attempt in self.attempts}
        if (under_way := self.under_way) is not None:
            tried.add(under_way.by.provider_id)
        return tuple(one for one in self.exclusions if one.provider_id not in tried)

    def report(self) -> Report:
        return Report(
            id_text(self.invocation.key),
            self.answered_by,
            tuple(self.attempts),
            self.not_tried(),
            self.queue_seconds,
        )


@dataclass(frozen=True, slots=True)
class OpenedStream:
    """A stream for the caller. ``started`` (monotonic) is when its attempt began; ``restart`` is what to announce
    before its first chunk, where it replaces one that broke. ``limit`` is its attempt's."""

    stream: NormalizedStream
    by: Identity
    progress: Progress
    limit: Limit
    started: float
    restart: StreamRestart | None


class Try(Call):
    """One physical try: the call that a driver is to make, what is known from its start, and how it becomes an
    Attempt. Its room was taken before."""

    __slots__ = ("began", "epoch", "permit", "progress", "reason", "started", "target", "token")

    def __init__(
        self,
        target: Target,
        reason: Reason,
        progress: Progress,
        epoch: int,
        clock: Clock,
        token: Token | None = None,
        permit: int | None = None,
    ) -> None:
        invocation = progress.invocation
        self.target = target
        self.reason = reason
        self.progress = progress
        self.epoch = epoch
        self.permit = permit
        self.token = token
        self.began = clock.wall()
        self.started = started = clock.monotonic()
        mark = None if target.in_flight is None else target.in_flight.mark()
        progress.under_way = _new(UnderWay, (target.identity, started, mark))
        self.function = target.invoke
        self.request = invocation.request
        # Each attempt has a copy of its own, so that one does not see what another set.
        self.context = invocation.context.copy()
        until, latest = started + target.timeout_seconds, invocation.deadline.at
        if target.first_token_seconds is not None:
            until = started + target.granted_seconds(invocation.call_type)
        # As progress.under() does it, without the call.
        self.limit = progress.limit = Limit(min(latest, until), clock, latest)
        if progress.cut_reason is not None:
            self.limit.cut(progress.cut_reason)
        if token is not None and target.pace is not None:
            target.pace.begun(started, token)

    def leaves_worker(self) -> None:
        """It goes on without the worker that made it: what bounds workers alone is given back."""
        if self.token is not None and self.token.lane is not self.target.lane:
            self.gives_room_back()

    def gives_room_back(self) -> None:
        """Nothing is in flight any more."""
        token, self.token = self.token, None
        if token is not None:
            token.give_back()

    def ended(
        self,
        now: float,
        outcome: Outcome,
        failure: Failure | None = None,
        usage: Usage | None = None,
        end: StreamEnd | None = None,
    ) -> Attempt:
        """The attempt, over at ``now``. ``end`` is that of the stream it opened, if it did."""
        progress = self.progress
        invocation = progress.invocation
        number = len(progress.attempts) + 1
        opened = None if invocation.call_type is CallType.REGULAR else end is not None
        # What Attempt(...) comes down to, without a call in between that passes on seventeen arguments.
        return _new(
            Attempt,
            (
                invocation.key + number,
                invocation.key,
                number,
                self.reason,
                self.target.identity,
                invocation.call_type,
                self.began,
                now - self.started,
                progress.queue_seconds,
                outcome,
                self.epoch,
                None if failure is None else failure.fault,
                None if failure is None else failure.http_status,
                None if failure is None else failure.error_code,
                None if end is None else end.first_seconds,
                opened,
                usage,
            ),
        )
