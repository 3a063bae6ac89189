"""Rows that there was no room for: counted by whoever brings them, and told of once an outage."""

from loguru import logger

from turnout.runtime.tally import Tally
from turnout.runtime.tokens import Tokens


class Overflow:
    """Counts without a lock. The first row that is dropped warns; once no more are, their number is told."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._tally = Tally()
        self._untold = Tokens(1)
        self._seen = 0
        self._before = 0

    @property
    def count(self) -> int:
        return self._tally.value

    def add(self) -> None:
        """One that nobody needs to be told of."""
        self._tally.add()

    def warn(self, failing: str | None) -> None:
        """One that is dropped because ``max_rows`` wait; ``failing`` says why, where the store has said so."""
        self._tally.add()
        if self._untold.take():
            logger.warning(
                "{} rows wait for the ledger and the store cannot be written to ({}); further ones are dropped and "
                "counted",
                self._max_rows,
                failing or "it does not keep up",
            )

    def tell(self, *, at_last: bool = False) -> None:
        """Say how many were dropped, once none was since this was asked before, or ``at_last``. Asked by one thread."""
        if not self._untold.empty():
            return
        count, seen = self.count, self._seen
        self._seen = count
        if count == seen or at_last:
            logger.warning("the ledger has dropped {} rows that there was no room for", count - self._before)
            self._before = count
            self._untold.give()
