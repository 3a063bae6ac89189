"""How rows get to the store: by its keeper, one errand at a time, and meanwhile, where that takes long, into files."""

import time
from collections import deque
from functools import partial
from typing import Final, assert_never

from turnout.actors.errands import Close, Errand, LetGo, Query, Record, TakeIn
from turnout.actors.patience import Patience
from turnout.actors.pending import Pending
from turnout.actors.standby import Standby
from turnout.actors.trials import Trials
from turnout.actors.wants import Want
from turnout.actors.writing import Writing
from turnout.clock import Clock
from turnout.errors import StorageDriverMissingError, StorageError
from turnout.runtime.contract import ActorRef
from turnout.storage.attempts import AttemptRows

#: How many batches one write takes together when rows have piled up.
_PILED_BATCHES: Final = 4
#: While the store takes too long, rows that came meanwhile are looked for no oftener.
_POLL_SECONDS: Final = 0.02
_LAST_PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)
#: How long a store is waited for at the end: before rows go to files all the same, and in all, where files can take
#: them, and where they cannot.
_SAFE_SECONDS: Final = 0.25
_LAST_SECONDS: Final = 3.0
_LAST_WITHOUT_FILES_SECONDS: Final = 30.0


class Delivery:
    """Decides what the storekeeper is sent for. Used by the ledger's thread alone, but for its counts.

    Rows are told apart by their order: while somebody waits for those of before, later ones stay behind, in memory or
    in files of their own. So an answer of the store is of these rows and of no other.
    """

    def __init__(
        self, keeper: ActorRef | None, pending: Pending, standby: Standby, config: Writing, clock: Clock
    ) -> None:
        self._keeper = keeper
        self._pending = pending
        self._standby = standby
        self._batch_rows = config.batch_rows
        self._flush_seconds = config.flush_seconds
        self._durable = config.is_durable
        self._clock = clock
        self._trials = Trials(clock)
        self.errand: Errand | None = None
        self._wants: deque[Want] = deque()
        self._due = 0.0
        self._patience = Patience(config.flush_seconds)
        self.keeps = keeper is not None
        self.written = 0
        #: Left unwritten at the end, or for want of a driver.
        self.unwritten = 0

    @property
    def failing(self) -> str | None:
        """Why the store cannot be written to now."""
        return self._trials.failing

    @property
    def _is_asking(self) -> bool:
        """Whether rows that come now are not to be in the answer that is waited for."""
        return bool(self._wants) and self._wants[0].is_begun and isinstance(self._wants[0].then, Query)

    @property
    def is_helpless(self) -> bool:
        """Whether rows are in memory that neither the store nor a file takes."""
        return not self.keeps or (
            self._trials.is_outage and self._pending.held > 0 and not self._standby.is_usable
        )

    @property
    def is_idle(self) -> bool:
        return self.errand is None and not self._pending.held

    def wait_seconds(self) -> float:
        """How long it can be left alone, though nobody says anything."""
        now, wait = self._clock.monotonic(), self._flush_seconds
        if self.errand is not None:
            late = self.errand.began + self._patience.seconds(self.errand) - now
            wait = min(wait, late) if late > 0 else max(wait, _POLL_SECONDS)
        elif self._pending.held and not self._trials.is_outage:
            wait = min(wait, max(self._due - now, 0.0))
        return wait

    def want(self, want: Want) -> None:
        self._wants.append(want)

    def go_on(self, *, urgent: bool) -> None:
        """Do what is due now; ``urgent`` where somebody waits until the rows are safe."""
        if self.errand is not None and self.errand.is_over:
            errand, self.errand = self.errand, None
            self._take_back(errand)
        if self.errand is None and self.keeps and (new := self._next(urgent)) is not None:
            self._hand_over(new)
        if not self.keeps:
            self.give_up()
        elif self._is_late(urgent):
            self._to_files()
        if not self._is_asking:
            self._standby.pass_on()

    def end(self) -> None:
        """Bring what is left to the store or into files, in a bounded time."""
        self._bring_the_last()
        if self.keeps:
            self._to_files()
        self._standby.close(self.failing)

    def give_up(self) -> None:
        """Nothing will take what is left."""
        self.unwritten += len(self._pending)
        self._pending.drop(len(self._pending))
        while self._wants:
            self._finish(self._wants[0])

    def close_store(self) -> None:
        """Have it closed, behind what it is still at. Raises what that raises."""
        errand = Close()
        assert self._keeper is not None
        self._keeper.tell(errand)
        if (self.errand is None or self.errand.is_over) and self._waited(_LAST_SECONDS) and errand.error:
            raise errand.error

    # What is next.

    def _next(self, urgent: bool) -> Errand | None:
        while self._wants:
            want = self._wants[0]
            if not want.is_begun:
                self._begin(want)
            errand = self._errand_of(want)
            if errand is not None:
                return errand
            self._finish(want)
        if not self._trials.is_due:
            return None
        # During an outage the store is tried with what the files hold.
        if self._is_due(urgent) and not (self._trials.is_outage and self._has_files):
            return Record(self._oldest())
        if self._trials.may_replay and self._standby.sees_files():
            return TakeIn(but=self._standby.put_off)
        return None

    @property
    def _has_files(self) -> bool:
        return self._standby.is_usable and not self._standby.is_empty

    def _is_due(self, urgent: bool) -> bool:
        pending = len(self._pending)
        if not pending:
            return False
        return (
            urgent
            or self._trials.is_outage
            or pending >= self._batch_rows
            or self._clock.monotonic() >= self._due
        )

    def _begin(self, want: Want) -> None:
        """From now on nothing waits for a better time, and what comes is after it."""
        want.is_begun = True
        self._trials.hurry()
        self._standby.try_all()
        self._pending.wanted = self._pending.held
        if want.begins is not None:
            want.begins()

    def _errand_of(self, want: Want) -> Errand | None:
        self._part()
        if not want.has_failed:
            if self._pending.wanted:
                return Record(self._oldest())
            if want.to_take - self._standby.put_off:
                return TakeIn(only=want.to_take, but=self._standby.put_off)
        if want.then is None or want.was_sent or (isinstance(want.then, Query) and not self._has_all(want)):
            return None
        want.was_sent = True
        return want.then

    def _part(self) -> None:
        """Once no row of before is in memory, note in which files they are: later ones go into others."""
        want = self._wants[0] if self._wants else None
        if want is not None and want.is_begun and want.files is None and not self._pending.wanted:
            self._standby.seal()
            want.files = self._standby.mine
            want.to_take = self._standby.files if want.everything else want.files

    def _has_all(self, want: Want) -> bool:
        return self.keeps and not (want.files is None or want.is_short or want.files & self._standby.mine)

    def _finish(self, want: Want) -> None:
        if self._pending.wanted:
            # Safe first: whoever hears of it may end the process.
            self._to_files()
        self._wants.remove(want)
        self._pending.wanted = 0
        then = want.then
        if then is not None and then.error is not None:
            error, then.error = then.error, None
            want.reply(None, error)
        elif not isinstance(then, Query):
            want.reply(self._has_all(want), None)
        elif then.is_over:
            want.reply(then.value, None)
        else:
            want.reply(None, StorageError(f"rows wait that the store does not have yet ({self.failing})"))

    def _oldest(self) -> AttemptRows:
        batches = 1 if self._trials.is_outage else _PILED_BATCHES
        return self._pending.oldest(self._batch_rows * batches)

    # What becomes of it.

    def _hand_over(self, errand: Errand) -> None:
        assert self._keeper is not None
        errand.began = self._clock.monotonic()
        if isinstance(errand, Record):
            self._pending.hand_over(errand.rows)
            self._due = errand.began + self._flush_seconds
        self.errand = errand
        self._keeper.tell(errand)

    def _take_back(self, errand: Errand) -> None:
        match errand:
            case Record():
                self._recorded(errand)
            case TakeIn():
                self._took_in(errand)
            case Query() | LetGo() | Close():
                pass
            case _:
                assert_never(errand)

    def _recorded(self, errand: Record) -> None:
        error, errand.error = errand.error, None
        if error is None:
            self._patience.written(self._clock.monotonic() - errand.began)
            self._trials.recovered(len(self._pending))
            self.written += self._pending.taken()
            return
        self._pending.returned()
        if isinstance(error, StorageDriverMissingError):
            self._trials.gave_up(error)
            self.keeps = False
            return
        self._trials.failed(error, self._standby.where)
        if self._wants and self._wants[0].is_begun:
            self._wants[0].has_failed = True

    def _took_in(self, errand: TakeIn) -> None:
        error, errand.error = errand.error, None
        want = self._wants[0] if self._wants and self._wants[0].is_begun else None
        if error is not None:
            self._standby.refused(errand.file)
            self._trials.refused(errand.file, error, self._standby.where)
            if want is not None:
                want.refused()
                want.has_failed |= self._trials.is_outage
            return
        taken = errand.value
        self._standby.took(taken)
        if want is not None:
            want.took(errand.file, taken)
        if taken.files:
            self._trials.replayed()
            self.written += taken.rows
            self._trials.recovered(taken.rows + len(self._pending))

    # Where the store does not take rows.

    def _is_late(self, urgent: bool) -> bool:
        if not self._pending.held:
            return False
        if self._trials.is_outage or self.errand is None:
            return self._trials.is_outage
        if urgent and not isinstance(self.errand, Record):
            return True
        return self._clock.monotonic() - self.errand.began >= self._patience.seconds(self.errand)

    def _to_files(self) -> None:
        while self._pending.held:
            rows = self._pending.oldest(self._batch_rows)
            if not self._standby.append(rows, durable=self._durable):
                return
            self._pending.drop(len(rows))
            self._part()

    def _bring_the_last(self) -> None:
        usable = self._standby.is_usable
        end = time.monotonic() + (_LAST_SECONDS if usable else _LAST_WITHOUT_FILES_SECONDS)
        # A store that fails just now is tried again, on this thread's own time.
        for pause_seconds in (0.0, *_LAST_PAUSES_SECONDS):
            time.sleep(pause_seconds)
            whole: list[bool] = []
            self.want(Want(partial(_note, whole)))
            while self._wants:
                self.go_on(urgent=False)
                if self.errand is not None and not self._waited(_SAFE_SECONDS):
                    # Safe first: nobody knows how long there is.
                    self._to_files()
                    if not self._waited(end - time.monotonic()):
                        return
            if whole[0] or not self.keeps or time.monotonic() > end:
                return

    def _waited(self, seconds: float) -> bool:
        """Whether the storekeeper has come back from all that it was sent for."""
        assert self._keeper is not None
        try:
            self._keeper.ask(None, max(seconds, 0.01))
        except TimeoutError:
            return False
        return True


def _note(answers: list[bool], answer: bool, error: BaseException | None) -> None:
    answers.append(answer)
