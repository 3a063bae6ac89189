"""The best first, by how often providers answered of late, and how soon."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any, Final

from loguru import logger

from turnout.calls import Attempt, CallType, Identity
from turnout.clock import Clock
from turnout.config import LONGEST_SECONDS
from turnout.decisions.aggregates import Partition, ScoreAggregateQuery
from turnout.decisions.scoring import ScoreWeights
from turnout.errors import ConfigError
from turnout.policies.bounds import is_built_in, number_above_zero
from turnout.policies.contract import Answers, History, OrderingPolicy, Policy, Ranking, ReadsHistory
from turnout.policies.preference import ConfiguredOrder
from turnout.policies.round_robin import RoundRobinPolicy
from turnout.policies.score_asking import AskedScores
from turnout.policies.score_history import HistoryScope, Outages, Question, partition_of
from turnout.policies.score_learning import LearntScores
from turnout.policies.score_ranking import Bounded, ScoreRanking
from turnout.policies.wiring import ReadsClock, ReadsLoad

#: Ten years.
_MOST_HOURS: Final = 87_600.0
_CALL_TYPES: Final = tuple(CallType)


class ScoreBasedPolicy:
    """Tries providers in the order of their scores (``ScoreWeights``), regular calls and streams apart. Where scores
    are equal it keeps the order of ``tie_break_policy`` (by default round robin), with its omissions and repetitions.

    Scores are made from the attempts of the last ``lookback_hours``, which count alike; or, with ``half_life_hours``,
    from those of the last six half-lives, each counting half as much every half-life. They are those of the router's
    own ``metrics_scope``, or with ``HistoryScope.ALL`` of all scopes in the store.

    No call waits for a store: totals are kept in memory, start from nothing, learn from every attempt at once, and are
    replaced by what the store says every ``refresh_seconds`` (less often where it takes long to say it). While it
    cannot say anything they go on alone; once its last answer is older than ``max_staleness_seconds`` (None: never),
    the order is that of the tie-break until there is another. Where the router keeps no ledger, what it sees itself is
    all.

    ``ask_store_each_time`` asks the store for each order instead, and learns nothing: calls wait for it, and where it
    cannot say anything, the order is that of the tie-break. ``now`` gives the time, with a time zone; by default it is
    the router's clock. A policy serves one router. Raises ``ConfigError`` for what is out of range.
    """

    def __init__(
        self,
        *,
        weights: ScoreWeights | Mapping[str, Any] | None = None,
        lookback_hours: float = 336.0,
        half_life_hours: float | None = None,
        history_scope: HistoryScope | str = HistoryScope.CURRENT,
        tie_break_policy: Policy | OrderingPolicy | None = None,
        refresh_seconds: float = 30.0,
        max_staleness_seconds: float | None = None,
        ask_store_each_time: bool = False,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        if now is not None and not callable(now):
            raise ConfigError(f"now must be callable, as lambda: datetime.now(UTC), not {type(now).__name__}")
        if not isinstance(ask_store_each_time, bool):
            raise ConfigError(f"ask_store_each_time must be True or False, not {ask_store_each_time!r}")
        self.weights = _weights(weights)
        self.ask_store_each_time = ask_store_each_time
        self.refresh_seconds = number_above_zero("refresh_seconds", refresh_seconds, LONGEST_SECONDS)
        self.max_staleness_seconds = _staleness(max_staleness_seconds, self.refresh_seconds)
        self.tie_break_policy = _tie_break(tie_break_policy, asked=ask_store_each_time)
        self._question = Question(
            _scope(history_scope),
            number_above_zero("lookback_hours", lookback_hours, _MOST_HOURS),
            None
            if half_life_hours is None
            else number_above_zero("half_life_hours", half_life_hours, _MOST_HOURS),
        )
        self._has_time = now is not None
        self._seconds = time.time if now is None else partial(_seconds_of, now)
        self._history: History | None = None
        self._outages = Outages("providers are ranked by what this router saw itself")
        #: As of when the store was asked last, and as of when it answered last; at first, since when it could have.
        self._asked_at = self._answered_at = 0.0
        self._stale = False
        self._partitions: tuple[Partition, ...] = ()
        self._learnt: LearntScores | None = None
        self._ties: Ranking = ConfiguredOrder()
        self._asking: AskedScores | None = None
        if ask_store_each_time:
            self._asking = AskedScores(self.weights, self._question, self.tie_break_policy, self._seconds)
            # There in this case only: by its ``order`` a policy is known for one that must be asked.
            self.order = self._asking.order
        if isinstance(self.tie_break_policy, ReadsLoad):
            self.bind_load = self.tie_break_policy.bind_load

    @property
    def learns(self) -> bool:
        return self._asking is None

    def bind_clock(self, clock: Clock) -> None:
        """Called before anything else: the time, unless ``now`` gives it."""
        if isinstance(self.tie_break_policy, ReadsClock):
            self.tie_break_policy.bind_clock(clock)
        if not self._has_time:
            self._seconds = clock.wall
        if self._asking is not None:
            self._asking.seconds = self._seconds

    def bind(self, history: History | None) -> None:
        self._history = history
        if self._asking is not None:
            self._asking.history = history

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        """From nothing: what was learnt before, in a parent process perhaps, is forgotten."""
        if self._asking is not None:
            self._asking.prepare(providers)
            return self._ties
        now = self._seconds()
        assert not isinstance(self.tie_break_policy, OrderingPolicy)
        self._ties = self._bounded(self.tie_break_policy.ranking(providers))
        self._partitions = tuple(map(partition_of, providers))
        self._learnt = LearntScores(providers, self.weights, self._question.window, now)
        self._asked_at = self._answered_at = now
        self._stale = False
        return self._published(self._learnt, now)

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        if self._learnt is None:
            return None
        now, ties = self._seconds(), None
        if not isinstance(self.tie_break_policy, OrderingPolicy) and self.tie_break_policy.learns:
            ties = self.tie_break_policy.observe(attempts)
        if ties is not None:
            self._ties = self._bounded(ties)
        taught = self._learnt.observe(attempts, now)
        return None if ties is None and not taught else self._published(self._learnt, now)

    def questions(self) -> Sequence[ScoreAggregateQuery]:
        if self._history is None or self._learnt is None:
            return ()
        history, now = self._history, self._seconds()
        self._asked_at = now
        return [self._question.about(self._partitions, kind, history, now) for kind in _CALL_TYPES]

    def answered(self, answers: Answers, since: Sequence[Attempt] = ()) -> Ranking | None:
        if self._learnt is None:
            return None
        for call_type, found in zip(_CALL_TYPES, answers, strict=True):
            self._learnt.replace(call_type, found, self._asked_at)
        self._learnt.observe(since, self._seconds())
        self._answered_at = self._asked_at
        self._stale = False
        self._outages.over()
        return self.aged()

    def unanswered(self, why: str) -> Ranking | None:
        self._outages.lost(why)
        return self.aged()

    def aged(self) -> Ranking | None:
        if self._learnt is None:
            return None
        now = self._seconds()
        self._learnt.age(now)
        return self._published(self._learnt, now)

    def _published(self, learnt: LearntScores, now: float) -> Ranking:
        if self._is_stale(now):
            return self._ties
        return ScoreRanking(self._ties, *map(learnt.scores, _CALL_TYPES))

    def _bounded(self, ties: Ranking) -> Ranking:
        return ties if is_built_in(self.tie_break_policy) else Bounded(ties)

    def _is_stale(self, now: float) -> bool:
        longest = self.max_staleness_seconds
        if longest is None or self._history is None or now - self._answered_at <= longest:
            return False
        if not self._stale:
            self._stale = True
            logger.warning(
                "the store has not told of scores for {:.0f} s; until it does, providers are tried in the order of "
                "the tie-break",
                now - self._answered_at,
            )
        return True


def _seconds_of(now: Callable[[], datetime]) -> float:
    at = now()
    if at.tzinfo is None:
        raise ConfigError("now() must give a time with a time zone, as datetime.now(UTC) does")
    return at.timestamp()


def _weights(given: ScoreWeights | Mapping[str, Any] | None) -> ScoreWeights:
    if isinstance(given, ScoreWeights):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"weights must be ScoreWeights or its fields, not {type(given).__name__}")
    known = [field.name for field in fields(ScoreWeights)]
    strange = [str(name) for name in given or {} if name not in known]
    if strange:
        raise ConfigError(f"weights: {strange[0]} is no known field; there are {', '.join(known)}")
    return ScoreWeights(**(given or {}))


def _scope(given: HistoryScope | str) -> HistoryScope:
    try:
        return HistoryScope(given)
    except ValueError:
        known = ", ".join(scope.value for scope in HistoryScope)
        raise ConfigError(f"history_scope must be one of {known}, not {given!r}") from None


def _tie_break(given: Policy | OrderingPolicy | None, *, asked: bool) -> Policy | OrderingPolicy:
    """Raises ``ConfigError`` for what cannot break ties where orders are made from a published ranking, or asked."""
    if given is None:
        return RoundRobinPolicy()
    name = type(given).__name__
    if isinstance(given, ReadsHistory):
        raise ConfigError(f"tie_break_policy {name} reads the store itself; give one that does not, or none")
    if isinstance(given, OrderingPolicy):
        if not asked:
            raise ConfigError(
                f"tie_break_policy {name} must be asked for each order; that goes with ask_store_each_time=True"
            )
    elif not callable(getattr(given, "ranking", None)):
        raise ConfigError(f"tie_break_policy {name} is none: it must be an object such as RoundRobinPolicy()")
    elif asked and getattr(given, "learns", False):
        raise ConfigError(
            f"tie_break_policy {name} learns from attempts, of which nobody is told with ask_store_each_time=True"
        )
    return given


def _staleness(given: float | None, refresh_seconds: float) -> float | None:
    if given is None:
        return None
    seconds = number_above_zero("max_staleness_seconds", given, LONGEST_SECONDS)
    if seconds <= refresh_seconds:
        raise ConfigError(
            f"max_staleness_seconds must be above refresh_seconds, which is {refresh_seconds:g}, not {given!r}"
        )
    return seconds
