"""The owner of the store: it writes what happened, in batches, on no caller's time."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from loguru import logger

from turnout.actors.overflow import Overflow
from turnout.calls import Attempt
from turnout.clock import Clock
from turnout.errors import RouterBusyError, RouterClosedError, StorageDriverMissingError, told
from turnout.runtime.contract import ActorRef, Runtime
from turnout.runtime.tokens import Tokens
from turnout.storage.attempts import AttemptRows
from turnout.storage.contract import MetricsStore
from turnout.traces import trace_of

#: After so many ticks without a row the writer sleeps until it is rung.
_QUIET_TICKS: Final = 20
#: How many batches one write takes together when rows have piled up.
_PILED_BATCHES: Final = 4
_FIRST_RETRY_SECONDS: Final = 0.1
_LAST_PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)
_LONGEST_RETRY_SECONDS: Final = 30.0


class Writing(Protocol):
    """The settings of the writer; see ``LedgerConfig``."""

    @property
    def batch_rows(self) -> int: ...
    @property
    def flush_seconds(self) -> float: ...
    @property
    def max_rows(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LedgerStats:
    """Rows written, waiting in memory, and dropped: too many waited, or they came after the end. ``failing`` says why
    the store cannot be written to now."""

    written: int = 0
    waiting: int = 0
    dropped: int = 0
    failing: str | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    """Write what was told before this. Replied: whether all of it was written."""


@dataclass(frozen=True, slots=True)
class Release:
    """Write what waits, then let go of the database until the next row. Replied as for a flush."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Rows wait: told to a writer that sleeps, or when a batch is full."""


class Writer:
    """Drains rows on a tick, by size, and on flush. Used by its actor alone, but for ``incoming`` and what it shows.

    Rows come by a deque, which wakes nobody and whose ends are each one step: a put that wakes a thread costs the
    caller ten times more. ``bell`` holds one token while the writer wants to be rung; whoever takes it rings.
    """

    def __init__(
        self,
        store: MetricsStore,
        metrics_scope: str,
        config: Writing,
        clock: Clock,
        *,
        closes_store: bool,
    ) -> None:
        self._store = store
        self._scope = metrics_scope
        self._batch_rows = config.batch_rows
        self._flush_seconds = config.flush_seconds
        self._max_rows = config.max_rows
        self._clock = clock
        self._closes_store = closes_store
        self._retry_wait = _growing_waits()
        self._pending: list[Attempt] = []
        self._quiet = 0
        self._failures = 0
        self._try_at = 0.0
        self.incoming: deque[Attempt] = deque()
        self.bell = Tokens()
        self.asleep = False
        self.closed = False
        self.keeps = True
        self.written = 0
        #: Left unwritten at the end, or for want of a driver.
        self.unwritten = 0
        self.overflow = Overflow(config.max_rows, clock)
        self.held = 0
        self.failing: str | None = None

    def receive(self, message: Flush | Release | Ring) -> bool:
        match message:
            case Flush():
                return self._write_now()
            case Release():
                written = self._write_now()
                release = getattr(self._store, "release", None)
                if release is not None:
                    release()
                return written
            case Ring():
                return True
            case _:
                assert_never(message)

    def rest(self) -> float | None:
        self.asleep = False
        had_rows = self._take_in()
        if self._clock.monotonic() >= self._try_at:
            self._write()
        if not self._pending:
            self.overflow.tell()
        self._quiet = 0 if had_rows else self._quiet + 1
        if not self.bell:
            self.bell.give()
        if self._quiet < _QUIET_TICKS or not self.overflow.is_over:
            return self._flush_seconds
        self.asleep = True
        # Who put a row just before could not know that a ring was wanted.
        return self._flush_seconds if self.incoming else None

    def ended(self) -> None:
        self.closed = True
        written = self._write_now()
        # A store that fails just now is tried again, on this thread's own time.
        for pause_seconds in _LAST_PAUSES_SECONDS:
            if written:
                break
            time.sleep(pause_seconds)
            written = self._write_now()
        if not written and self._pending:
            logger.warning("the ledger ends, rows unwritten: {} ({})", len(self._pending), self.failing)
            self.unwritten += len(self._pending)
            self._pending.clear()
            self.held = 0
        self.overflow.tell(at_last=True)
        if self._closes_store:
            self._store.close()

    def _write_now(self) -> bool:
        self._take_in()
        return self._write()

    def _take_in(self) -> bool:
        """Take what came, as far as there is room; whether any rows wait."""
        pending, take = self._pending, self.incoming.popleft
        try:
            if self.keeps:
                for _ in range(self._max_rows - len(pending)):
                    pending.append(take())
            while True:
                take()
                self.refuse()
        except IndexError:
            # Nothing is left: also where a late caller counts its row as lost at this moment.
            self.held = len(pending)
        return bool(pending)

    def refuse(self) -> None:
        """Count a row that cannot be kept."""
        if self.keeps:
            self.overflow.warn(self.failing)
        else:
            self.overflow.add()

    def _write(self) -> bool:
        """Write what waits; whether none is left."""
        while self._pending:
            rows = AttemptRows(self._pending[: self._batch_rows * _PILED_BATCHES], self._scope)
            try:
                self._store.record_attempts(rows)
            except BaseException as error:
                self._failed(error)
                return False
            self._succeeded(rows)
        return True

    def _succeeded(self, rows: AttemptRows) -> None:
        del self._pending[: len(rows)]
        self.held = len(self._pending)
        self.written += len(rows)
        if self._failures:
            logger.info("the ledger can be written again; {} rows waited", len(rows) + len(self._pending))
            self._failures, self._try_at, self.failing = 0, 0.0, None

    def _failed(self, error: BaseException) -> None:
        self._failures += 1
        self._try_at = self._clock.monotonic() + self._retry_wait(self._failures)
        self.failing = told(error)
        if isinstance(error, StorageDriverMissingError):
            logger.warning("the ledger keeps nothing: {}", error)
            self.keeps = False
            self.unwritten += len(self._pending)
            self._pending.clear()
            self.held = 0
        elif self._failures == 1:
            logger.warning("the ledger cannot be written ({}); calls go on, rows wait", self.failing)
            logger.trace("why the ledger cannot be written:\n{}", trace_of(error))
        else:
            logger.debug("the ledger still cannot be written: {}", self.failing)


