"""The cast of a play on the stage: providers, callers and readers, all as chance has it.

``play`` is the ``Play`` of ``test_interleavings.py``, which watches them.
"""

import math
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from turnout import (
    Attempt,
    CallType,
    DeadlineExceededError,
    Fault,
    Outcome,
    ProviderStreamInterruptedError,
    RouteError,
    RouterBusyError,
    RouterStream,
    StreamFailurePolicy,
    StreamRestart,
)
from turnout.calls import FilterReason, Identity
from turnout.deadline import Limit
from turnout.faults import Failure
from turnout.future import InvocationFuture
from turnout.invocation import Target, Try
from turnout.policies.retry import RetryContext
from turnout.testing import FINISHED, SILENCE, Pause, Prelude, ScriptedStream

TIMEOUT_SECONDS = 10.0
FAULTS = [
    *[Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.TIMEOUT, Fault.CONNECTION] * 3,
    *[Fault.QUOTA, Fault.AUTH, Fault.BAD_REQUEST],
]  # fmt: skip
#: Where providers have sizes.
SIZED_FAULTS = [*FAULTS, *[Fault.CONTEXT_LENGTH] * 4]

Script = Generator[Any, Any, None]


class ToldError(Exception):
    """A provider's failure, which names its own fault, and the attempt that it is of."""

    def __init__(self, fault: Fault, of: str = "") -> None:
        super().__init__(f"{fault.value} {of}")
        self.fault = fault


#: How a call may end for its caller.
EXPECTED = (RouteError, ProviderStreamInterruptedError, ToldError, OSError, CancelledError, SystemExit)


@dataclass(eq=False)
class Asked:
    """One request, and what is known of it. ``began`` and ``seen`` count events; a cancelled one was never seen."""

    caller: str
    key: int
    call_type: CallType
    began: int
    sent: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    policy: StreamFailurePolicy = StreamFailurePolicy.RESTART
    #: Whether it is the pool's to make. A worker that makes an invoked call is lent for it, beside the pool's own.
    submitted: bool = False
    #: Whether its attempt occupies a worker.
    occupies: bool = False
    seen: int | None = None
    #: Of the attempts, those that its caller could see by then. A call given up leaves its last one behind.
    shown: int = 0
    resolved: int = 0
    cancelled_at: float = math.inf
    #: When its time is over.
    until: float = math.inf


@dataclass
class Provider:
    """Answers as chance has it."""

    name: str
    width: int | None
    interval: float
    play: Any
    first_token: float | None = None
    window: int | None = None
    #: By request, the event at which it was called.
    in_flight: dict[int, int] = field(default_factory=dict)
    #: By request, those that began on a worker.
    pooled: dict[int, Asked] = field(default_factory=dict)

    def target(self) -> Target:
        return Target(
            identity=Identity(self.name, self.name, "model"),
            provider_id=self.name,
            supports=lambda request: True,
            why_not=lambda request: (FilterReason.UNSUPPORTED, "never"),
            invoke=self.invoke,
            classify=self.classify,
            assess=self.assess,
            usage=lambda value: None,
            timeout_seconds=TIMEOUT_SECONDS,
            max_concurrency=self.width,
            min_interval_seconds=self.interval,
            first_token_seconds=self.first_token,
            context_window=self.window,
        )

    def invoke(self, asked: Asked, limit: Limit) -> Any:
        play, rng = self.play, self.play.rng
        asked.sent.append(self.name)
        self.in_flight[asked.key] = len(play.stage.trace)
        play.claim(self.width is None or len(self.in_flight) <= self.width, f"{self.name} is over its width")
        if rng.random() < 0.2:
            return self.later(asked)
        if self.width is None and asked.submitted and play.stage.owns_this_thread():
            self.pooled[asked.key] = asked
            asked.occupies = True
            there = [one.began for one in self.pooled.values() if one.occupies]
            share = play.widest_share_since(min(there))
            play.claim(share is None or len(there) <= share, f"{self.name} is over its share")
        if rng.random() < 0.01:
            raise SystemExit("a callback may raise anything")
        return self.answer(asked)

    async def later(self, asked: Asked) -> Any:
        for _ in range(self.play.rng.randrange(4)):
            await Pause()
        if self.play.rng.random() < (0.2 if self.first_token is None else 0.6):
            await SILENCE
        return self.answer(asked)

    def answer(self, asked: Asked) -> Any:
        if self.play.rng.random() < self.play.weather:
            raise self.failure(asked.key, len(asked.sent))
        return "answer" if asked.call_type is CallType.REGULAR else self.stream((asked.key, len(asked.sent)))

    def failure(self, key: int, number: int) -> Exception:
        of, faults = f"{key}/{number}", FAULTS if self.window is None else SIZED_FAULTS
        return (
            ToldError(self.play.rng.choice(faults), of)
            if self.play.rng.random() < 0.9
            else OSError(f"a raw one {of}")
        )

    def stream(self, of: tuple[int, int]) -> ScriptedStream:
        rng = self.play.rng
        chunks: list[Any] = [(*of, number) for number in range(rng.randrange(5))]
        # Some streams open with chunks that say nothing, and some never say anything.
        for number in range(min(rng.choice([0, 1, 1, 2, 5]), len(chunks))):
            chunks[number] = Prelude(chunks[number])
        drawn = rng.random()
        if drawn < self.play.weather:
            return ScriptedStream([*chunks, self.failure(*of)])
        if drawn < self.play.weather + 0.2:
            return ScriptedStream(chunks)
        last = (*of, len(chunks))
        return ScriptedStream([*chunks, Prelude(last) if rng.random() < 0.3 else last, FINISHED])

    def assess(self, value: Any, attempt: Attempt) -> Outcome:
        drawn = self.play.rng.random()
        if drawn < 0.02:
            raise ToldError(Fault.UNKNOWN)
        return Outcome.INVALID if drawn < 0.05 else Outcome.DEGRADED if drawn < 0.1 else Outcome.OK

    def classify(self, error: Exception) -> Failure:
        if self.play.rng.random() < 0.02:
            raise error
        return Failure(error.fault if isinstance(error, ToldError) else Fault.UNKNOWN, str(error))


