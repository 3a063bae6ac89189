"""What must hold however actors, workers, timer, providers and callers interleave.

Each seed is one order of events, and one draw of faults, that plays again exactly.

``TURNOUT_SEEDS=100000`` plays that many; ``TURNOUT_SEEDS=417-417`` plays one again.
"""

import math
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import pytest
from loguru import logger

from turnout import (
    Attempt,
    CallType,
    DeadlineExceededError,
    Fault,
    Outcome,
    PreferencePolicy,
    Reason,
    RoundRobinPolicy,
)
from turnout.calls import Identity
from turnout.config import BudgetConfig, HealthConfig, LedgerConfig
from turnout.decisions.circuit import State
from turnout.engine import Engine
from turnout.ids import TimeOrderedIds, id_text
from turnout.policies.contract import OrderingPolicy, Policy
from turnout.testing import Stage

SEEDS = 1_000
#: Of the slow tests, after those.
MORE_SEEDS = 1_000
BATCH = 250
COOLDOWN = 60.0
TIMEOUT_SECONDS = 10.0
GRACE_SECONDS = 0.1 + 1e-6
#: How long a retry is waited for: also longer than a bench lasts.
PAUSES = [0.0, 1.0, COOLDOWN + 10.0]
RETRIED = {Fault.TIMEOUT, Fault.CONNECTION, Fault.SERVER_ERROR, Fault.UNKNOWN, Fault.TRANSIENT}
#: What a caller may know of a provider: for how long it is then left alone.
LEFT_ALONE = {Fault.RATE_LIMIT: COOLDOWN, Fault.QUOTA: 3600.0, Fault.AUTH: math.inf}


