"""The owner of the store: it writes what happened, in batches, on no caller's time.

Where the store cannot take rows they go to spool files (``Standby``), which a crash does not take away, and on to the
store once it can be written again. Rows wait in memory for as long as neither takes them.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

from loguru import logger

from turnout.actors.ledger_messages import (
    Answered,
    Commit,
    Flush,
    Observed,
    Questions,
    Release,
    Ring,
    Told,
    Unanswered,
)
from turnout.actors.overflow import Overflow
from turnout.actors.standby import Standby
from turnout.actors.trials import Trials
from turnout.actors.writing import Writing
from turnout.attempts import WIDTH, Attempts
from turnout.clock import Clock
from turnout.decisions.aggregates import ScoreAggregateQuery, checked_aggregates
from turnout.errors import RouterClosedError, StorageDriverMissingError, StorageError, told
from turnout.policies.contract import Answers
from turnout.runtime.contract import ActorRef
from turnout.runtime.tally import Tally
from turnout.runtime.tokens import Tokens
from turnout.storage.attempts import AttemptRows
from turnout.storage.contract import MetricsStore
from turnout.storage.rows import Row

#: After so many ticks without a row the writer sleeps until it is rung.
_QUIET_TICKS: Final = 20
#: How many batches one write takes together when rows have piled up.
_PILED_BATCHES: Final = 4
_LAST_PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)
#: A store that takes its time to say no is not asked again and again at the end.
_LAST_SECONDS: Final = 2.0
#: How many of the latest attempts are kept for whoever asks how it goes.
RECENT: Final = 4_096


class Writer:
    """Drains rows on a tick, by size, on flush and for who waits for a commit. Used by its actor alone, but for
    ``incoming``, ``recent`` and what it shows.

    Rows come by a deque, which wakes nobody and whose ends are each one step: a put that wakes a thread costs the
    caller ten times more. ``bell`` holds one token while the writer wants to be rung; whoever takes it rings.
    """

    def __init__(
        self,
        store: MetricsStore | None,
        metrics_scope: str,
        config: Writing,
        clock: Clock,
        standby: Standby,
        *,
        closes_store: bool,
    ) -> None:
        self._store = store
        self._scope = metrics_scope
        self._batch_rows = config.batch_rows
        self._flush_seconds = config.flush_seconds
        self._max_rows = config.max_rows
        self._clock = clock
        self._durable = config.is_durable
        if self._durable and callable(make_durable := getattr(store, "make_durable", None)):
            make_durable()
        self._closes_store = closes_store
        #: As in ``Attempts``.
        self._pending: list[Any] = []
        self._commits: list[Callable[[bool], None]] = []
        self._quiet = 0
        self._trials = Trials(clock)
        self.standby = standby
        self.incoming: list[Any] = []
        self.recent: list[Any] = []
        #: Who is told of every attempt, in one order with the store's answers.
        self.learner: ActorRef | None = None
        self.unobserved = 0
        #: Calls whose answers were not held back until their rows were safe.
        self.uncommitted = Tally()
        self.bell = Tokens()
        self.asleep = False
        self.closed = False
        self.keeps = store is not None
        self.written = 0
        #: Left unwritten at the end, or for want of a driver.
        self.unwritten = 0
        self.overflow = Overflow(config.max_rows, clock)
        self.held = 0

    def receive(self, message: Told) -> object:
        if self.closed:
            return self._too_late(message)
        match message:
            case Flush():
                return self._write_now()
            case Release():
                written = self._write_now(mine=True)
                self.standby.seal()
                release = getattr(self._store, "release", None)
                if release is not None:
                    release()
                return written
            case Commit():
                # Served at rest, together with all that came with it.
                self._commits.append(message.done)
                return None
            case Questions(queries, None):
                return self._answers(queries)
            case Questions(queries, to):
                assert to is not None
                self._tell_answers(queries, to)
                return None
            case Ring():
                return True
            case _:
                assert_never(message)

    def _too_late(self, message: Told) -> object:
        late = len(self.incoming) // WIDTH
        if late:
            del self.incoming[: late * WIDTH]
            self.overflow.add(late)
            logger.debug("attempts that ended after close() were not recorded: {}", late)
        match message:
            case Ring():
                return None
            case Commit(done):
                done(False)
                return None
            case Questions(_, to) if to is not None:
                return to.tell(Unanswered("the router is closed"))
            case Flush() | Release() | Questions():
                raise RouterClosedError("the ledger has ended; the router is closed")
            case _:
                assert_never(message)

    def rest(self) -> float | None:
        self.asleep = False
        had_rows = self._take_in()
        safe = self._written()
        self._serve_commits(safe)
        if self.keeps and self._trials.may_replay and self.standby.is_due:
            self._replayed()
        if not self._pending:
            self.overflow.tell()
        self._quiet = 0 if had_rows else self._quiet + 1
        if not self.bell:
            self.bell.give()
        if self.standby.is_busy:
            # One file a turn: what is told meanwhile does not wait for all of them.
            return 0.0
        if self._quiet < _QUIET_TICKS or not self.overflow.is_over:
            return self._flush_seconds
        self.asleep = True
        # Who put a row just before could not know that a ring was wanted.
        return self._flush_seconds if self.incoming else self.standby.look_seconds

    def ended(self) -> None:
        self.closed = True
        written = self._write_now(mine=True)
        end = time.monotonic() + _LAST_SECONDS
        # A store that fails just now is tried again, on this thread's own time.
        for pause_seconds in _LAST_PAUSES_SECONDS:
            if written or time.monotonic() > end:
                break
            time.sleep(pause_seconds)
            written = self._write_now(mine=True)
        self._serve_commits(written)
        if self._pending:
            rows = len(self._pending) // WIDTH
            logger.warning("the ledger ends, rows unwritten: {} ({})", rows, self.failing)
            self.unwritten += rows
            self._pending.clear()
            self.held = 0
        self.standby.close(self.failing)
        self.overflow.tell(at_last=True)
        if self._closes_store and self._store is not None:
            self._store.close()

    @property
    def failing(self) -> str | None:
        """Why the store cannot be written to now."""
        return self._trials.failing

    def refuse(self) -> None:
        """Count a row that there is no room for."""
        self.overflow.warn(self.failing)

    def _write_now(self, *, mine: bool = False) -> bool:
        """Write what came, and what waits in files (with ``mine``, in this router's own), though the store were to be
        left in peace; whether it has all of this router's."""
        self._take_in()
        self._trials.hurry()
        self.standby.try_all()
        self._serve_commits(self._written())
        while self.keeps and self._replayed(mine=mine):
            self._take_in()
            self._serve_commits(self._written())
        return not self._pending and self.standby.is_clear

    def _take_in(self) -> bool:
        """Take what came, as far as there is room; whether any rows wait."""
        pending = self._pending
        taken = self.incoming[:]
        del self.incoming[: len(taken)]
        room = self._max_rows * WIDTH - len(pending)
        for _ in range(room, len(taken), WIDTH):
            self.refuse()
        del taken[room:]
        pending += taken
        self.held = len(pending)
        if taken:
            self._show(taken)
        if self._store is None:
            pending.clear()
            self.held = 0
        return bool(pending)

    def _show(self, taken: list[Any]) -> None:
        recent = self.recent
        recent += taken
        del recent[: -RECENT * WIDTH]
        if self.learner is not None and not self.learner.tell(Observed(Attempts(taken))):
            self.unobserved += len(taken) // WIDTH

    def _written(self) -> bool:
        """Have what waits written to the store, or, where it fails, to the spool. Whether none is left in memory."""
        while self._pending:
            piled = self._batch_rows * _PILED_BATCHES if not self._trials.is_outage else self._batch_rows
            rows = AttemptRows(Attempts(self._pending[: piled * WIDTH]), self._scope)
            if not (self._may_try() and self._recorded(rows)) and not self._spooled(rows):
                return False
            del self._pending[: len(rows) * WIDTH]
            self.held = len(self._pending)
        return True

    def _may_try(self) -> bool:
        if not self._trials.is_outage or not self.keeps:
            return self.keeps
        # During an outage the store is tried with what the spool holds, so that no new row is held back for the trial.
        return self._trials.is_due and (not self.standby.is_usable or self.standby.is_empty)

    def _recorded(self, rows: Sequence[Row]) -> bool:
        try:
            self._record(rows)
        except StorageDriverMissingError as error:
            self._trials.gave_up(error)
            self.keeps = False
            return False
        except BaseException as error:
            self._trials.failed(error, self.standby.where)
            return False
        self.written += len(rows)
        self._trials.recovered(len(self._pending) // WIDTH)
        return True

    def _record(self, rows: Sequence[Row]) -> None:
        assert self._store is not None
        self._store.record_attempts(rows)

    def _spooled(self, rows: AttemptRows) -> bool:
        if not self.keeps:
            self.unwritten += len(rows)
            return True
        return self.standby.append(rows, durable=self._durable)

    def _replayed(self, *, mine: bool = False) -> bool:
        """Take one file in; whether there was one."""
        try:
            taken = self.standby.take_in(self._record, mine=mine)
        except BaseException as error:
            self._trials.refused(self.standby.trying, error, self.standby.where)
            return False
        if taken is None:
            return False
        self._trials.replayed()
        self.written += taken
        self._trials.recovered(taken + len(self._pending) // WIDTH)
        return True

    def _serve_commits(self, safe: bool) -> None:
        commits, self._commits = self._commits, []
        for done in commits:
            done(safe and self.keeps)

    def _tell_answers(self, queries: tuple[ScoreAggregateQuery, ...], to: ActorRef) -> None:
        told_of: Answered | Unanswered
        try:
            told_of = Answered(self._answers(queries))
        except BaseException as error:
            # Whatever a store raises, the next question is put.
            told_of = Unanswered(told(error))
        to.tell(told_of)

    def _answers(self, queries: tuple[ScoreAggregateQuery, ...]) -> Answers:
        if self._store is None:
            raise StorageError("this router keeps no ledger; give it a metrics_store")
        if not self._write_now(mine=True):
            raise StorageError(f"rows wait that the store does not have yet ({self.failing})")
        return [checked_aggregates(query, self._store.query_score_aggregates(query)) for query in queries]
