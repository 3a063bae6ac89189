"""The ledger's actor: it takes rows as they come, and sees to it that they are kept, on no caller's time.

The store is used by a thread of its own (``Storekeeper``). Where it cannot take rows, or takes long, they go to spool
files (``Standby``), which a crash does not take away, and on to the store once it takes them. They wait in memory for
as long as neither does.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, assert_never

from loguru import logger

from turnout.actors.delivery import Delivery
from turnout.actors.errands import LetGo, Query
from turnout.actors.ledger_messages import (
    Answered,
    Asking,
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
from turnout.actors.pending import Pending
from turnout.actors.standby import Standby
from turnout.actors.wants import Want
from turnout.actors.writing import Writing
from turnout.attempts import WIDTH, Attempts
from turnout.clock import Clock
from turnout.errors import RouterClosedError, StorageError, told
from turnout.runtime.contract import ActorRef
from turnout.runtime.later import Later
from turnout.runtime.tally import Tally
from turnout.runtime.tokens import Tokens

#: After so many ticks without a row the writer sleeps until it is rung.
_QUIET_TICKS: Final = 20
#: How many of the latest attempts are kept for whoever asks how it goes.
RECENT: Final = 4_096


class Writer:
    """Drains rows on a tick, by size, on flush and for who waits for a commit. Used by its actor alone, but for
    ``incoming``, ``recent`` and what it shows.

    Rows come by a list, which wakes nobody and to which a row is added in one step: a put that wakes a thread costs
    the caller ten times more. ``bell`` holds one token while the writer wants to be rung; whoever takes it rings.
    """

    def __init__(
        self,
        metrics_scope: str,
        config: Writing,
        clock: Clock,
        standby: Standby,
        keeper: ActorRef | None,
        *,
        closes_store: bool,
    ) -> None:
        self._flush_seconds = config.flush_seconds
        self._max_rows = config.max_rows
        self._closes_store = closes_store and keeper is not None
        self._is_kept = keeper is not None
        self.pending = Pending(metrics_scope)
        #: With how many rows that must have left memory before.
        self._commits: deque[tuple[int, Callable[[bool], None]]] = deque()
        self._quiet = 0
        self.standby = standby
        self.delivery = Delivery(keeper, self.pending, standby, config, clock)
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
        self.overflow = Overflow(config.max_rows, clock)

    def receive(self, message: Told) -> object:
        if self.closed:
            return self._too_late(message)
        match message:
            case Ring():
                return None
            case Commit(done):
                # Served at rest, together with all that came with it.
                self._take_in()
                self._commits.append((self.pending.came, done))
                return None
            case Flush():
                return self._wanted(everything=True)
            case Release():
                return self._wanted(then=LetGo())
            case Questions(queries, None):
                return self._wanted(then=Query(queries))
            case Questions(queries, to):
                assert to is not None
                begins = partial(to.tell, Asking())
                self.delivery.want(Want(partial(_tell, to), begins, then=Query(queries)))
                return None
            case _:
                assert_never(message)

    def rest(self) -> float | None:
        self.asleep = False
        had_rows = self._take_in()
        self.delivery.go_on(urgent=bool(self._commits))
        self._serve_commits()
        if self.delivery.is_idle:
            self.overflow.tell()
        self._quiet = 0 if had_rows or not self.delivery.is_idle else self._quiet + 1
        if not self.bell:
            self.bell.give()
        if self._quiet < _QUIET_TICKS or not self.overflow.is_over:
            return self.delivery.wait_seconds()
        self.asleep = True
        # Who put a row just before could not know that a ring was wanted.
        return self._flush_seconds if self.incoming else self.standby.look_seconds

    def ended(self) -> None:
        self.closed = True
        self._take_in()
        if self._is_kept:
            self.delivery.end()
        self._serve_commits()
        self.delivery.give_up()
        if self.delivery.unwritten and self.delivery.keeps:
            logger.warning(
                "the ledger ends, rows unwritten: {} ({})", self.delivery.unwritten, self.delivery.failing
            )
        self.overflow.tell(at_last=True)
        if self._closes_store:
            self.delivery.close_store()

    def refuse(self) -> None:
        """Count a row that there is no room for."""
        self.overflow.warn(self.delivery.failing)

    def _wanted(self, **want: Any) -> Later:
        if not self._is_kept:
            raise StorageError("this router keeps no ledger; give it a metrics_store")
        later = Later()
        self.delivery.want(Want(later.give, **want))
        return later

    def _take_in(self) -> bool:
        """Take what came, as far as there is room; whether any did."""
        taken = self.incoming[:]
        if not taken:
            return False
        del self.incoming[: len(taken)]
        room = self._max_rows * WIDTH - self.pending.held
        for _ in range(room, len(taken), WIDTH):
            self.refuse()
        del taken[room:]
        if self._is_kept:
            self.pending.add(taken)
        self.recent += taken
        del self.recent[: -RECENT * WIDTH]
        if self.learner is not None and not self.learner.tell(Observed(Attempts(taken))):
            self.unobserved += len(taken) // WIDTH
        return True

    def _serve_commits(self) -> None:
        while self._commits and self.delivery.keeps and self._commits[0][0] <= self.pending.left:
            self._commits.popleft()[1](True)
        if self.delivery.is_helpless or self.closed:
            while self._commits:
                self._commits.popleft()[1](False)

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


def _tell(to: ActorRef, value: Any, error: BaseException | None) -> None:
    # Whatever a store raises, the next question is put.
    to.tell(Answered(value) if error is None else Unanswered(told(error)))