class Whim:
    """A custom policy, in the form that is asked."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def order(self, eligible: Sequence[Identity], context: Any) -> list[Identity]:
        return self._rng.sample(eligible, self._rng.randint(1, len(eligible)))


class Rows:
    """A store that keeps rows in the order of their coming, and fails now and then."""

    def __init__(self, rng: random.Random) -> None:
        self.rows: list[Any] = []
        self._rng = rng

    def record_attempts(self, rows: Sequence[Any]) -> None:
        if self._rng.random() < 0.1:
            raise OSError("the disk is away")
        self.rows += rows

    def query_recent(self, **filters: Any) -> list[Any]:
        return self.rows

    def close(self) -> None:
        """Nothing to close."""


class Play:
    """A few callers, providers and faults, drawn from a seed, and everything that was seen of them."""

    def __init__(self, stage: Stage, cast: Any) -> None:
        self.stage = stage
        # Apart from the stage's own chance: what happens, and in which order, are drawn separately.
        self.rng = rng = random.Random(-1 - stage.seed)
        self.weather = rng.choice([0.1, 0.3, 0.6])
        # One seed in three has sizes and retries as well.
        windows, first_tokens = ([None], [None]) if stage.seed % 3 else ([8, 8, 16, 32], [None, 2.0, 15.0])
        self.providers = {
            name: cast.provider(
                name,
                rng.choice([None, None, 1, 2]),
                rng.choice([0.0, 0.0, 0.5, 15.0]),
                self,
                rng.choice(first_tokens),
                rng.choice(windows),
            )
            for name in "abc"[: rng.randint(1, 3)]
        }
        self.retries = {} if stage.seed % 3 else dict.fromkeys(self.providers, cast.again(rng.choice(PAUSES)))
        self.asked: dict[int, Any] = {}
        self.futures: dict[int, Future[Any]] = {}
        #: Those with a deadline that were not seen to have ended.
        self.bounded: dict[int, Future[Any]] = {}
        self.recorded: list[Attempt] = []
        #: With the events between which their provider was busy with them.
        self.calls: list[tuple[Attempt, int, int]] = []
        self.resets: list[tuple[str | None, int, int]] = []
        self.wrong: list[str] = []
        self.health = HealthConfig(
            failure_threshold=2,
            half_open_probes=rng.choice([1, 1, 2]),
            when_all_benched=rng.choice(["raise", "raise", "wait", "soonest"]),
        )
        self.store = Rows(rng)
        self.committed = rng.random() < 0.3
        #: Calls that ended before all of their rows were in the store.
        self.hasty = 0
        #: Those that were not seen to have ended.
        self.waiting: dict[int, Future[Any]] = {}
        # Gives the keys that the engine gives, at the same instants.
        self.keys = TimeOrderedIds(stage.clock, random.Random(stage.seed))
        self.engine = self._engine()
        self.history = {0: self.engine.plant.health.snapshot}
        self.closings: list[tuple[str, int]] = []
        self.resetting = 0
        #: Sizes of the pool, and the events since which they were in force.
        self.sizes = [(0, stage.workers.max_workers)]
        #: Whom somebody was seen to wait for: "paced", "shared" or "bounded" ones.
        self.waited_for: set[str] = set()
        self._witness_records()
        self._witness_hand_overs()
        stage.watch(self._look)

    def _engine(self) -> Engine:
        stage, rng = self.stage, self.rng
        policies: list[Policy | OrderingPolicy] = [RoundRobinPolicy(), PreferencePolicy(), Whim(rng)]
        return stage.engine(
            tuple(provider.target() for provider in self.providers.values()),
            policy=rng.choice(policies),
            health=self.health,
            store=self.store,
            ledger=LedgerConfig(durability="committed" if self.committed else "batched"),
            retry_policies=self.retries,
            budget=rng.choice([BudgetConfig(), BudgetConfig(ratio=0.0, per_second=0.0, max_tokens=2)]),
        )

    def _witness_records(self) -> None:
        ledger = self.engine.plant.ledger
        put = ledger.put

        def witnessed(attempt: Attempt) -> None:
            asked = self.asked[attempt.invocation_key]
            asked.attempts.append(attempt)
            self.recorded.append(attempt)
            called_at = self.providers[attempt.provider_id].in_flight.pop(asked.key)
            self.providers[attempt.provider_id].pooled.pop(asked.key, None)
            self.calls.append((attempt, called_at, len(self.stage.trace)))
            self.claim(
                len(asked.attempts) == len(asked.sent) == attempt.number,
                "an attempt is recorded once, at its end",
            )
            self.claim(asked.sent[-1:] == [attempt.provider_id], "an attempt is recorded with who made it")
            self.claim(
                _began(self, attempt) <= asked.cancelled_at + 1e-6,
                "an attempt was begun for a cancelled call",
            )
            put(attempt)

        ledger.put = witnessed  # type: ignore[method-assign]

    def _witness_hand_overs(self) -> None:
        handed = self.engine._handed

        def witnessed(walk: Any, step: Any) -> Any:
            for provider in self.providers.values():
                provider.pooled.pop(step.value.progress.invocation.request.key, None)
            return handed(walk, step)

        self.engine._handed = witnessed  # type: ignore[method-assign]

    def resize(self, max_workers: int) -> None:
        self.engine.resize(max_workers)
        self.sizes.append((len(self.stage.trace), max_workers))

    def widest_share_since(self, event: int) -> int | None:
        """The most that a provider without a bound of its own was allowed of the pool, then and later."""
        if len(self.providers) == 1:
            return None
        ends = [since for since, _ in self.sizes[1:]] + [math.inf]
        return max(max(size // 2, 1) for (_, size), end in zip(self.sizes, ends, strict=True) if end >= event)

    def claim(self, holds: bool, what: str) -> None:
        """Say what must hold where a failed assertion would be taken for a provider's own failure."""
        if not holds:
            self.wrong.append(what)

    def _look(self) -> None:
        """After every event."""
        assert not self.wrong, self.wrong
        plant = self.engine.plant
        if self.committed:
            self._look_for_hasty_ends()
        for target in plant.execution.eligibility.targets:
            for lane in lanes(target):
                assert lane.free <= lane.width, f"{target.provider_id} has a token too many"
                if not lane.waiting:
                    continue
                assert target.pace or not lane.free, f"somebody waits although {target.provider_id} has room"
                kind = "paced" if target.pace else "bounded" if lane is target.lane else "shared"
                self.waited_for.add(kind)
        if self.stage.idle:
            # A call that cannot end itself is ended a little later.
            overdue = self.stage.clock.monotonic() - GRACE_SECONDS
            for key, future in list(self.bounded.items()):
                assert future.done() or self.asked[key].until > overdue, f"{self.asked[key]} is overdue"
                if future.done():
                    del self.bounded[key]
        if plant.health.snapshot.epoch not in self.history:
            before = self.history[plant.health.snapshot.epoch - 1]
            self.history[plant.health.snapshot.epoch] = plant.health.snapshot
            now = self.stage.clock.monotonic()
            for name, circuit in plant.health.snapshot.circuits.items():
                assert circuit.probes_out(now) <= self.health.half_open_probes, (
                    f"{name} has a permit too many"
                )
                was = before.circuits[name]
                if was.opened and not (circuit.opened or circuit.disabled or self.resetting):
                    self.closings.append((name, was.since))

    def _look_for_hasty_ends(self) -> None:
        ended = [key for key, future in self.waiting.items() if future.done()]
        if ended:
            kept = {row.attempt_id for row in self.store.rows}
            for key in ended:
                future = self.waiting.pop(key)
                rows = {id_text(attempt.key) for attempt in self.asked[key].attempts}
                # What ends at its deadline, or by an interrupt, waits for nothing more.
                end = None if future.cancelled() else future.exception(0)
                hasty = not isinstance(end, DeadlineExceededError | SystemExit | KeyboardInterrupt)
                hasty = hasty and not future.cancelled()
                self.hasty += hasty and not rows <= kept
        uncommitted = self.engine.plant.ledger.stats().uncommitted
        assert self.hasty <= uncommitted, "a call ended before its rows were committed"


