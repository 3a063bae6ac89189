"""Where rows wait on disk while the store cannot take them, its own and those that other processes left for it."""

from collections.abc import Sequence
from typing import Final

from loguru import logger

from turnout.clock import Clock
from turnout.errors import StorageError, told
from turnout.storage.rows import Row
from turnout.storage.spool import Spool, TakenIn

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
        #: Whether it was said that files take no rows: once until some of theirs are in the store.
        self._has_told = False
        self._seal_at: float | None = None
        #: Files that the store would not take, until all others were tried.
        self.put_off: frozenset[str] = frozenset()
        #: Rows of this router that went to files, less those taken in since.
        self._waiting = 0
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
    def is_empty(self) -> bool:
        """Whether no row of anybody waits here."""
        return self._spool is None or self._spool.is_empty

    def sees_files(self) -> bool:
        """Whether there are files to take in; looked for when it is time to."""
        now = self._clock.monotonic()
        if self._spool is None or now < self._look_at:
            return False
        if self._spool.is_empty:
            self._look_at = now + _LOOK_SECONDS
            return False
        return True

    @property
    def mine(self) -> frozenset[str]:
        """The files with rows of this router."""
        return frozenset() if self._spool is None else self._spool.mine

    @property
    def files(self) -> frozenset[str]:
        """The files with rows of anybody."""
        try:
            return frozenset() if self._spool is None else self._spool.files
        except OSError:
            return self.mine

    def append(self, rows: Sequence[Row], *, durable: bool) -> bool:
        """Whether ``rows`` are kept in a file now; ``durable`` ones also where the machine fails."""
        now = self._clock.monotonic()
        if self._spool is None or now < self._append_at:
            return False
        try:
            kept = self._spool.append(rows, durable=durable)
        except (StorageError, OSError) as error:
            self._append_at = now + _LOOK_SECONDS
            self._refused = True
            if not self._has_told:
                self._has_told = True
                logger.warning(
                    "rows that wait for the ledger cannot be kept in files either ({}); they wait in memory",
                    told(error),
                )
            return False
        self._refused = False
        if self._seal_at is None:
            self._seal_at = now + _LOOK_SECONDS
        self._waiting += kept
        self.spooled += kept
        # Such as no store would take, and told of by the spool.
        self.left_out += len(rows) - kept
        return True

    def took(self, taken: TakenIn) -> None:
        """The store took a file in, or there was none."""
        self._look_at = self._clock.monotonic()
        if not taken.files:
            self.try_all()
            self._look_at += _LOOK_SECONDS
        self.left_out += taken.damaged_lines
        self.taken_in += taken.rows
        self._waiting = max(self._waiting - taken.rows, 0)
        if taken.rows:
            self._has_told = False
            # Not for everyone to read: where several processes have one file, it happens every second.
            logger.debug("{} rows that had waited in a file are in the ledger", taken.rows)

    def refused(self, file: str) -> None:
        """The store would not take ``file``."""
        self._look_at = self._clock.monotonic() + _LOOK_SECONDS
        self.put_off |= {file}

    def try_all(self) -> None:
        """Let files be tried that were put off."""
        self.put_off = frozenset()

    def pass_on(self) -> None:
        """Give a file that was open for a while to whoever can take it in."""
        if self._seal_at is not None and self._clock.monotonic() >= self._seal_at:
            self.seal()

    def seal(self) -> None:
        """Give the open file to whoever can take it in."""
        self._seal_at = None
        if self._spool is not None:
            self._spool.seal()

    def close(self, failing: str | None) -> None:
        """Leave what waits to the next router that opens this ledger."""
        if self._spool is None:
            return
        self.seal()
        if self.mine:
            logger.warning(
                "{} rows wait in {} ({}); the next router with this ledger takes them in",
                self._waiting,
                self._spool.folder,
                failing or "its store did not take them in time",
            )

    def forget_parent(self) -> None:
        """In a forked child: what is open is the parent's."""
        if self._spool is not None:
            self._spool.forget_parent()
