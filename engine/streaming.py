"""The stream that a caller reads, and what becomes of streams that nobody reads to their end."""

import math
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any, Self

from loguru import logger

from turnout.calls import Report
from turnout.deadline import DEADLINE
from turnout.decisions.holding import Held, of_held
from turnout.decisions.walk import StreamEnd
from turnout.endings import late, too_long
from turnout.errors import ProviderStreamInterruptedError, ReentrantCallError
from turnout.invocation import OpenedStream, Progress
from turnout.reaper import StreamRegistry
from turnout.runtime.contract import Runtime
from turnout.runtime.steps import HandOver, Walk
from turnout.runtime.tokens import Tokens
from turnout.traces import let_go_of_frames


class Reading:
    """One stream being read: drives the rest of its walk whenever the provider's stream ends or breaks. Chunks that may
    still be thrown away unseen are held back; once they flow, each is handed out as it comes.

    One thread reads; any may close. Whoever holds the turn drives the walk: where a reader is inside, ``close`` wakes
    it, and it ends the stream on its way out.
    """

    def __init__(self, walk: Walk, opened: OpenedStream, runtime: Runtime, router: object) -> None:
        self.progress: Progress = opened.progress
        self.over = False
        self._closing = False
        self._goes_on = True
        self._pid = os.getpid()
        self._walk = walk
        self._runtime = runtime
        # Held: the threads of a router that is dropped end, and this has yet to tell them what became of the stream.
        self._router = router
        self._turn = Tokens(1)
        self._open(opened)

    def _open(self, opened: OpenedStream) -> None:
        self.stream = opened.stream
        self._by = opened.by
        self._limit = opened.limit
        self._started = opened.started
        #: What is held is handed out; and, until content was, whatever comes must come by the invocation's deadline.
        self._flows = False
        self._due = True
        self._chunks = 0
        self._held: deque[Any] = deque()
        self._first_seconds: float | None = None

    def next_chunk(self) -> Any:
        """The next chunk, from whichever provider is answering; StopIteration after the end."""
        if os.getpid() != self._pid:
            # The actors that its walk would ask have no threads here.
            raise ProviderStreamInterruptedError(
                "this stream was opened before fork(); open another in the child"
            )
        if not self._turn.take():
            if self._closing:
                # Whoever closes it has the turn.
                raise StopIteration
            raise ReentrantCallError("this stream is being read already; a stream has one reader")
        try:
            return self._read()
        except Exception as raised:
            if not isinstance(raised, StopIteration):
                # What was read keeps its error, and an error its frames: their contents would be a cycle.
                let_go_of_frames(raised)
            raise
        finally:
            self._turn.give()
            if self._closing:
                self.close()

    def close(self) -> None:
        """End it now. Final and idempotent; never a restart. A forked child leaves it to its parent."""
        if os.getpid() != self._pid:
            return
        self._closing = True
        if self.over:
            return
        if self._turn.take():
            try:
                self._end()
            finally:
                self._turn.give()
        else:
            self.stream.close()
            # The reader may be at the next provider already, waiting for a stream to open.
            self.progress.cut("closed")

    def _read(self) -> Any:
        while not self._closing:
            if self._held and self._flows:
                return self._held.popleft()
            if self.over:
                break
            try:
                chunk = next(self.stream)
                if not self._chunks:
                    self._first_seconds = self._runtime.clock.monotonic() - self._started
                self._chunks += 1
                if not self._due:
                    return chunk
                self._hold(chunk)
                continue
            except StopIteration:
                error: Exception | None = None
            except Exception as raised:
                error = raised
            try:
                self._go_on(error)
            except CancelledError:
                if not self._closing:
                    raise
        raise StopIteration

    def _hold(self, chunk: Any) -> None:
        """Keep a chunk back, and see whether that is still to be."""
        self._held.append(chunk)
        if self._runtime.clock.monotonic() >= self._limit.latest:
            # Of a stream of the user's own: others are cut in time.
            self._limit.cut(DEADLINE)
            self._flows = False
            raise late(self._by)
        content = self.stream.has_content
        if not self._flows:
            match of_held(self.progress.invocation.failure_policy, content, len(self._held)):
                case Held.RELEASED:
                    self._flows = True
                case Held.TOO_MANY:
                    raise too_long(self._by, len(self._held))
                case Held.KEPT:
                    pass
        if content and self._flows:
            if self._limit.latest != math.inf:
                # The deadline is met: what comes now, be it from another provider, has times of its own.
                self._limit.latest = math.inf
                self.progress.meets_deadline()
            self._due = False

    def _end(self) -> None:
        if self.over:
            return
        self.over = True
        # What it is worth is settled before it is closed: some streams call themselves complete once they are.
        end = StreamEnd(self._chunks, False, True, self._first_seconds, closed=True)
        try:
            end = self._ended(None, closed=True)
            self.stream.close()
        finally:
            # Also where the stream cannot even be asked: its walk gives back what it holds.
            self._runtime.here(self._walk, self._handed_late, end)

    def _go_on(self, error: Exception | None) -> None:
        if self._closing:
            return
        end = self._ended(error, closed=False)
        try:
            self.stream.close()
        except Exception as raised:
            # It is done with, and the walk has more to go on to.
            logger.debug("{}: a stream did not close cleanly: {!r}", self._by.described, raised)
        self._goes_on = False
        try:
            self._runtime.here(self._walk, self._handed, end)
            if not self._goes_on:
                # An answer, and so whole: what is still held is handed out as it came.
                self._flows = True
        except BaseException:
            if not self._goes_on:
                # An interrupt may have come before the walk went on: it must not keep what it holds.
                self._walk.close()
            raise
        finally:
            # Over unless the walk handed over another stream; also when it raised.
            self.over = self.over or not self._goes_on
            if self.over and not self._flows:
                self._held.clear()

    def _ended(self, error: Exception | None, *, closed: bool) -> StreamEnd:
        given = self._chunks - len(self._held)
        completed = False
        try:
            completed = self.stream.completed
        except Exception as raised:
            # That provider's failure, not the walk's.
            error = error or raised
        return StreamEnd(self._chunks, completed, given, self._first_seconds, error, closed)

    def _handed(self, walk: Walk, step: HandOver) -> None:
        opened: OpenedStream = step.value
        self._open(opened)
        self._goes_on = True
        restart = opened.restart
        if restart is None or not restart.chunks_yielded:
            return
        on_restart = self.progress.invocation.on_restart
        if on_restart is None:
            raise AssertionError("a stream that was seen is restarted only where somebody discards it")
        try:
            on_restart(restart)
        except StopIteration as stopped:
            # To whoever iterates it would look like the end of a whole answer.
            self._end()
            raise RuntimeError("on_restart raised StopIteration") from stopped
        except BaseException:
            # Nobody has discarded what came before, so nothing may follow it.
            self._end()
            raise

    def _handed_late(self, walk: Walk, step: HandOver) -> None:
        raise AssertionError("a closed stream is never restarted")


