"""What the ledger is told and asked, and what it tells a policy that learns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnout.calls import Attempt
from turnout.decisions.aggregates import ScoreAggregateQuery
from turnout.policies.contract import Answers
from turnout.runtime.contract import ActorRef


@dataclass(frozen=True, slots=True)
class Flush:
    """Write what was told before this. Replied: whether the store has all of it."""


@dataclass(frozen=True, slots=True)
class Release:
    """Write what waits, then let go of the database until the next row. Replied as for a flush."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Rows wait: told to a writer that sleeps, or when a batch is full."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Write what was told before this, and call ``done`` with whether it is safe: one write serves all that wait."""

    done: Callable[[bool], None]


@dataclass(frozen=True, slots=True)
class Questions:
    """Write what was told before this, then ask the store. Replied: the answers; or told, to the actor that is to hear
    of it: ``Asking``, and ``Answered`` or ``Unanswered`` in the end."""

    queries: tuple[ScoreAggregateQuery, ...]
    to: ActorRef | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """Attempts, in the order in which they were recorded."""

    attempts: Sequence[Attempt]


@dataclass(frozen=True, slots=True)
class Asking:
    """The store is about to be asked: all attempts observed before this are in its answer, and none after."""


@dataclass(frozen=True, slots=True)
class Answered:
    answers: Answers


@dataclass(frozen=True, slots=True)
class Unanswered:
    why: str


Told = Flush | Release | Ring | Commit | Questions
