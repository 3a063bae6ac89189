"""What the ledger sends its storekeeper for."""

from dataclasses import dataclass, field
from typing import Any

from turnout.decisions.aggregates import ScoreAggregateQuery
from turnout.storage.attempts import AttemptRows


@dataclass(slots=True, eq=False, kw_only=True)
class Course:
    """How an errand goes. The storekeeper writes how it went, and last that it ``is_over``."""

    #: When it was handed over (monotonic).
    began: float = 0.0
    value: Any = None
    error: BaseException | None = None
    is_over: bool = False


@dataclass(slots=True, eq=False)
class Record(Course):
    """Record ``rows``."""

    rows: AttemptRows


@dataclass(slots=True, eq=False)
class TakeIn(Course):
    """Record the rows of the oldest file that nobody is writing: of ``only`` these, where it is given, and none of
    ``but``. Its ``value`` is a ``TakenIn``; ``file`` is the one that was tried."""

    only: frozenset[str] | None = None
    but: frozenset[str] = frozenset()
    file: str = field(default="", init=False)


@dataclass(slots=True, eq=False)
class Query(Course):
    """Answer ``queries``: its ``value`` is ``Answers``, each checked."""

    queries: tuple[ScoreAggregateQuery, ...]


@dataclass(slots=True, eq=False)
class LetGo(Course):
    """Let go of the database until the next use."""


@dataclass(slots=True, eq=False)
class Close(Course):
    """Close the store."""


Errand = Record | TakeIn | Query | LetGo | Close
