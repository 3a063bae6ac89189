"""What somebody waits for until the store has all rows of before."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from turnout.actors.errands import LetGo, Query
from turnout.runtime.later import Reply
from turnout.storage.spool import TakenIn

#: So many files that the store refuses in a row are taken for a store that refuses all.
_REFUSALS: Final = 3


@dataclass(slots=True, eq=False)
class Want:
    """All rows of before it in the store, with ``everything`` those of all files too, and ``then`` an errand.

    ``reply`` is told whether the store has them, or what a query gave; ``begins`` is called once its turn has come.
    """

    reply: Reply
    begins: Callable[[], object] | None = None
    everything: bool = False
    then: Query | LetGo | None = None
    #: Whether its turn has come: what comes from now on is after it.
    is_begun: bool = False
    #: The files with rows of before, once none is in memory any more, and those that are to be taken in.
    files: frozenset[str] | None = None
    to_take: frozenset[str] = frozenset()
    #: The store does not take what it is given.
    has_failed: bool = False
    was_sent: bool = False
    #: Some of its rows will never be there.
    is_short: bool = False
    refusals: int = 0

    def refused(self) -> None:
        self.refusals += 1
        if self.refusals >= _REFUSALS:
            self.has_failed = True

    def took(self, file: str, taken: TakenIn) -> None:
        """What there was to take in is less; nothing, where others have it."""
        self.to_take = self.to_take - {file} if taken.files else frozenset()
        self.is_short |= taken.damaged_lines > 0
