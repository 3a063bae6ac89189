"""Orders by score, through a router: what was learnt, what a store knew before, and what is left of a fixed order."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from turnout import (
    CallType,
    MemoryMetricsStore,
    ProviderHTTPError,
    RouterExhaustedError,
    RoutingContext,
    Row,
    SameProviderRetryPolicy,
    ScoreAggregate,
    ScoreBasedPolicy,
    ScoreWeights,
    SQLiteMetricsStore,
    StickyRoutingPolicy,
    StorageError,
    aggregate_stats,
    calculate_provider_score,
)
from turnout.actors.ledger_messages import Observed
from turnout.calls import EPOCH
from turnout.faults import Fault
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters, ScriptedCall

SCOPE = "my-application:production"
WAIT_SECONDS = 20.0
HOUR = timedelta(hours=1)
DAY = 24 * HOUR
_numbers = count(1)


def row(clock: ManualClock, name: str, ago: timedelta, **values: Any) -> Row:
    """A success of so long ago, unless something else is said."""
    known: dict[str, Any] = {
        **dict.fromkeys(Row._fields),
        "attempt_id": f"01900000-0000-7000-8000-{next(_numbers):012x}",
        "invocation_id": f"01900000-0000-7000-8000-{next(_numbers):012x}",
        "attempt_number": 1,
        "reason": "primary",
        "started_at": EPOCH + timedelta(seconds=clock.wall()) - ago,
        "metrics_scope": SCOPE,
        "provider_id": name,
        "provider_name": name,
        "model": f"model-{name}",
        "protocol": "openai_chat",
        "call_type": "regular",
        "success": True,
        "outcome": "ok",
        "latency_ms": 100.0,
        "total_duration_ms": 100.0,
        "queue_ms": 0.0,
        "billing_state": "unknown",
    }
    return Row(**{**known, **values})


def failed(clock: ManualClock, name: str, ago: timedelta) -> Row:
    return row(clock, name, ago, success=False, outcome="failed", fault="server_error")


class Providers:
    """Providers that answer with their names, after as long as is said, or fail."""

    def __init__(self, clock: ManualClock, **takes: float | Exception) -> None:
        self.takes = takes
        self._clock = clock
        self.adapters = ScriptedAdapters({name: [self._answer] for name in takes})

    def _answer(self, call: ScriptedCall) -> Any:
        takes = self.takes[call.provider_id]
        if isinstance(takes, Exception):
            raise takes
        if not call.arguments.get("stream"):
            self._clock.advance(takes)
            return call.provider_id

        def first() -> str:
            self._clock.advance(takes)
            return call.provider_id

        return [first, FINISHED]

    @property
    def tried(self) -> str:
        return "".join(call.provider_id for call in self.adapters.calls)


def learnt(router: Any) -> None:
    """Once the policy was told of every attempt so far."""
    assert router.flush()
    assert router._engine.plant.ledger._writer.learner.ask(Observed(())) is None


def order(router: Any, call_type: CallType = CallType.REGULAR, ticket: int = 0) -> str:
    """The order that a call would have now."""
    plant = router._engine.plant
    ranking = plant.ordering._learning.ranking
    plan = ranking.plan(plant.bulkheads.targets, RoutingContext(call_type), ticket)
    return "".join(target.provider_id for target in plan)


def until(condition: Callable[[], bool], clock: ManualClock | None = None, step: float = 0.0) -> None:
    """Wait, moving manual time on meanwhile: a store answers on no call's time."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        if clock is not None:
            clock.advance(step)
        threading.Event().wait(0.002)


def until_ordered(router: Any, wanted: str, call_type: CallType = CallType.REGULAR) -> None:
    until(lambda: order(router, call_type) == wanted)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


# Asked for first, it is closed after the routers.
@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> Iterator[Any]:
    kept = MemoryMetricsStore() if request.param == "memory" else SQLiteMetricsStore(tmp_path / "rows.sqlite")
    yield kept
    kept.close()


# Score calculation.


