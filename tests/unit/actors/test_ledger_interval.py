"""What a kill -9 may cost where nobody waits for commits: the rows of one flush interval, and no others."""

import random
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


class Punctual:
    """A runtime of one actor, which gets each message at once and is called whenever it wanted to be."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._due: float | None = None

    def actor(self, name: str, behaviour: Behaviour, **settings: Any) -> "Punctual":
        self._behaviour = behaviour
        self._rest()
        return self

    def tell(self, message: Any) -> bool:
        self._behaviour.receive(message)
        self._rest()
        return True

    def elapse(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while self._due is not None and self._due <= end:
            self.clock.advance(max(self._due - self.clock.monotonic(), 0.0))
            self._rest()
        self.clock.advance(max(end - self.clock.monotonic(), 0.0))

    def _rest(self) -> None:
        seconds = self._behaviour.rest()
        self._due = None if seconds is None else self.clock.monotonic() + seconds


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
