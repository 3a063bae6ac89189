"""Rows that there was no room for: counted by whoever brings them, and told of once an outage."""

from typing import Final

from loguru import logger

from turnout.clock import Clock
from turnout.runtime.tally import Tally
from turnout.runtime.tokens import Tokens

#: How long no row must have been dropped for an outage to be over.
_QUIET_SECONDS: Final = 10.0


class Overflow:
    """Counts without a lock. The first row that is dropped warns; once an outage is over, their number is told."""

    def __init__(self, max_rows: int, clock: Clock) -> None:
        self._max_rows = max_rows
        self._clock = clock
        self._tally = Tally()
        self._untold = Tokens(1)
        self._seen = 0
        self._seen_at = 0.0
        self._before = 0

    @property
    def count(self) -> int:
        return self._tally.value

    def add(self, rows: int) -> None:
        """Such as nobody needs to be told of."""
        for _ in range(rows):
            self._tally.add()

    def warn(self, failing: str | None) -> None:
        """One that is dropped because ``max_rows`` wait; ``failing`` says why, where the store has said so."""
        self._tally.add()
        if self._untold.take():
            logger.warning(
                "{} rows wait for the ledger ({}); further ones are dropped and counted",
                self._max_rows,
                failing or "its store does not keep up",
            )

    @property
    def is_over(self) -> bool:
        """Whether all that were dropped have been told of."""
        return not self._untold.empty()

    def tell(self, *, at_last: bool = False) -> None:
        """Say how many were dropped, where none was for a while, or ``at_last``. Asked by one thread."""
        if self.is_over:
            return
        count, now = self.count, self._clock.monotonic()
        if count != self._seen:
            self._seen, self._seen_at = count, now
        if now - self._seen_at >= _QUIET_SECONDS or at_last:
            logger.warning("the ledger has dropped {} rows that there was no room for", count - self._before)
            self._before = count
            self._untold.give()
