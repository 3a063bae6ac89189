"""The engine: invocations in, futures and answers out, over whatever targets it is given."""

import contextvars
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from turnout.actors.health import ProviderHealthReport
from turnout.calls import CallType, StreamFailurePolicy, StreamRestart
from turnout.deadline import Deadline
from turnout.engine_stats import EngineStats
from turnout.errors import (
    DeadlineExceededError,
    ReentrantCallError,
    RouterBusyError,
    RouterClosedError,
    ThreadsStillRunningError,
)
from turnout.future import InvocationFuture, wait_for_all
from turnout.ids import TimeOrderedIds
from turnout.invocation import Invocation, Progress
from turnout.lifetime import living
from turnout.plant import Plant, Setup, built, ended
from turnout.policies.bounds import is_built_in
from turnout.runtime.steps import HandOver, Walk
from turnout.streaming import Reading, RouterStream

#: How long close() gives threads once the calls have ended, where it was given no time itself.
_CLOSE_SECONDS = 30.0
#: How much longer than its timeout a call is waited for that ends at its timeout.
_MARGIN_SECONDS = 60.0
_CLOSED = "the router is closed; build a new one"

OnRestart = Callable[[StreamRestart], None]


class Engine:
    """Submits, invokes, reports, closes."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._closed = False
        self._pending: dict[int, InvocationFuture] = {}
        self._ids = TimeOrderedIds(setup.clock, setup.rng)
        self._building = threading.Lock()
        # Held only by those who close, against each other; a signal handler may close while its thread does.
        self._ending = threading.RLock()
        self._is_ending = False
        self._ended = False
        # What the user's own code is doing cannot be cut, be it a provider's or a policy's.
        self._cuttable = all(target.cuttable for target in setup.targets) and all(
            is_built_in(policy) for policy in (setup.policy, *setup.retry_policies.values())
        )
        self._unbounded = Deadline.after(None, setup.clock)
        self._plant: Plant | None = None
        self._built()

    @property
    def plant(self) -> Plant:
        plant = self._plant
        return plant if plant is not None else self._rebuilt()

    def submit(
        self,
        request: Any,
        call_type: CallType,
        timeout: float | None,
        block: bool,
        failure_policy: StreamFailurePolicy,
        on_restart: OnRestart | None,
    ) -> InvocationFuture:
        """Queue an invocation. With ``block`` it waits for a place at the door, as long as ``timeout`` allows."""
        plant = self._plant or self._rebuilt()
        progress = self._asked(request, call_type, timeout, failure_policy, on_restart)
        progress.pooled = True
        future = InvocationFuture(progress, plant.runtime, self._pending)
        walk = plant.runtime.pooled(plant.walk(progress), self._handed, future.settle)
        future.at_the_door = threading.get_ident()
        try:
            self._pending[future.key] = future
            if timeout is not None:
                future.worker_only = not self._cuttable
                plant.overdue.watch(future)
            future.ticket = plant.runtime.workers.submit(walk, wait_seconds=timeout if block else 0.0)
        except RouterBusyError as busy:
            future.forget()
            if block and timeout is not None and future.deadline.expired():
                raise DeadlineExceededError(timeout, waiting_for="a place in the queue") from busy
            raise
        except BaseException:
            # Where an interrupt came after it was queued, whoever begins it ends it at once.
            future.forget()
            progress.cut("cancelled")
            raise
        return future

    def invoke(
        self,
        request: Any,
        call_type: CallType,
        timeout: float | None,
        failure_policy: StreamFailurePolicy,
        on_restart: OnRestart | None,
    ) -> Any:
        """Walk on the calling thread."""
        plant = self._plant or self._rebuilt()
        progress = self._asked(request, call_type, timeout, failure_policy, on_restart)
        if timeout is not None and not self._cuttable and not plant.runtime.is_run_by_this_thread():
            return self._made_by_worker(plant, progress, timeout)
        return plant.runtime.here(plant.walk(progress), self._handed)

    def _made_by_worker(self, plant: Plant, progress: Progress, timeout: float) -> Any:
        """Have a worker make the call of a thread that must not be held up beyond its deadline, in what cannot be cut.
        That thread's own place is lent to it."""
        future = InvocationFuture(progress, plant.runtime, self._pending)
        future.worker_only = True
        future.at_the_door = threading.get_ident()
        walk = plant.runtime.pooled(plant.walk(progress), self._handed, future.settle)
        try:
            self._pending[future.key] = future
            plant.overdue.watch(future)
            future.ticket = plant.runtime.workers.lend(walk)
            return plant.runtime.awaited(future, timeout + _MARGIN_SECONDS)
        except BaseException:
            # Also an interrupt: nobody waits for it any more.
            future.cancel()
            raise
        finally:
            if future.ticket is not None:
                # Interrupted before, it may not have been lent: a place too many does no harm, one too few stays so.
                plant.runtime.workers.take_back()
            # An error keeps this frame, and the future keeps the error.
            del future, walk

    def health_report(self) -> dict[str, ProviderHealthReport]:
        return self.plant.health.report()

    def reset_health(self, provider_id: str | None) -> None:
        self.plant.health.reset(provider_id)

    def stats(self) -> EngineStats:
        plant = self.plant
        workers = plant.runtime.workers
        in_line, lines = plant.bulkheads.waiting()
        return EngineStats(
            workers=workers.workers,
            max_workers=workers.max_workers,
            queued=workers.waiting,
            pending=sum(not future.done() for future in list(self._pending.values())),
            streams=len(plant.streams),
            in_line=in_line,
            lines=lines,
            unobserved=plant.ordering.missed,
            ledger=plant.ledger.stats(),
            latest=tuple(plant.ledger.recent()),
        )

    def flush(self, timeout: float) -> bool:
        return self._open_plant().ledger.flush(timeout)

    def resize(self, max_workers: int) -> None:
        self._open_plant().bulkheads.resize(max_workers)

    def close(self, timeout: float | None) -> None:
        """Refuse new work, let submitted calls end, write the ledger, end the threads. Idempotent; where it was
        interrupted, or threads would not end, another close goes on with what is left. From a signal handler that
        interrupts a close of its own thread it comes back at once: that one goes on."""
        plant, here = self._plant, threading.get_ident()
        if plant is not None and (
            plant.runtime.is_run_by_this_thread()
            or any(future.maker == here for future in list(self._pending.values()))
        ):
            raise ReentrantCallError(
                "a router cannot be closed from one of its own threads, nor from within a call: it waits for them"
            )
        self._closed = True
        if plant is None:
            return
        end = None if timeout is None else time.monotonic() + timeout
        try:
            if not self._ending.acquire(timeout=-1 if timeout is None else timeout):
                # Another waits for the calls without a time, or with a longer one: this one's is over.
                for future in list(self._pending.values()):
                    future.cancel()
                if not self._ending.acquire(timeout=_CLOSE_SECONDS):
                    raise ThreadsStillRunningError([f"another close() of {self._setup.name}"])
            if not (self._ended or self._is_ending):
                self._end(plant, end)
        finally:
            # Interrupted, it may have it without having been told.
            with suppress(RuntimeError):
                self._ending.release()

    def _end(self, plant: Plant, end: float | None) -> None:
        try:
            self._is_ending = True
            plant.runtime.workers.send_another()
            wait_for_all(self._pending, end)
            for future in list(self._pending.values()):
                future.cancel()
            unended = plant.streams.stop(self._setup.close_targets)
            plant.runtime.stop(_CLOSE_SECONDS if end is None else max(end - time.monotonic(), 1.0))
            if unended:
                raise ThreadsStillRunningError(unended)
            self._ended = True
        finally:
            self._is_ending = False

    def release_files(self) -> None:
        """Before a fork, also during a close: let go of the database, so that no handle is inherited. Raises
        ``ReentrantCallError`` on the ledger's own thread."""
        plant = self._plant
        if plant is not None:
            plant.ledger.release(5.0)

    def forget_parent(self) -> object:
        """In a forked child: build anew at first use. Gives back what must never be touched or collected here."""
        inherited = (self._plant, self._pending, self._building, self._ending)
        for future in self._pending.values():
            future.left_behind = True
        if self._plant is not None:
            self._plant.ledger.forget_parent()
        self._plant = None
        self._ending = threading.RLock()
        self._is_ending = False
        self._pending = {}
        self._building = threading.Lock()
        self._setup.rng.seed(os.urandom(16))
        self._ids = TimeOrderedIds(self._setup.clock, self._setup.rng)
        return inherited

    def _asked(
        self,
        request: Any,
        call_type: CallType,
        timeout: float | None,
        failure_policy: StreamFailurePolicy,
        on_restart: OnRestart | None,
    ) -> Progress:
        if self._closed:
            raise RouterClosedError(_CLOSED)
        clock = self._setup.clock
        # tuple.__new__: what Invocation(...) comes down to, without a call in between at every call.
        invocation = tuple.__new__(
            Invocation,
            (
                self._ids(),
                request,
                call_type,
                self._unbounded if timeout is None else Deadline.after(timeout, clock),
                clock.monotonic(),
                contextvars.copy_context(),
                failure_policy,
                on_restart,
            ),
        )
        return Progress(invocation)

    def _handed(self, walk: Walk, step: HandOver) -> RouterStream:
        plant = self.plant
        return RouterStream(Reading(walk, step.value, plant.runtime, self), plant.streams)

    def _open_plant(self) -> Plant:
        if self._closed:
            raise RouterClosedError(_CLOSED)
        return self.plant

    def _rebuilt(self) -> Plant:
        # Only in a forked child, and only for its first calls.
        with self._building:
            return self._plant or self._built()

    def _built(self) -> Plant:
        # Closed, by the parent or here before it was used, it has nothing to start.
        plant = ended(self._setup) if self._closed else built(self._setup)
        try:
            living(self, plant.runtime.dismiss, plant.streams.dismiss)
            self._plant = plant
        except BaseException:
            # Interrupted: perhaps nobody else knows of its threads.
            with suppress(ThreadsStillRunningError):
                plant.runtime.stop(1.0)
            raise
        return plant