class Again:
    """A retry policy that wants whatever it is asked about, after ``seconds``."""

    max_attempts = 3
    max_wait_seconds = 100.0

    def __init__(self, seconds: float) -> None:
        self.wait = lambda state: seconds

    def should_retry(self, context: RetryContext) -> bool:
        return True


class Callers:
    """What callers do, drawn anew at every turn."""

    def __init__(self, play: Any) -> None:
        self.play = play

    def caller(self, name: str) -> Script:
        for _ in range(self.play.rng.randint(3, 8)):
            yield from self.play.rng.choice(
                [
                    self.submits,
                    self.submits,
                    self.invokes,
                    self.invokes,
                    self.cancels,
                    self.resets_health,
                    self.resizes,
                    self.lets_time_pass,
                ]
            )(name)

    def begin(self, name: str, door: Callable[..., Any], call_type: CallType) -> tuple[Asked, Any, "Reader"]:
        rng = self.play.rng
        asked = Asked(name, self.play.keys(), call_type, len(self.play.stage.trace))
        self.play.asked[asked.key] = asked
        asked.submitted = door == self.play.engine.submit
        asked.policy = rng.choice(
            [StreamFailurePolicy.RAISE, *[StreamFailurePolicy.HOLD] * 2, *[StreamFailurePolicy.RESTART] * 3]
        )
        reader = Reader(self.play, asked)
        timeout = rng.choice([None, None, 1.0, 20.0] if call_type is CallType.REGULAR else [3.0, 30.0])
        asked.until = self.play.stage.clock.monotonic() + (math.inf if timeout is None else timeout)
        more: dict[str, Any] = {"block": rng.random() < 0.3} if door == self.play.engine.submit else {}
        future = door(
            asked,
            call_type,
            timeout=timeout,
            failure_policy=asked.policy,
            on_restart=rng.choice([None, *[reader.restarted] * 2]),
            **more,
        )
        self.play.futures[asked.key] = self.play.waiting[asked.key] = future
        if timeout is not None:
            self.play.bounded[asked.key] = future
        future.add_done_callback(lambda future: setattr(asked, "resolved", asked.resolved + 1))
        return asked, future, reader

    def submits(self, name: str) -> Script:
        begun = []
        # Whoever holds a stream unread, and waits for another call meanwhile, may be in its own way.
        call_types = self.play.rng.choice(
            [[CallType.STREAMING], [CallType.REGULAR] * self.play.rng.randint(1, 3)]
        )
        for call_type in call_types:
            with suppress(RouterBusyError, DeadlineExceededError):
                begun.append(self.begin(name, self.play.engine.submit, call_type))
            yield
        for asked, future, reader in begun:
            yield from self.awaits(asked, future, reader)

    def invokes(self, name: str) -> Script:
        yield from self.awaits(
            *self.begin(name, self.play.engine.invoke, self.play.rng.choice(list(CallType)))
        )

    def awaits(self, asked: Asked, future: "Future[Any]", reader: "Reader") -> Script:
        try:
            answer = yield future
        except EXPECTED:
            pass
        else:
            if isinstance(answer, RouterStream):
                if self.play.rng.random() < 0.2:
                    self.play.stage.caller(f"{asked.caller} closes", reader.closes(answer))
                yield from reader.reads(answer)
        asked.seen = len(self.play.stage.trace)
        asked.shown = len(
            future.report().attempts if isinstance(future, InvocationFuture) else asked.attempts
        )

    def cancels(self, name: str) -> Script:
        try:
            asked, future, reader = self.begin(
                name, self.play.engine.submit, self.play.rng.choice(list(CallType))
            )
        except (RouterBusyError, DeadlineExceededError):
            return
        for _ in range(self.play.rng.randrange(12)):
            yield
        if future.cancel():
            asked.cancelled_at = self.play.stage.clock.monotonic()
        else:
            yield from self.awaits(asked, future, reader)

    def resets_health(self, name: str) -> Script:
        provider = self.play.rng.choice([None, *self.play.providers])
        before = len(self.play.stage.trace)
        self.play.resetting += 1
        self.play.engine.reset_health(provider)
        self.play.resetting -= 1
        self.play.resets.append((provider, before, len(self.play.stage.trace)))
        yield

    def resizes(self, name: str) -> Script:
        self.play.resize(self.play.rng.randint(1, 5))
        yield

    def lets_time_pass(self, name: str) -> Script:
        self.play.stage.clock.advance(self.play.rng.choice([0.5, 5.0, 30.0, 60.0, 60.0]))
        yield


