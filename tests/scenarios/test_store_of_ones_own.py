"""A ledger kept where turnout has no store for it, and what its rows come to."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contracts.store_of_ones_own import ListStore
from turnout import (
    CallType,
    ConfigError,
    MemoryMetricsStore,
    Partition,
    ProviderRouter,
    ScoreAggregateQuery,
    SQLiteMetricsStore,
    aggregate_stats,
)
from turnout.decisions.stats import stats_of
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters

METHODS = ["record_attempts", "query_recent", "query_score_aggregates", "close"]
AN_HOUR = timedelta(hours=1)


def in_order(rig: Any, adapters: ScriptedAdapters, ids: str, store: Any, **settings: Any) -> ProviderRouter:
    router: ProviderRouter = rig.scripted(
        adapters, ids, metrics_store=store, policy="preference", health={"failure_threshold": 99}, **settings
    )
    return router


def test_a_store_of_ones_own_gets_every_attempt_and_stays_open(rig: Any) -> None:
    store = ListStore()
    router = in_order(rig, ScriptedAdapters({"a": [TimeoutError("late")], "b": ["answer"]}), "ab", store)
    assert router.invoke(rig.chat()) == "answer"
    router.close()

    rows = store.query_recent(since=datetime.now(UTC) - AN_HOUR, metrics_scope=router.metrics_scope)
    assert [(row.provider_id, row.success, row.fault) for row in rows] == [
        ("a", False, "timeout"),
        ("b", True, None),
    ]


def without(method: str) -> Any:
    return SimpleNamespace(**{name: print for name in METHODS if name != method})


def not_callable(method: str) -> Any:
    store = ListStore()
    setattr(store, method, "soon")
    return store


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("flawed", [without, not_callable])
def test_a_store_without_one_of_its_methods_is_refused_before_any_provider_is_asked(
    rig: Any, flawed: Callable[[str], Any], method: str
) -> None:
    adapters = ScriptedAdapters({"a": ["answer"]})
    with pytest.raises(ConfigError, match=rf"has no {method}; see MetricsStore"):
        in_order(rig, adapters, "a", flawed(method))
    assert adapters.calls == ()


def test_every_missing_method_is_named_at_once(rig: Any) -> None:
    with pytest.raises(ConfigError, match="has no query_score_aggregates, close;"):
        in_order(
            rig,
            ScriptedAdapters({"a": ["answer"]}),
            "a",
            SimpleNamespace(record_attempts=print, query_recent=print),
        )


@pytest.mark.parametrize("kind", [ListStore, MemoryMetricsStore, SQLiteMetricsStore])
def test_a_class_in_place_of_a_store_is_refused(rig: Any, kind: type[Any]) -> None:
    with pytest.raises(ConfigError, match=rf"give {kind.__name__}\(...\), not the class"):
        in_order(rig, ScriptedAdapters({"a": ["answer"]}), "a", kind)


def taking(clock: ManualClock, *steps: tuple[float, Any]) -> list[Callable[..., Any]]:
    """Each step answers, or raises, after so many seconds."""

    def step(seconds: float, result: Any) -> Callable[..., Any]:
        def answer(*_: Any) -> Any:
            clock.advance(seconds)
            if isinstance(result, Exception):
                raise result
            return result

        return answer

    return [step(seconds, result) for seconds, result in steps]


@pytest.fixture(params=[ListStore, MemoryMetricsStore])
def store(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_rows_of_the_last_hour_come_to_stats_of_every_provider(rig: Any, store: Any) -> None:
    clock = ManualClock()
    scripts: dict[str, list[Any]] = {
        # Fails in no time, which makes it no quicker.
        "a": taking(clock, (0.5, "one"), (0.005, OSError("down")), (0.7, "two"), (0.005, OSError("down"))),
        "b": taking(clock, (2.0, "three"), (4.0, "four")),
        "c": ["never asked"],
    }
    router = in_order(rig, ScriptedAdapters(scripts), "abc", store, clock=clock)
    assert [router.invoke(rig.chat()) for _ in range(4)] == ["one", "three", "two", "four"]
    assert router.flush()

    events = store.query_recent(
        since=datetime.fromtimestamp(clock.wall(), UTC) - AN_HOUR, metrics_scope=router.metrics_scope
    )
    stats = aggregate_stats(events, router.providers, CallType.REGULAR)

    assert [*stats] == ["a", "b", "c"]
    assert (stats["a"].regular_attempts, stats["a"].regular_success_rate) == (4, 0.5)
    assert stats["a"].regular_latency_ms == pytest.approx(600)
    assert (stats["b"].regular_attempts, stats["b"].regular_success_rate) == (2, 1.0)
    assert stats["b"].regular_latency_ms == pytest.approx(3000)
    never = stats["c"]
    assert (never.regular_attempts, never.regular_success_rate, never.regular_latency_ms) == (0, None, None)
    assert {one.provider_name for one in stats.values()} == {"a", "b", "c"}


def test_streams_are_measured_to_their_first_chunk_and_never_beside_regular_calls(
    rig: Any, store: Any
) -> None:
    clock = ManualClock()
    slowly = taking(clock, (0.25, "first"), (9.0, "last"))
    router = in_order(rig, ScriptedAdapters({"a": ["whole", [*slowly, FINISHED]]}), "a", store, clock=clock)
    router.invoke(rig.chat())
    assert [*router.invoke(rig.chat(stream=True))] == ["first", "last"]
    assert router.flush()

    rows = store.query_recent(since=datetime(2000, 1, 1, tzinfo=UTC))
    regular = aggregate_stats(rows, router.providers, CallType.REGULAR)["a"]
    streaming = aggregate_stats(rows, router.providers, CallType.STREAMING)["a"]
    assert (regular.regular_attempts, regular.streaming_attempts) == (1, 0)
    assert (streaming.regular_attempts, streaming.streaming_attempts) == (0, 1)
    assert streaming.streaming_ttft_ms == pytest.approx(250)
    assert streaming.regular_latency_ms is regular.streaming_ttft_ms is None


def test_what_the_store_adds_up_comes_to_the_same(rig: Any, store: Any) -> None:
    clock = ManualClock()
    late, answers = (4.0, TimeoutError("late")), [(0.1 * number, "answer") for number in range(1, 5)]
    scripts = {"a": taking(clock, *answers, late, late), "b": taking(clock, *answers)}
    router = in_order(rig, ScriptedAdapters(scripts), "ab", store, clock=clock)
    for _ in range(6):
        router.invoke(rig.chat())
    assert router.flush()

    now, half_life_hours = datetime.fromtimestamp(clock.wall(), UTC), 0.001
    rows = store.query_recent(since=datetime(2000, 1, 1, tzinfo=UTC))
    stats = aggregate_stats(
        rows, router.providers, CallType.REGULAR, now=now, half_life_hours=half_life_hours
    )
    found = store.query_score_aggregates(
        ScoreAggregateQuery(
            tuple(Partition(one.provider_id, one.model, one.protocol) for one in router.providers),
            CallType.REGULAR,
            since=now - timedelta(hours=6 * half_life_hours),
            reference=now,
            metrics_scope=router.metrics_scope,
            half_life_hours=half_life_hours,
        )
    )
    for sums, expected in zip(found, stats.values(), strict=True):
        summed = stats_of(sums, expected.provider_name, CallType.REGULAR)
        assert summed.regular_success_rate == pytest.approx(expected.regular_success_rate, rel=1e-9)
        assert summed.regular_latency_ms == pytest.approx(expected.regular_latency_ms, rel=1e-9)
        assert summed.timeout_count == expected.timeout_count
    # Four answers and two that were late: of more weight, since they came last.
    a, b = stats.values()
    assert (a.timeout_count, b.timeout_count) == (2, 0)
    assert (a.regular_success_rate or 1.0) < 4 / 6
    assert b.regular_success_rate == 1.0
