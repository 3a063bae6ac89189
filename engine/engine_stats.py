"""What an engine tells of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnout.actors.ledger import LedgerStats
from turnout.calls import Attempt
from turnout.decisions.history import ProviderHistory, live_history


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counts as of now. ``queued`` calls wait for a worker, ``pending`` ones have an unresolved future, ``streams``
    are open in callers' hands. ``in_line`` ones wait for room at a provider, with no thread of the pool;
    ``lines`` counts them by ``provider_id``, those that wait for any of several at each. ``unobserved`` attempts came
    too fast for a learning policy."""

    workers: int
    max_workers: int
    queued: int
    pending: int
    streams: int
    in_line: int
    lines: Mapping[str, int]
    unobserved: int
    ledger: LedgerStats
    #: The latest attempts, 4,096 at most, oldest first.
    latest: tuple[Attempt, ...] = field(repr=False)

    @property
    def providers(self) -> dict[str, ProviderHistory]:
        """What became of the latest attempts at each provider that had some, by ``provider_id``. Reckoned anew each
        time, which takes some milliseconds."""
        return live_history(self.latest)