def play(seed: int, cast: Any) -> Play:
    """One play from the first event to the closed engine, with everything that must hold."""
    with Stage(seed, max_workers=1 + seed % 3, max_queue=2 + seed % 7) as stage:
        this = Play(stage, cast)
        callers = cast.callers(this)
        for name in ("Ada", "Ben", "Cleo")[: 1 + seed % 3]:
            stage.caller(name, callers.caller(name))
        stage.run()
        while not this.engine.flush(1.0):
            continue
        everything_ended(this)
        records_are_exact(this)
        nobody_was_asked_while_benched(this)
        few_probe_at_once(this)
        no_interval_is_undercut(this)
        late_successes_prove_nothing(this)
        no_retry_passes_a_gate(this)
        nothing_is_sent_again_to_the_same_size(this)
        what_a_caller_has_seen_its_next_call_knows(this)
        this.engine.close(None)
        assert stage.unfinished == []
    return this


def lanes(target: Any) -> set[Any]:
    return {lane for lane in (target.lane, target.pooled_lane) if lane is not None}


def everything_ended(this: Play) -> None:
    assert this.stage.unfinished == []
    stats = this.engine.stats()
    assert (stats.pending, stats.queued, stats.workers, stats.streams, stats.in_line) == (0, 0, 0, 0, 0)
    for key, future in this.futures.items():
        assert future.done()
        assert this.asked[key].resolved == 1
    share = this.widest_share_since(len(this.stage.trace))
    for target in this.engine.plant.execution.eligibility.targets:
        for lane in lanes(target):
            assert lane.free == lane.width, f"{target.provider_id} has lost a token"
            assert lane is target.lane or lane.width == share, f"{target.provider_id} has another's share"
        assert target.pace is None or len(target.pace.free) == 1, f"{target.provider_id} has lost its slot"
    assert not any(provider.in_flight for provider in this.providers.values())
    for name, circuit in this.engine.plant.health.snapshot.circuits.items():
        assert circuit.permits == (), f"{name} has lost a permit"


def records_are_exact(this: Play) -> None:
    assert [row.attempt_id for row in this.store.rows] == [id_text(attempt.key) for attempt in this.recorded]
    for asked in this.asked.values():
        assert [attempt.provider_id for attempt in asked.attempts] == asked.sent
        assert [attempt.number for attempt in asked.attempts] == [*range(1, len(asked.sent) + 1)]


def nobody_was_asked_while_benched(this: Play) -> None:
    for attempt in this.recorded:
        circuit = this.history[attempt.epoch].circuits[attempt.provider_id]
        state = circuit.state_at(_began(this, attempt) + 1e-6)
        if this.health.when_all_benched != "soonest":
            assert state in (State.CLOSED, State.HALF_OPEN), f"{attempt} began on a bench"
        assert state is State.CLOSED or circuit.probes, f"{attempt} began without a permit"


def few_probe_at_once(this: Play) -> None:
    probes = []
    for attempt, called, ended in this.calls:
        circuit = this.history[attempt.epoch].circuits[attempt.provider_id]
        if circuit.opened:
            probes.append((attempt, called, ended))
    for probe, called, _ in probes:
        beside = [
            other
            for other, begun, ended in probes
            if other.by == probe.by
            and begun <= called < ended
            # Once it closed, or was reset, who probes it still is late.
            and all(
                this.history[epoch].circuits[probe.provider_id].opened
                for epoch in range(other.epoch, probe.epoch)
            )
            # A permit lapses some time after its attempt should have ended, made or not.
            and abs(_began(this, probe) - _began(this, other)) < TIMEOUT_SECONDS
        ]
        assert len(beside) <= this.health.half_open_probes, f"{probe} was one probe too many: {beside}"


def no_interval_is_undercut(this: Play) -> None:
    for name, provider in this.providers.items():
        begun = sorted(_began(this, attempt) for attempt in this.recorded if attempt.provider_id == name)
        for before, after in pairwise(begun):
            assert after - before >= provider.interval - 1e-6, f"{name} was asked again too soon"


def late_successes_prove_nothing(this: Play) -> None:
    good = (Outcome.OK, Outcome.DEGRADED)
    for name, since in this.closings:
        assert any(
            attempt.outcome in good and attempt.epoch >= since
            for attempt in this.recorded
            if attempt.provider_id == name
        ), f"{name} closed without a success that began since it opened"


