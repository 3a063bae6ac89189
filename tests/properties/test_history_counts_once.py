"""A policy that learns from attempts and from the store counts each attempt once, however the actors take turns."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from turnout import CallType, Fault, MemoryMetricsStore, Outcome, Partition, Reason, Row, ScoreAggregateQuery
from turnout import ScoreBasedPolicy as Scores
from turnout.actors.ledger import Ledger
from turnout.actors.ordering import Ordering
from turnout.calls import Attempt, Identity
from turnout.config import LedgerConfig
from turnout.errors import StorageError
from turnout.runtime.actor import Behaviour
from turnout.storage.attempts import AttemptRows
from turnout.storage.spool import Spool
from turnout.testing import ManualClock

SEEDS = 120
IDENTITIES = [Identity(name, name, "m", "openai_chat") for name in "ab"]
SCOPE = "scope"


class Store(MemoryMetricsStore):
    """Away now and then, as a test says; and what happens ``meanwhile`` does before and after it reads."""

    down = False

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = lambda: None

    def record_attempts(self, rows: Sequence[Row]) -> None:
        self._refuse()
        super().record_attempts(rows)

    def query_score_aggregates(self, query: ScoreAggregateQuery) -> list[Any]:
        self._refuse()
        self.meanwhile()
        found = super().query_score_aggregates(query)
        self.meanwhile()
        return found

    def _refuse(self) -> None:
        if self.down:
            raise StorageError("away")


class Post:
    """An actor that acts when it is told to: on one message, or at rest."""

    def __init__(self, name: str, behaviour: Behaviour) -> None:
        self.name = name
        self._behaviour = behaviour
        self._messages: deque[Any] = deque()

    def tell(self, message: Any) -> bool:
        self._messages.append(message)
        return True

    def ask(self, message: Any, timeout_seconds: float = 0.0) -> Any:
        raise AssertionError(f"nobody asks {self.name} here")

    def act(self) -> None:
        if self._messages:
            self._behaviour.receive(self._messages.popleft())
        self._behaviour.rest()


class Three:
    """As much of a runtime as the three actors need."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.posts: list[Post] = []

    def actor(self, name: str, behaviour: Behaviour, **settings: Any) -> Post:
        self.posts.append(Post(name, behaviour))
        return self.posts[-1]

    def act(self, name: str) -> None:
        next(post for post in self.posts if post.name == name).act()

    def settle(self) -> None:
        for _ in range(20):
            for post in self.posts:
                post.act()


class Play:
    def __init__(self, seed: int, folder: Path | None) -> None:
        self.rng = random.Random(seed)
        self.three = Three()
        self.store = Store()
        self.policy = Scores(refresh_seconds=5.0, half_life_hours=self.rng.choice([None, 10.0]))
        runtime: Any = self.three
        self.spool = spool = None if folder is None else Spool(folder)
        self.ledger = Ledger(self.store, SCOPE, LedgerConfig(), runtime, closes_store=False, spool=spool)
        self.policy.bind_clock(self.three.clock)
        self.ordering = Ordering(self.policy, IDENTITIES, runtime, self.ledger)
        self.number = 0

    def attempt(self) -> Attempt:
        self.number += 1
        outcome = self.rng.choice([Outcome.OK, Outcome.OK, Outcome.FAILED, Outcome.IGNORED, Outcome.DEGRADED])
        fault = self.rng.choice([Fault.TIMEOUT, Fault.RATE_LIMIT]) if outcome is Outcome.FAILED else None
        elapsed = self.rng.random()
        return Attempt(
            self.number, 7, 1, Reason.PRIMARY, self.rng.choice(IDENTITIES), CallType.REGULAR,
            self.three.clock.wall() - elapsed, elapsed, 0.0, outcome, 0, fault,
        )  # fmt: skip

    def happen(self) -> None:
        match self.rng.randrange(9):
            case 0 | 1 | 2:
                self.ledger.put(self.attempt())
            case 3 | 4:
                self.three.act("ledger")
            case 5:
                self.three.act("ordering")
            case 6:
                self.three.act("store")
            case 7:
                self.three.clock.advance(self.rng.choice([0.05, 1.0, 6.0]))
                self.store.down = self.rng.random() < 0.3
            case 8 if not self.store.down:
                # Another process, of the same scope.
                self.store.record_attempts(AttemptRows([self.attempt()], SCOPE))

    def end(self) -> None:
        if self.spool is not None:
            self.spool.close()

    def agree(self) -> None:
        """Between refreshes the policy knows all of its own, and what others had written by then."""
        now = self.three.clock.wall()
        (query,) = self._questions(now)
        learnt = self.policy._learnt
        assert learnt is not None
        for kept in self.store.query_score_aggregates(query):
            known = learnt._totals[CallType.REGULAR][kept.provider_id].aggregate(now)
            assert known.recent_error_count == kept.recent_error_count
            assert known.rate_limit_count == kept.rate_limit_count
            assert known.timeout_count == kept.timeout_count
            assert known.attempt_weight == pytest.approx(kept.attempt_weight, rel=1e-9)
            assert known.success_weight == pytest.approx(kept.success_weight, rel=1e-9)
            assert known.successful_latency_total_ms == pytest.approx(
                kept.successful_latency_total_ms, rel=1e-9
            )

    def _questions(self, now: float) -> list[ScoreAggregateQuery]:
        reference = datetime.fromtimestamp(now, UTC)
        half_life = self.policy._question.half_life_hours
        return [
            ScoreAggregateQuery(
                tuple(Partition(one.provider_id, one.model, one.protocol) for one in IDENTITIES),
                CallType.REGULAR,
                reference - timedelta(days=1),
                reference,
                SCOPE,
                half_life,
            )
        ]