class RouterStream:
    """The SDK's own chunks, in order, with the router still watching.

    What comes before the first content is handed out with it, and from then on every chunk at once; under
    ``StreamFailurePolicy.HOLD`` none before the answer is whole. A stream that breaks before anything was handed out is
    started over on the next provider; after that, only where ``on_restart`` was given, which is told what to discard.
    For one consumer: one thread reads it. Close it, or use it as a context manager, when leaving before its end.
    """

    def __init__(self, reading: Reading, registry: "StreamRegistry") -> None:
        self._registry = registry
        self._ticket = registry.ticket()
        # Last: what has it is closed when it is dropped.
        self._reading = reading
        try:
            registry.hold(self._ticket, reading)
        except BaseException:
            # An interrupt while the reaper starts: nobody would ever close it.
            reading.close()
            registry.release(self._ticket)
            raise

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        reading = self._reading
        try:
            return reading.next_chunk()
        finally:
            if reading.over:
                self._registry.release(self._ticket)

    @property
    def usage(self) -> Any:
        """The SDK's own usage object of the provider that is answering; None where none came (yet)."""
        return self._reading.stream.usage

    @property
    def restarts(self) -> int:
        """How often it was started over on another provider."""
        return self._reading.progress.restarts

    def report(self) -> Report:
        """Who answered, every attempt and exclusion so far."""
        return self._reading.progress.report()

    def close(self) -> None:
        """Release the provider's connection; iterating stops. Success counts only if the end mark had come."""
        try:
            self._reading.close()
        finally:
            self._registry.release(self._ticket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Only a ticket: closing an SDK's stream inside garbage collection can wait for a lock this thread holds.
        reading = getattr(self, "_reading", None)
        if reading is not None and not reading.over:
            self._registry.abandon(self._ticket)
