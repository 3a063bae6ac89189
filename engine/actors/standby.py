"""Where rows wait on disk while the store cannot take them, its own and those that other processes left for it."""

from collections.abc import Callable, Sequence
from typing import Final

from loguru import logger

from turnout.clock import Clock
from turnout.errors import StorageError, told
from turnout.storage.rows import Row
from turnout.storage.spool import Spool

#: How often files are looked for, and after how long an open one is given to whoever can take it in.
_LOOK_SECONDS: Final = 1.0


class Standby:
    """Used by the ledger's thread alone, but for its counts. Without a spool nothing is ever taken."""

    def __init__(self, spool: Spool | None, clock: Clock) -> None:
        self._spool = spool
        self._clock = clock
        self._look_at = clock.monotonic()
        self._append_at = 0.0
        self._refused = False
        self._seal_at: float | None = None
        #: Files that the store would not take, until all others were tried.
        self._put_off: set[str] = set()
        self.trying = ""
        #: Rows of this router that went to files, less those taken in since.
        self._waiting = 0
        #: Whether the last look found a file, so that there may be more.
        self.is_busy = False
        #: Rows of this router that ever went to files, rows of anybody's that came from there, and what no file takes.
        self.spooled = 0
        self.taken_in = 0
        self.left_out = 0

    @property
    def where(self) -> str:
        """For a sentence on rows that wait."""
        return "" if self._spool is None else f" in {self._spool.folder}"

    @property
    def look_seconds(self) -> float | None:
        """How often the writer is to look, though nothing comes: others leave their rows here."""
        return None if self._spool is None else _LOOK_SECONDS

    @property
    def is_usable(self) -> bool:
        """Whether rows can be expected to be taken."""
        return self._spool is not None and not self._refused

    @property
    def is_clear(self) -> bool:
        """Whether no row of this router waits here."""
        return self._spool is None or not self._spool.holds_mine

    @property
    def is_empty(self) -> bool:
        """Whether no row of anybody waits here."""
        return self._spool is None or self._spool.is_empty

    @property
    def is_due(self) -> bool:
        """Whether it is time to look, and there is something to see. Gives an open file to others in passing."""
        if self._spool is None:
            return False
        now = self._clock.monotonic()
        if self._seal_at is not None and now >= self._seal_at:
            self.seal()
        if now < self._look_at:
            return False
        return not self._spool.is_empty

    def append(self, rows: Sequence[Row], *, durable: bool) -> bool:
        """Whether ``rows`` are kept in a file now; ``durable`` ones also where the machine fails."""
        now = self._clock.monotonic()
        if self._spool is None or now < self._append_at:
            return False
        try:
            kept = self._spool.append(rows, durable=durable)
        except (StorageError, OSError) as error:
            self._append_at = now + _LOOK_SECONDS
            if not self._refused:
                self._refused = True
                logger.warning(
                    "rows that wait for the ledger cannot be kept in files either ({}); they wait in memory",
                    told(error),
                )
            return False
        if self._refused:
            self._refused = False
            logger.info("rows that wait for the ledger can be kept in files again")
        if self._seal_at is None:
            self._seal_at = now + _LOOK_SECONDS
        self._waiting += kept
        self.spooled += kept
        # Such as no store would take, and told of by the spool.
        self.left_out += len(rows) - kept
        return True

    def take_in(self, write: Callable[[Sequence[Row]], None], *, mine: bool = False) -> int | None:
        """Have ``write`` take the rows of one file that nobody is writing (with ``mine``, of this router's own); how
        many there were, or None where there was no file. Raises what it raises: that file, ``trying``, is put off
        until others were tried."""
        self.is_busy = False
        self._look_at = self._clock.monotonic() + _LOOK_SECONDS
        if self._spool is None:
            return None
        self._seal_at = None
        try:
            taken = self._spool.taken_in(write, others=not mine, at_most=1, but=self._put_off)
        except BaseException:
            self._put_off.add(self._spool.trying)
            self.trying = self._spool.trying
            raise
        self.left_out += taken.damaged_lines
        if not taken.files:
            self.try_all()
            return None
        self.is_busy = True
        self._look_at = self._clock.monotonic()
        self.taken_in += taken.rows
        self._waiting = max(self._waiting - taken.rows, 0)
        # Not for everyone to read: where several processes have one file, it happens every second.
        logger.debug("{} rows that had waited in a file are in the ledger", taken.rows)
        return taken.rows

    def try_all(self) -> None:
        """Let files be tried that were put off."""
        self._put_off.clear()

    def seal(self) -> None:
        """Give the open file to whoever can take it in."""
        self._seal_at = None
        if self._spool is not None:
            self._spool.seal()

    def close(self, failing: str | None) -> None:
        """Leave what waits to the next router that opens this ledger."""
        if self._spool is None:
            return
        self._spool.close()
        if not self.is_clear:
            logger.warning(
                "{} rows wait in {} ({}); the next router with this ledger takes them in",
                self._waiting,
                self._spool.folder,
                failing,
            )

    def forget_parent(self) -> None:
        """In a forked child: what is open is the parent's."""
        if self._spool is not None:
            self._spool.forget_parent()
