"""What a kill -9 may cost where nobody waits for commits: the rows of one flush interval, and no others."""

import random
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.attempts import attempt
from turnout.actors.ledger import Ledger
from turnout.config import LedgerConfig
from turnout.ids import id_text
from turnout.runtime.actor import Behaviour
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.rows import Row
from turnout.storage.spool import Spool
from turnout.testing import ManualClock

#: Sums of intervals are rounded.
NOTHING: Final = 1e-6


class Store(MemoryMetricsStore):
    """A healthy one; ``kept`` is what a kill cannot take away."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: set[str] = set()

    def record_attempts(self, rows: Sequence[Row]) -> None:
        super().record_attempts(rows)
        self.kept |= {row.attempt_id for row in rows}


class Post:
    """An actor that gets each message at once, and is called whenever it wanted to be."""

    def __init__(self, behaviour: Behaviour, punctual: "Punctual", *, hangs: bool) -> None:
        self.behaviour = behaviour
        self._hangs = hangs
        self.due: float | None = None
        self._punctual = punctual

    def tell(self, message: Any) -> bool:
        if not self._hangs:
            self._punctual.bring(self, message)
        return True

    def rest(self) -> None:
        seconds = self.behaviour.rest()
        self.due = None if seconds is None else self._punctual.clock.monotonic() + seconds


class Punctual:
    """A runtime in which nothing takes time."""

    def __init__(self, *, store_hangs: bool = False) -> None:
        self.clock = ManualClock()
        self._store_hangs = store_hangs
        self._posts: list[Post] = []
        self._letters: deque[tuple[Post, Any]] = deque()
        self._brings = False

    def actor(self, name: str, behaviour: Behaviour, **settings: Any) -> Post:
        post = Post(behaviour, self, hangs=self._store_hangs and name == "store")
        self._posts.append(post)
        post.rest()
        return post

    def bring(self, to: Post, message: Any) -> None:
        """What is told while somebody acts comes after that."""
        self._letters.append((to, message))
        if self._brings:
            return
        self._brings = True
        while self._letters:
            post, letter = self._letters.popleft()
            post.behaviour.receive(letter)
            post.rest()
        self._brings = False

    def elapse(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while due := [post for post in self._posts if post.due is not None and post.due <= end]:
            first = min(due, key=lambda post: post.due or 0.0)
            self.clock.advance(max((first.due or 0.0) - self.clock.monotonic(), 0.0))
            self._brings = True
            first.rest()
            self._brings = False
            if self._letters:
                self.bring(*self._letters.popleft())
        self.clock.advance(max(end - self.clock.monotonic(), 0.0))


class Play:
    """Rows that come in bursts and after silences of every length."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.flush_seconds = self.rng.choice([0.01, 0.05, 2.0])
        config = LedgerConfig(
            flush_seconds=self.flush_seconds, batch_rows=self.rng.choice([1, 7, 5_000]), durability="batched"
        )
        self.store, self.runtime = Store(), Punctual()
        runtime: Any = self.runtime
        spool = Spool(folder) if self.rng.random() < 0.5 else None
        self.ledger = Ledger(self.store, "scope", config, runtime, closes_store=False, spool=spool)
        self.put: list[tuple[float, str]] = []

    def go_on(self) -> None:
        # The longest of them has the writer fall asleep.
        part = self.rng.choice([0.0, 0.1, 0.5, 1.0, 3.0, 50.0])
        self.runtime.elapse(part * self.rng.random() * self.flush_seconds)
        for _ in range(self.rng.choice([0, 1, 1, 2, 20])):
            one = attempt("a", began=self.runtime.clock.wall())
            self.ledger.put(one)
            self.put.append((self.runtime.clock.monotonic(), id_text(one.key)))

    def in_memory_only(self) -> list[float]:
        """For how long those rows have been there that a kill would take away just now."""
        now = self.runtime.clock.monotonic()
        return [now - at for at, attempt_id in self.put if attempt_id not in self.store.kept]


@pytest.mark.parametrize("seed", range(20))
def test_no_row_is_in_memory_alone_for_longer_than_one_flush_interval(seed: int, tmp_path: Path) -> None:
    play = Play(seed, tmp_path / "spool")
    longest = 0.0
    for _ in range(60):
        play.go_on()
        longest = max([longest, *play.in_memory_only()])
    assert longest <= play.flush_seconds + NOTHING
    play.runtime.elapse(play.flush_seconds)
    assert play.in_memory_only() == []
    assert len(play.store.kept) == len(play.put) > 0


def test_a_flush_interval_is_used_and_rows_are_not_written_one_by_one(tmp_path: Path) -> None:
    seeds = [Play(seed, tmp_path / "spool") for seed in range(10)]
    for play in seeds:
        for _ in range(60):
            play.go_on()
    assert any(play.in_memory_only() for play in seeds)


def test_rows_of_a_store_that_hangs_from_the_first_are_in_files_an_interval_later(tmp_path: Path) -> None:
    runtime: Any = Punctual(store_hangs=True)
    config = LedgerConfig(flush_seconds=0.05)
    spool = Spool(tmp_path / "spool")
    ledger = Ledger(Store(), "scope", config, runtime, closes_store=False, spool=spool)
    for rows in range(1, 40):
        ledger.put(attempt("a", began=runtime.clock.wall()))
        runtime.elapse(0.1 + NOTHING)
        assert (ledger.stats().spooled, ledger.stats().waiting) == (rows, 0)
    spool.close()
