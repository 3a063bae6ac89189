"""Rows that are in memory, waiting to be kept."""

from typing import Any

from turnout.attempts import WIDTH, Attempts
from turnout.storage.attempts import AttemptRows


class Pending:
    """Oldest first, as in ``Attempts``; they leave in the order of their coming. Used by the ledger's thread alone, but
    for ``held``.

    The first ``in_hand`` values are with the store, which may take them or not; somebody wants the first ``wanted``
    to be in the store. ``came`` and ``left`` count rows.
    """

    def __init__(self, metrics_scope: str) -> None:
        self._scope = metrics_scope
        self._values: list[Any] = []
        self.in_hand = 0
        self.wanted = 0
        self.came = 0
        self.left = 0
        #: How many values there are.
        self.held = 0

    def __len__(self) -> int:
        return len(self._values) // WIDTH

    def add(self, values: list[Any]) -> None:
        self._values += values
        self.held = len(self._values)
        self.came += len(values) // WIDTH

    def oldest(self, rows: int) -> AttemptRows:
        """At most so many; where some are wanted, of those."""
        values = min(rows * WIDTH, self.wanted or self.held)
        return AttemptRows(Attempts(self._values[:values]), self._scope)

    def drop(self, rows: int) -> None:
        """The oldest ``rows`` are kept elsewhere now, or given up."""
        values = rows * WIDTH
        del self._values[:values]
        self.in_hand = max(self.in_hand - values, 0)
        self.wanted = max(self.wanted - values, 0)
        self.left += rows
        self.held = len(self._values)

    def hand_over(self, rows: AttemptRows) -> None:
        """The store is given ``rows``, which are the oldest."""
        self.in_hand = len(rows) * WIDTH

    def taken(self) -> int:
        """The store took what it was given: drops what of that is still here, and says how many rows."""
        rows = self.in_hand // WIDTH
        self.drop(rows)
        return rows

    def returned(self) -> None:
        """The store did not take what it was given."""
        self.in_hand = 0