def test_the_rows_of_a_router_come_to_a_score_for_each_provider(
    store: Any, rig: Any, clock: ManualClock
) -> None:
    providers = Providers(clock, a=2.0, b=ConnectionError("down"), c=0.5)
    router = rig.scripted(providers.adapters, "abc", metrics_store=store, clock=clock)
    with router:
        # Round robin: a, then b and c after it, then c.
        assert [router.invoke(rig.chat()) for _ in range(3)] == ["a", "c", "c"]
        with router.invoke(rig.chat(stream=True)) as stream:
            assert list(stream) == ["a"]
        assert router.flush()
        rows = store.query_recent(since=EPOCH, metrics_scope=router.metrics_scope)
        regular, streaming = (aggregate_stats(rows, router.providers, kind) for kind in CallType)

    assert (regular["a"].regular_success_rate, regular["b"].regular_success_rate) == (1.0, 0.0)
    assert regular["c"].regular_latency_ms == pytest.approx(500.0)
    # Of five attempts that count as 0.75 and one that was as slow as the reference.
    score = calculate_provider_score(regular["a"], ScoreWeights())
    assert score.success_quality == pytest.approx((5 * 0.75 + 1) / 6)
    assert score.speed_quality == pytest.approx((5 * 0.75 + 0.5) / 6)
    assert score.total == pytest.approx((score.success_quality + score.speed_quality) / 2)
    # Streams by themselves, against a reference of their own; who had none is as new.
    assert streaming["a"].streaming_ttft_ms == pytest.approx(2000.0)
    of_stream = calculate_provider_score(streaming["a"], None, CallType.STREAMING)
    assert of_stream.speed_quality == pytest.approx((5 * 0.75 + 0.2) / 6)
    assert calculate_provider_score(streaming["c"], None, CallType.STREAMING).total == 0.75
    only_success = calculate_provider_score(regular["b"], ScoreWeights(speed_weight=0.0))
    assert only_success.total == only_success.success_quality == pytest.approx(5 * 0.75 / 6)


# Score-based routing.


def test_equals_take_turns_and_then_the_better_one_leads(store: Any, rig: Any, clock: ManualClock) -> None:
    providers = Providers(clock, a=3.0, b=0.05, c=0.4)
    router = rig.scripted(
        providers.adapters, "abc", policy=ScoreBasedPolicy(), metrics_store=store, clock=clock
    )
    for _ in range(6):
        router.invoke(rig.chat())
        learnt(router)
    # Whoever is slow is left alone, and whoever is quick is kept to.
    assert providers.tried == "abbbbb"
    # One that falls behind is overtaken by who was not tried yet.
    providers.takes["b"] = 60.0
    for _ in range(4):
        router.invoke(rig.chat())
        learnt(router)
    assert providers.tried == "abbbbbbccc"


def test_a_router_that_starts_anew_has_what_the_store_knew_and_fails_over_along_it(
    store: Any, rig: Any, clock: ManualClock
) -> None:
    store.record_attempts([row(clock, "c", DAY), failed(clock, "b", DAY)])
    down = ConnectionError("down")
    providers = Providers(clock, a=down, b=down, c=down)
    router = rig.scripted(providers.adapters, "abc", policy="score", metrics_store=store, clock=clock)
    until_ordered(router, "cab")
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    assert providers.tried == "cab"


def test_each_call_type_has_scores_of_its_own(store: Any, rig: Any, clock: ManualClock) -> None:
    store.record_attempts(
        [
            row(clock, "a", DAY),
            failed(clock, "b", DAY),
            row(clock, "b", DAY, call_type="streaming", stream_opened=True),
        ]
    )
    router = rig.scripted(
        Providers(clock, a=0.1, b=0.1).adapters, "ab", policy="score", metrics_store=store, clock=clock
    )
    until_ordered(router, "ba", CallType.STREAMING)
    until_ordered(router, "ab")
    assert router.invoke(rig.chat()) == "a"
    with router.invoke(rig.chat(stream=True)) as stream:
        assert list(stream) == ["b"]


def test_what_other_processes_saw_counts_from_the_next_refresh_on(
    store: Any, rig: Any, clock: ManualClock
) -> None:
    router = rig.scripted(
        Providers(clock, a=0.1, b=0.1).adapters,
        "ab",
        policy=ScoreBasedPolicy(refresh_seconds=10.0),
        metrics_store=store,
        clock=clock,
    )
    router.invoke(rig.chat())
    learnt(router)
    assert order(router, ticket=1) == "ab"
    store.record_attempts([row(clock, "b", HOUR, latency_ms=1.0) for _ in range(9)])
    assert order(router) == "ab"
    until(lambda: order(router) == "ba", clock, 10.0)


@pytest.mark.parametrize(("scope", "wanted"), [("current", "ab"), ("all", "ba")])
def test_rows_of_other_scopes_count_where_all_are_wanted(
    store: Any, rig: Any, clock: ManualClock, scope: str, wanted: str
) -> None:
    elsewhere = [row(clock, "b", DAY, metrics_scope="elsewhere", latency_ms=1.0) for _ in range(9)]
    store.record_attempts([*elsewhere, row(clock, "a", DAY)])
    router = rig.scripted(
        Providers(clock, a=0.1, b=0.1).adapters,
        "ab",
        policy=ScoreBasedPolicy(history_scope=scope),
        metrics_store=store,
        clock=clock,
    )
    until_ordered(router, wanted)
    # What it writes is of its own scope all the same.
    router.invoke(rig.chat())
    router.close()
    assert len(store.query_recent(since=EPOCH, metrics_scope=SCOPE)) == 2


