"""What scores ask of a store, and how it is told when the store cannot say."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from loguru import logger

from turnout.calls import EPOCH, MICROSECOND, CallType, Identity
from turnout.decisions.aggregates import HALF_LIVES, SECONDS_PER_HOUR, Partition, ScoreAggregateQuery
from turnout.decisions.totals import Window
from turnout.policies.contract import History


class HistoryScope(StrEnum):
    """Whose rows count."""

    #: Those of the router's own ``metrics_scope``.
    CURRENT = "current"
    #: Those of all scopes in the store.
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked each time. A half-life takes the place of the lookback."""

    scope: HistoryScope
    lookback_hours: float
    half_life_hours: float | None

    @property
    def window(self) -> Window:
        if self.half_life_hours is None:
            return Window(self.lookback_hours * SECONDS_PER_HOUR)
        half_life = self.half_life_hours * SECONDS_PER_HOUR
        return Window(HALF_LIVES * half_life, half_life)

    def about(
        self, partitions: Sequence[Partition], call_type: CallType, history: History, at: float
    ) -> ScoreAggregateQuery:
        """The same, as of ``at`` (seconds since the epoch)."""
        reference = EPOCH + round(at * 1e6) * MICROSECOND
        return ScoreAggregateQuery(
            tuple(partitions),
            call_type,
            # No database has to know of times before.
            max(reference - timedelta(seconds=self.window.seconds), EPOCH),
            reference,
            history.metrics_scope if self.scope is HistoryScope.CURRENT else None,
            self.half_life_hours,
        )


def partition_of(provider: Identity) -> Partition:
    return Partition(provider.provider_id, provider.model, provider.protocol)


class Outages:
    """Warns of a store that gives no history: once, until it does again."""

    def __init__(self, meanwhile: str) -> None:
        self._meanwhile = meanwhile
        self._lasts = False

    def lost(self, why: object) -> None:
        if self._lasts:
            logger.debug("the store still gives no history for scores: {}", why)
            return
        self._lasts = True
        logger.warning("the store gives no history for scores ({}); {}", why, self._meanwhile)

    def over(self) -> None:
        if self._lasts:
            self._lasts = False
            logger.info("the store gives history for scores again")
