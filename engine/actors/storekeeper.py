"""The one thread that a store knows."""

import threading
from typing import assert_never

from turnout.actors.errands import Close, Errand, LetGo, Query, Record, TakeIn
from turnout.actors.ledger_messages import Ring
from turnout.decisions.aggregates import checked_aggregates
from turnout.runtime.actor import Rests
from turnout.runtime.contract import ActorRef
from turnout.storage.contract import MetricsStore
from turnout.storage.spool import Spool, TakenIn


class Storekeeper(Rests):
    """Runs errands, one at a time and however long a store takes for them; the ledger, which has rows to keep safe
    meanwhile, is rung when one is over. Reads ``spool``, to which another appends."""

    def __init__(self, store: MetricsStore, spool: Spool | None) -> None:
        self._store = store
        self._spool = spool
        self._working: int | None = None
        self.ledger: ActorRef | None = None

    @property
    def is_this_thread(self) -> bool:
        """Whether it is the store that asks."""
        return self._working == threading.get_ident()

    def receive(self, errand: Errand | None) -> None:
        """None is a message that does nothing: its reply says that all before it are over."""
        if errand is None:
            return
        self._working = threading.get_ident()
        try:
            self._run(errand)
        except BaseException as error:
            # Whatever a store raises, its keeper lives on; the ledger clears it, and with it the way to this frame.
            errand.error = error
        finally:
            self._working = None
        errand.is_over = True
        if self.ledger is not None:
            self.ledger.tell(Ring())

    def _run(self, errand: Errand) -> None:
        match errand:
            case Record(rows):
                self._store.record_attempts(rows)
            case TakeIn():
                errand.value = self._taken_in(errand)
            case Query(queries):
                ask = self._store.query_score_aggregates
                errand.value = [checked_aggregates(query, ask(query)) for query in queries]
            case LetGo():
                if callable(release := getattr(self._store, "release", None)):
                    release()
            case Close():
                self._store.close()
            case _:
                assert_never(errand)

    def _taken_in(self, errand: TakeIn) -> TakenIn:
        if self._spool is None:
            return TakenIn()
        self._spool.trying = ""
        try:
            return self._spool.taken_in(
                self._store.record_attempts, only=errand.only, but=errand.but, at_most=1
            )
        finally:
            errand.file = self._spool.trying