def test_rows_under_another_model_say_nothing(store: Any, rig: Any, clock: ManualClock) -> None:
    store.record_attempts([row(clock, "b", DAY, model="older"), row(clock, "c", DAY)])
    router = rig.scripted(
        Providers(clock, a=0.1, b=0.1, c=0.1).adapters,
        "abc",
        policy="score",
        metrics_store=store,
        clock=clock,
    )
    until_ordered(router, "cab")


class Unwell(MemoryMetricsStore):
    """Answers questions about scores with what it is told to, or raises it."""

    def __init__(self) -> None:
        super().__init__()
        self.ill: Any = None

    def query_score_aggregates(self, query: Any) -> Any:
        if self.ill is None:
            return super().query_score_aggregates(query)
        if isinstance(self.ill, Exception):
            raise self.ill
        return self.ill(super().query_score_aggregates(query))


WRONG = {
    "raises": StorageError("gone away"),
    "one is missing": lambda found: found[:1],
    "one is there twice": lambda found: [found[0], *found],
    "one was not asked for": lambda found: [*found, ScoreAggregate("z")],
    "a sum is no number": lambda found: [found[0], ScoreAggregate("b", float("nan"))],
    "a sum is below 0": lambda found: [found[0], ScoreAggregate("b", -1.0)],
    "more successes than attempts": lambda found: [found[0], ScoreAggregate("b", 1.0, 2.0)],
    "no list": lambda found: 5,
}


@pytest.mark.parametrize("how", WRONG)
def test_a_store_that_is_down_or_wrong_changes_nothing_and_none_of_its_answer_is_used(
    rig: Any, clock: ManualClock, logged: Any, how: str
) -> None:
    store = Unwell()
    store.ill = WRONG[how]
    store.record_attempts([row(clock, "a", DAY)])
    router = rig.scripted(
        Providers(clock, a=9.0, b=0.1).adapters, "ab", policy="score", metrics_store=store, clock=clock
    )
    assert router.invoke(rig.chat()) == "a"
    learnt(router)
    assert order(router) == "ba"
    for _ in range(3):
        clock.advance(30.0)
        assert router.invoke(rig.chat()) == "b"
        learnt(router)
    store.ill = None
    until(lambda: logged.at("INFO") != [], clock, 30.0)
    assert [text[:35] for text in logged.at("WARNING")] == ["the store gives no history for scores"[:35]]
    router.close()


def test_without_a_ledger_scores_are_what_the_router_sees(rig: Any, clock: ManualClock) -> None:
    providers = Providers(clock, a=9.0, b=0.1)
    router = rig.scripted(providers.adapters, "ab", policy="score", clock=clock)
    router.invoke(rig.chat())
    until(lambda: order(router) == "ba", clock, 0.05)
    for _ in range(3):
        router.invoke(rig.chat())
    assert providers.tried == "abbb"


# With the store asked for each order.


class Repeats:
    """Leaves out c, and has b twice."""

    def order(self, eligible: Any, context: Any) -> Any:
        named = {one.provider_id: one for one in eligible}
        return [named[name] for name in "bab" if name in named]


def test_a_store_that_is_asked_each_time_knows_of_the_call_before(
    store: Any, rig: Any, clock: ManualClock
) -> None:
    providers = Providers(clock, a=9.0, b=0.1, c=0.1)
    policy = ScoreBasedPolicy(ask_store_each_time=True)
    router = rig.scripted(providers.adapters, "abc", policy=policy, metrics_store=store, clock=clock)
    for _ in range(4):
        router.invoke(rig.chat())
    assert providers.tried == "abbb"


def test_the_tie_breaks_order_stays_where_the_store_that_is_asked_cannot_say(
    rig: Any, clock: ManualClock, logged: Any
) -> None:
    store = Unwell()
    store.record_attempts([row(clock, "a", DAY), failed(clock, "b", DAY)])
    down = ConnectionError("down")
    providers = Providers(clock, a=down, b=down, c=0.1)
    policy = ScoreBasedPolicy(ask_store_each_time=True, tie_break_policy=Repeats())
    router = rig.scripted(
        providers.adapters,
        "abc",
        policy=policy,
        metrics_store=store,
        clock=clock,
        health={"failure_threshold": 99},
    )
    for tried in ("abb", "bab"):
        before = len(providers.tried)
        with pytest.raises(RouterExhaustedError):
            router.invoke(rig.chat())
        assert providers.tried[before:] == tried
        store.ill = StorageError("gone away")
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    assert len([text for text in logged.at("WARNING") if "no history for scores" in text]) == 1
    router.close()