def no_retry_passes_a_gate(this: Play) -> None:
    for asked in this.asked.values():
        row = 1
        for before, again in pairwise(asked.attempts):
            row = row + 1 if again.reason is Reason.RETRY else 1
            if row == 1:
                continue
            assert before.by == again.by
            assert row <= 3, f"{again} was one retry too many"
            assert before.fault in RETRIED, f"{before} was retried"
            assert not before.stream_opened, f"{before} had opened a stream"
            own = f" {before.invocation_key}/{before.number}"
            for epoch in range(before.epoch + 1, again.epoch + 1):
                circuit = this.history[epoch].circuits[before.provider_id]
                failure = circuit.last_failure
                assert not circuit.opened or failure is None or not failure.message.endswith(own), (
                    f"{again} was made although {before} had benched its provider"
                )


def nothing_is_sent_again_to_the_same_size(this: Play) -> None:
    for asked in this.asked.values():
        smallest = 0
        for attempt in asked.attempts:
            window = this.providers[attempt.provider_id].window
            assert window is None or window > smallest, f"{attempt} was known to be too small"
            if attempt.fault is Fault.CONTEXT_LENGTH:
                smallest = max(smallest, window or 0)


def what_a_caller_has_seen_its_next_call_knows(this: Play) -> None:
    if this.health.when_all_benched == "soonest":
        # Then a benched provider may be asked, where all are.
        return
    for earlier in this.asked.values():
        for seen in earlier.attempts[: earlier.shown]:
            left_alone = LEFT_ALONE.get(seen.fault) if seen.fault else None
            if earlier.seen is None or left_alone is None:
                continue
            until = _began(this, seen) + left_alone - 1e-6
            for later in this.asked.values():
                if later.caller != earlier.caller or later.began < earlier.seen:
                    continue
                again = [a for a in later.attempts if a.by == seen.by and _began(this, a) < until]
                if again and not _reset_between(this, seen.provider_id, earlier, later):
                    raise AssertionError(f"{later.caller} saw {seen}, and its next call made {again}")


def _reset_between(this: Play, provider_id: str, earlier: Any, later: Any) -> bool:
    end = math.inf if later.seen is None else later.seen
    return any(
        name in (None, provider_id) and after >= earlier.began and before <= end
        for name, before, after in this.resets
    )


def _began(this: Play, attempt: Attempt) -> float:
    return attempt.began - (this.stage.clock.wall() - this.stage.clock.monotonic())


def seeds() -> tuple[int, int]:
    asked = os.environ.get("TURNOUT_SEEDS", str(SEEDS))
    first, _, last = asked.partition("-")
    return (int(first), int(last) + 1) if last else (0, int(first))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    played = {"batch": seeds(), "slow_batch": (SEEDS, SEEDS + MORE_SEEDS)}
    for name in played.keys() & set(metafunc.fixturenames):
        first, end = played[name]
        metafunc.parametrize(
            name,
            [range(at, min(at + BATCH, end)) for at in range(first, end, BATCH)],
            ids=lambda batch: f"{batch.start}-{batch.stop - 1}",
        )


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger.disable("turnout")
    yield
    logger.enable("turnout")


def test_every_interleaving_keeps_its_promises(batch: range, cast: Any) -> None:
    plays = [play(seed, cast) for seed in batch]
    if len(batch) == BATCH:
        # Promises kept by plays in which nothing happens would say nothing.
        assert {attempt.outcome for this in plays for attempt in this.recorded} == set(Outcome)
        assert {kind for this in plays for kind in this.waited_for} == {"paced", "shared", "bounded"}
        assert {attempt.reason for this in plays for attempt in this.recorded} >= {
            Reason.RETRY, Reason.FAILOVER, Reason.STREAM_RESTART,
        }  # fmt: skip
        assert any(_went_on_to_a_larger(this) for this in plays)
        assert any(_was_cut_for_its_first_token(this, attempt) for this in plays for attempt in this.recorded)


@pytest.mark.slow
def test_many_more_interleavings_keep_them(slow_batch: range, cast: Any) -> None:
    test_every_interleaving_keeps_its_promises(slow_batch, cast)


def _went_on_to_a_larger(this: Play) -> bool:
    return any(
        before.fault is Fault.CONTEXT_LENGTH
        for asked in this.asked.values()
        for before, _ in pairwise(asked.attempts)
    )


def _was_cut_for_its_first_token(this: Play, attempt: Attempt) -> bool:
    first_token = this.providers[attempt.provider_id].first_token
    return (
        attempt.call_type is CallType.STREAMING
        and attempt.fault is not None
        and first_token is not None
        and attempt.elapsed_seconds == pytest.approx(first_token)
    )


def test_a_seed_plays_the_same_events_again(cast: Any) -> None:
    for seed in range(20):
        assert play(seed, cast).stage.trace == play(seed, cast).stage.trace
