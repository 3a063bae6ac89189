"""The record of every attempt, as the others hold it: where rows are put, and what is asked of their writer."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from turnout.actors.ledger_messages import Commit, Flush, Questions, Release, Ring
from turnout.actors.standby import Standby
from turnout.actors.storekeeper import Storekeeper
from turnout.actors.writer import RECENT, Writer
from turnout.actors.writing import Writing
from turnout.attempts import WIDTH, Attempts
from turnout.calls import Attempt
from turnout.decisions.aggregates import ScoreAggregateQuery
from turnout.errors import ReentrantCallError, RouterBusyError, RouterClosedError, StorageError
from turnout.policies.contract import Answers
from turnout.runtime.contract import ActorRef, Runtime
from turnout.storage.contract import MetricsStore
from turnout.storage.spool import Spool

#: Calls that wait for a commit each have a message there, and none must be refused.
_MESSAGES: Final = 100_000
#: More batches than that wait only where the ledger's threads get no turn.
_CROWD_BATCHES: Final = 3
#: How long callers make way for one errand of theirs at most; for the first, which opens the database, and how long
#: each stays away at a time.
_WAY_SECONDS: Final = 0.1
_FIRST_WAY_SECONDS: Final = 1.0
_STEP_ASIDE_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class LedgerStats:
    """Rows written to the store, waiting in memory, and dropped: too many waited, there was no driver, or they came
    after the end. ``spooled`` of them went to files, ``taken_in`` came from files, of other processes too.
    ``uncommitted`` calls got their answers before their rows were safe. ``failing`` says why the store cannot be
    written to now."""

    written: int = 0
    waiting: int = 0
    dropped: int = 0
    spooled: int = 0
    taken_in: int = 0
    uncommitted: int = 0
    failing: str | None = None


class Ledger:
    """What others hold of it. ``put`` costs one step of a list.

    Without a ``store`` nothing is kept, but for the latest attempts. Where the store fails rows go to ``spool``.
    """

    def __init__(
        self,
        store: MetricsStore | None,
        metrics_scope: str,
        config: Writing,
        runtime: Runtime,
        *,
        closes_store: bool,
        spool: Spool | None = None,
    ) -> None:
        if (
            store is not None
            and config.is_durable
            and callable(durably := getattr(store, "make_durable", None))
        ):
            durably()
        self._storekeeper = None if store is None else Storekeeper(store, spool and Spool(spool.folder))
        # Started before its ledger, it ends after it.
        keeper = None
        if self._storekeeper is not None:
            keeper = runtime.actor("store", self._storekeeper, outlives=True)
        self._writer = Writer(
            metrics_scope,
            config,
            runtime.clock,
            Standby(spool, runtime.clock),
            keeper,
            closes_store=closes_store,
        )
        self.metrics_scope = metrics_scope
        #: Whether there is a store.
        self.is_kept = store is not None
        self._leaves_by_itself = bool(getattr(store, "ends_at_fork", False))
        self._incoming = self._writer.incoming
        self._pending = self._writer.pending
        self._batch_values = config.batch_rows * WIDTH
        self._most_values = config.max_rows * WIDTH
        self._crowd_values = min(_CROWD_BATCHES * self._batch_values, self._most_values)
        self._made_way_for = 0
        self._make_way_until = 0.0
        self._actor: ActorRef = runtime.actor("ledger", self._writer, capacity=_MESSAGES, outlives=True)
        if self._storekeeper is not None:
            self._storekeeper.ledger = self._actor

    def put(self, attempt: Attempt) -> None:
        """Record an attempt. Waits for nothing but a turn of the ledger's threads, where rows pile up for want of one;
        past ``max_rows`` the row is dropped and counted."""
        writer, incoming = self._writer, self._incoming
        waiting = len(incoming)
        # A look, not a token: at most one row more per thread than max_rows, and half the price on every call.
        if waiting + self._pending.held >= self._crowd_values and not self._has_room():
            writer.refuse()
            return
        # One step to other threads: no Python code runs between its values.
        incoming.extend(attempt)
        if ((writer.asleep or waiting >= self._batch_values) and writer.bell.take()) or writer.closed:
            self._actor.tell(Ring())

    def _has_room(self) -> bool:
        """Whether there is room for a row. First it makes way: where many threads make calls as fast as they can, those
        of the ledger get no turn, however little they need. For each of their errands it does so for a bounded time."""
        delivery, now = self._writer.delivery, time.monotonic()
        if id(delivery.errand) != self._made_way_for:
            self._made_way_for = id(delivery.errand)
            self._make_way_until = now + (_WAY_SECONDS if delivery.written else _FIRST_WAY_SECONDS)
        if now < self._make_way_until:
            time.sleep(_STEP_ASIDE_SECONDS)
        return len(self._incoming) + self._pending.held < self._most_values

    def recent(self) -> list[Attempt]:
        """The latest attempts, oldest first."""
        # What the writer takes over between the two looks is seen twice.
        waiting = Attempts(self._incoming[:])
        seen = {attempt.key: attempt for attempt in (*Attempts(self._writer.recent[:]), *waiting)}
        return list(seen.values())[-RECENT:]

    def taught(self, learner: ActorRef) -> None:
        """From now on ``learner`` is told of every attempt, in ``Observed``."""
        self._writer.learner = learner

    @property
    def unobserved(self) -> int:
        """Attempts that the learner had no room for."""
        return self._writer.unobserved

    def commit(self, done: Callable[[bool], None]) -> None:
        """Have ``done`` called, on the ledger's thread, once all that was put before is in the store, or in a file that
        outlasts the machine; told is whether it is. It must not block, and be harmless a second time."""
        taken = self._actor.tell(Commit(done))
        # After the end nobody may be there to serve it.
        if not taken or self._writer.closed:
            done(False)

    @property
    def lost(self) -> int:
        """Rows that will never be kept."""
        writer = self._writer
        return writer.overflow.count + writer.delivery.unwritten + writer.standby.left_out

    def count_uncommitted(self) -> None:
        """A call's answer was handed out before its rows were safe."""
        self._writer.uncommitted.add()

    def ask(self, questions: Sequence[ScoreAggregateQuery]) -> Answers:
        """What the store knows, of all that was put before."""
        self._refuse_the_store()
        try:
            answers: Answers = self._actor.ask(Questions(tuple(questions)))
        except (TimeoutError, RouterBusyError, RouterClosedError) as error:
            raise StorageError(f"the ledger could not be asked: {error}") from error
        return answers

    def put_to_store(self, questions: Sequence[ScoreAggregateQuery], to: ActorRef) -> bool:
        """Have ``to`` told of the answers; whether it will be."""
        return self.is_kept and self._actor.tell(Questions(tuple(questions), to))

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until what was told before is written; False where that failed or took longer."""
        return not self.is_kept or self._asked(Flush(), timeout_seconds)

    def release(self, timeout_seconds: float) -> bool:
        """Let go of the database until the next row, unless its store does so itself where a process forks: that may
        have begun, and hold up whoever asks for more."""
        return not self.is_kept or self._leaves_by_itself or self._asked(Release(), timeout_seconds)

    def forget_parent(self) -> None:
        """In a forked child: the files that are open are the parent's."""
        self._writer.standby.forget_parent()

    def stats(self) -> LedgerStats:
        if not self.is_kept:
            return LedgerStats()
        writer, delivery = self._writer, self._writer.delivery
        return LedgerStats(
            written=delivery.written,
            waiting=(len(self._incoming) + self._pending.held) // WIDTH,
            dropped=self.lost,
            spooled=writer.standby.spooled,
            taken_in=writer.standby.taken_in,
            uncommitted=writer.uncommitted.value,
            failing=delivery.failing,
        )

    def _asked(self, message: Flush | Release, timeout_seconds: float) -> bool:
        self._refuse_the_store()
        try:
            return bool(self._actor.ask(message, timeout_seconds))
        except (TimeoutError, RouterBusyError, RouterClosedError):
            return False

    def _refuse_the_store(self) -> None:
        if self._storekeeper is not None and self._storekeeper.is_this_thread:
            raise ReentrantCallError(
                "the ledger was asked from within its own store, which it would wait for; a store must not use the "
                "router whose rows it keeps"
            )