@pytest.mark.parametrize(
    ("seeds", "with_files"),
    [
        *((range(at, at + 40), False) for at in range(0, SEEDS, 40)),
        (range(SEEDS, SEEDS + 40), True),
        pytest.param(range(SEEDS, SEEDS + 200), True, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_each_attempt_counts_once(seeds: range, with_files: bool, tmp_path: Path) -> None:
    for seed in seeds:
        play = Play(seed, tmp_path / str(seed) if with_files else None)
        for _ in range(play.rng.randrange(200)):
            play.happen()
        play.store.down = False
        # The ledger tries again, then the policy asks again, however long the last answer took.
        for _ in range(3):
            play.three.settle()
            play.three.clock.advance(10_000.0)
        play.three.settle()
        play.agree()
        for _ in range(5):
            play.ledger.put(play.attempt())
        play.three.act("ledger")
        play.three.settle()
        try:
            play.agree()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        play.end()


class Asked:
    """What goes on while the store is asked: callers, the ledger, the policy, and other processes."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.times = 0

    def __call__(self) -> None:
        play, rng = self._play, self._play.rng
        if self.times % (2 * len(CallType)) == 0:
            # Before anything of this refresh is read.
            play.store.record_attempts(AttemptRows([play.attempt()], SCOPE))
        self.times += 1
        for _ in range(rng.randrange(4)):
            play.ledger.put(play.attempt())
        play.three.clock.advance(rng.choice([0.0, 0.2, 3.0]))
        play.three.act(rng.choice(["ledger", "ordering"]))


@pytest.mark.parametrize("seeds", [range(40)], ids=str)
def test_each_refresh_gives_the_stores_totals_though_attempts_come_while_it_is_asked(
    seeds: range, tmp_path: Path
) -> None:
    for seed in seeds:
        play = Play(seed, tmp_path / str(seed) if seed % 2 else None)
        asked = Asked(play)
        for refresh in range(6):
            for _ in range(play.rng.randrange(5)):
                play.ledger.put(play.attempt())
            # Past the peace that a slow answer earns the store.
            play.three.clock.advance(1_000.0)
            play.store.meanwhile = asked
            play.three.settle()
            assert asked.times == 2 * len(CallType) * (refresh + 1)
            play.store.meanwhile = lambda: None
            # What went to files meanwhile has its turn.
            play.three.clock.advance(2.0)
            play.three.settle()
            try:
                play.agree()
            except AssertionError as error:
                error.add_note(f"seed {seed}, refresh {refresh}")
                raise
        play.end()