def test_without_a_ledger_nothing_can_be_asked(rig: Any, clock: ManualClock) -> None:
    providers = Providers(clock, a=9.0, b=0.1)
    policy = ScoreBasedPolicy(ask_store_each_time=True)
    router = rig.scripted(providers.adapters, "ab", policy=policy, clock=clock)
    for _ in range(4):
        router.invoke(rig.chat())
    assert providers.tried == "abab"


# Recency weighting.


def test_an_attempt_of_a_half_life_ago_counts_half(store: Any, rig: Any, clock: ManualClock) -> None:
    # Alike but for when: a failed of late, b three days ago.
    store.record_attempts(
        [
            *(failed(clock, "a", 3 * DAY) for _ in range(3)),
            *(failed(clock, "b", 6 * DAY) for _ in range(5)),
            failed(clock, "c", timedelta(0)),
        ]
    )
    providers = Providers(clock, a=0.1, b=0.1, c=0.1)
    fading = rig.scripted(
        providers.adapters,
        "abc",
        policy=ScoreBasedPolicy(half_life_hours=72.0),
        metrics_store=store,
        clock=clock,
    )
    flat = rig.scripted(
        providers.adapters, "abc", policy=ScoreBasedPolicy(), metrics_store=store, clock=clock
    )
    # 1.5, 1.25 and 1 against 3, 5 and 1.
    until_ordered(fading, "cba")
    until_ordered(flat, "cab")


def test_what_is_older_than_six_half_lives_or_than_the_lookback_is_left_out(
    store: Any, rig: Any, clock: ManualClock
) -> None:
    store.record_attempts(
        [failed(clock, "a", 7 * HOUR), failed(clock, "b", 5 * HOUR), failed(clock, "c", HOUR)]
    )
    adapters = Providers(clock, a=0.1, b=0.1, c=0.1).adapters

    def ordered(policy: ScoreBasedPolicy, wanted: str) -> None:
        until_ordered(rig.scripted(adapters, "abc", policy=policy, metrics_store=store, clock=clock), wanted)

    ordered(ScoreBasedPolicy(half_life_hours=1.0), "abc")
    ordered(ScoreBasedPolicy(lookback_hours=6.0, weights={"success_weight": 2.0}), "abc")
    # A half-life takes the place of the lookback.
    ordered(ScoreBasedPolicy(half_life_hours=1.0, lookback_hours=0.1), "abc")


# Behind a fixed preference, and with retries.


def test_a_preferred_provider_leads_and_scores_order_the_rest(
    store: Any, rig: Any, clock: ManualClock
) -> None:
    store.record_attempts([failed(clock, "a", DAY), failed(clock, "c", DAY), row(clock, "d", DAY)])
    down = ConnectionError("down")
    providers = Providers(clock, a=0.1, b=0.1, c=down, d=down)
    router = rig.scripted(
        providers.adapters,
        "abcd",
        policy=StickyRoutingPolicy(["c"], fallback_policy=ScoreBasedPolicy()),
        metrics_store=store,
        clock=clock,
        health={"failure_threshold": 99},
    )
    until_ordered(router, "cdba")
    # What became of a call moves the rest, and never who is preferred.
    for _ in range(2):
        assert router.invoke(rig.chat()) == "b"
        learnt(router)
    assert providers.tried == "cdbcb"
    # Of streams nothing is known yet.
    with router.invoke(rig.chat(stream=True)) as stream:
        list(stream)
    assert providers.tried[5] == "c"


def test_retries_of_the_first_go_to_the_best(store: Any, rig: Any, clock: ManualClock) -> None:
    store.record_attempts([row(clock, "b", DAY)])
    busy = ProviderHTTPError("broken", status_code=500, fault=Fault.SERVER_ERROR)
    providers = Providers(clock, a=0.1, b=busy)
    router = rig.scripted(
        providers.adapters,
        "ab",
        policy=ScoreBasedPolicy(),
        retry_policy=SameProviderRetryPolicy(max_attempts=2),
        metrics_store=store,
        clock=clock,
    )
    until_ordered(router, "ba")
    assert router.invoke(rig.chat()) == "a"
    assert providers.tried == "bba"