class Reader:
    """Reads one stream, and expects one whole answer or an error."""

    def __init__(self, play: Any, asked: Asked) -> None:
        self.play = play
        self.asked = asked
        self.chunks: list[tuple[int, int, int]] = []
        self.closed = False

    def restarted(self, restart: StreamRestart) -> None:
        self.play.claim(
            restart.chunks_yielded == len(self.chunks) > 0, "a restart says how much to discard, if anything"
        )
        self.play.claim(self.asked.policy is StreamFailurePolicy.RESTART, "a restart that nobody asked for")
        self.chunks.clear()
        if self.play.rng.random() < 0.1:
            raise ToldError(Fault.UNKNOWN)

    def reads(self, stream: RouterStream) -> Script:
        whole = False
        while not whole:
            yield
            if self.play.rng.random() < 0.1:
                break
            try:
                self.chunks.append(next(stream))
            except StopIteration:
                whole = True
            except EXPECTED:
                assert not self.chunks or self.asked.policy is not StreamFailurePolicy.HOLD, (
                    "held, and broken"
                )
                break
            else:
                self.saw_no_more_than_it_may(stream)
        self.close(stream, by_reader=True)
        if self.chunks:
            last = self.chunks[-1]
            assert self.chunks == [(*last[:2], n) for n in range(len(self.chunks))], "two answers were joined"
        if whole and not self.closed:
            assert self.chunks, "an empty answer is none"
            assert self.asked.attempts[-1].outcome is Outcome.OK, "the end of an answer that was not whole"

    def saw_no_more_than_it_may(self, stream: RouterStream) -> None:
        ended = bool(self.asked.attempts) and self.asked.attempts[-1].key == self.newest_key()
        if self.asked.policy is StreamFailurePolicy.HOLD:
            assert ended, "handed out before it was whole"
        assert ended or stream._reading.stream.has_content, "a prelude was handed out"

    def newest_key(self) -> int:
        return self.asked.key + len(self.asked.sent)

    def closes(self, stream: RouterStream) -> Script:
        for _ in range(self.play.rng.randrange(6)):
            yield
        self.close(stream)

    def close(self, stream: RouterStream, *, by_reader: bool = False) -> None:
        self.closed = self.closed or not by_reader
        stream.close()


class Cast:
    """All of them, for a test file that cannot import this one."""

    asked = Asked
    provider = Provider
    again = Again
    callers = Callers


@pytest.fixture
def cast() -> Cast:
    return Cast()


@pytest.fixture(autouse=True)
def witnessed_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that waits to be handed out, until its rows are committed, has left its worker."""
    leave = Try.leaves_worker

    def witnessed(this: Try) -> None:
        asked = this.progress.invocation.request
        if isinstance(asked, Asked):
            asked.occupies = False
        leave(this)

    monkeypatch.setattr(Try, "leaves_worker", witnessed)