class Ledger:
    """What others hold of it. ``put`` costs one queue put."""

    def __init__(
        self,
        store: MetricsStore,
        metrics_scope: str,
        config: Writing,
        runtime: Runtime,
        *,
        closes_store: bool,
    ) -> None:
        self._writer = Writer(
            store,
            metrics_scope,
            config,
            runtime.clock,
            closes_store=closes_store,
        )
        self._leaves_by_itself = bool(getattr(store, "ends_at_fork", False))
        self._incoming = self._writer.incoming
        self._batch_rows = config.batch_rows
        self._max_rows = config.max_rows
        self._actor: ActorRef = runtime.actor("ledger", self._writer)

    def put(self, attempt: Attempt) -> None:
        """Record an attempt. Never waits; past ``max_rows`` the row is dropped and counted."""
        writer, incoming = self._writer, self._incoming
        waiting = len(incoming)
        # A look, not a token: at most one row more per thread than max_rows, and half the price on every call.
        if waiting + writer.held >= self._max_rows or not writer.keeps:
            writer.refuse()
            return
        incoming.append(attempt)
        if (writer.asleep or waiting >= self._batch_rows) and writer.bell.take():
            self._actor.tell(Ring())
        if writer.closed:
            self._count_late()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until what was told before is written; False where that failed or took longer."""
        return self._asked(Flush(), timeout_seconds)

    def release(self, timeout_seconds: float) -> bool:
        """Let go of the database until the next row, unless its store does so itself where a process forks: that may
        have begun, and hold up whoever asks for more."""
        return self._leaves_by_itself or self._asked(Release(), timeout_seconds)

    def stats(self) -> LedgerStats:
        writer = self._writer
        return LedgerStats(
            written=writer.written,
            waiting=len(self._incoming) + writer.held,
            dropped=writer.overflow.count + writer.unwritten,
            failing=writer.failing,
        )

    def _asked(self, message: Flush | Release, timeout_seconds: float) -> bool:
        try:
            return bool(self._actor.ask(message, timeout_seconds))
        except (TimeoutError, RouterBusyError, RouterClosedError):
            return False

    def _count_late(self) -> None:
        while True:
            try:
                self._incoming.popleft()
            except IndexError:
                return
            self._writer.overflow.add()
            logger.debug("an attempt that ended after close() was not recorded")


def _growing_waits() -> Callable[[int], float]:
    # Imported here: tenacity brings asyncio, which `import turnout` alone does not need.
    from tenacity import RetryCallState, Retrying, wait_exponential

    wait = wait_exponential(multiplier=_FIRST_RETRY_SECONDS, max=_LONGEST_RETRY_SECONDS)
    state = RetryCallState(Retrying(), None, (), {})

    def seconds(failures: int) -> float:
        state.attempt_number = failures
        return float(wait(state))

    return seconds
