"""How it stands with a store: since when it fails, why, and when it is tried again."""

from loguru import logger

from turnout.actors.writing import growing_waits
from turnout.clock import Clock
from turnout.errors import told
from turnout.traces import trace_of


class Trials:
    """Used by the ledger's thread alone, but for ``failing``. One warning at the first failure of an outage, one word
    when it is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits = growing_waits()
        self._failures = 0
        self._try_at = 0.0
        #: Of files with rows, while the store takes others.
        self._refusals = 0
        self._replay_at = 0.0
        self._refused: set[str] = set()
        self.failing: str | None = None

    @property
    def is_outage(self) -> bool:
        return self._failures > 0

    @property
    def is_due(self) -> bool:
        """Whether a store that failed may be tried again."""
        return self._clock.monotonic() >= self._try_at

    @property
    def may_replay(self) -> bool:
        """Whether rows of files may be tried."""
        return self.is_due and self._clock.monotonic() >= self._replay_at

    def hurry(self) -> None:
        """Let it be tried now."""
        self._try_at = self._replay_at = 0.0

    def failed(self, error: BaseException, where: str) -> None:
        """The store did not take rows, which wait ``where``."""
        self._failures += 1
        self._try_at = self._clock.monotonic() + self._waits(self._failures)
        self.failing = told(error)
        if self._failures > 1:
            logger.debug("the ledger still cannot be written: {}", self.failing)
            return
        logger.warning("the ledger cannot be written ({}); calls go on, rows wait{}", self.failing, where)
        logger.trace("why the ledger cannot be written:\n{}", trace_of(error))

    def refused(self, file: str, error: BaseException, where: str) -> None:
        """The store did not take the rows of one file. Where it takes others, that is the file's trouble, and no row's
        that comes."""
        if self.is_outage:
            self.failed(error, where)
            return
        self._refusals += 1
        self._replay_at = self._clock.monotonic() + self._waits(self._refusals)
        if file not in self._refused:
            self._refused.add(file)
            logger.warning(
                "the rows of {}{} cannot be taken in yet ({}); they wait there", file, where, told(error)
            )

    def gave_up(self, error: BaseException) -> None:
        """There is no driver: nothing will ever be taken."""
        self._failures += 1
        self.failing = told(error)
        logger.warning("the ledger keeps nothing: {}", error)

    def replayed(self) -> None:
        self._refusals = 0

    def recovered(self, rows: int) -> None:
        """The store took rows; ``rows`` had waited."""
        if self.is_outage:
            logger.info("the ledger can be written again; {} rows waited", rows)
            self._failures, self._try_at, self.failing = 0, 0.0, None
