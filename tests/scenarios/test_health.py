"""Health: benches, their end, reports, resets, and what is logged of them."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

from turnout import (
    ConfigError,
    HealthConfig,
    NoEligibleProvidersError,
    PreferencePolicy,
    ProviderRouter,
    RouterExhaustedError,
)
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Cut, Status

LONG_AGO = datetime.fromtimestamp(0, UTC)


def who(answer: Any) -> str:
    return str(answer.choices[0].message.content)


def preferring(rig: Any, sim: Any, **settings: Any) -> Any:
    """A router that asks the first provider whenever it may."""
    return rig.router(rig.providers(sim), policy=PreferencePolicy(), **settings)


def test_a_rate_limit_benches_at_once_for_sixty_seconds_and_does_not_count(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(a=[Status(429), Answer(text="a")], b=Answer(text="b"))
    router = preferring(rig, sim, clock=clock)

    answers = [who(router.invoke(rig.chat()))]
    benched = router.health_report()["a"]
    clock.advance(59.9)
    answers.append(who(router.invoke(rig.chat())))
    clock.advance(0.1)
    answers.append(who(router.invoke(rig.chat())))

    assert answers == ["b", "b", "a"]
    assert (benched.consecutive_failures, benched.cooldown_remaining_seconds) == (0, 60.0)


def test_three_counted_failures_in_a_row_bench_for_sixty_seconds(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(a=Status(500), b=Answer(text="b"))
    router = preferring(rig, sim, clock=clock)

    for _ in range(4):
        router.invoke(rig.chat())

    assert sim.total("a") == 3
    assert router.health_report()["a"].cooldown_remaining_seconds == 60.0


def test_a_success_between_failures_starts_the_count_again(rig: Any) -> None:
    sim = rig.simulate(a=[Status(500), Status(500), Answer(), Status(500), Status(500)], b=Answer())
    router = preferring(rig, sim, clock=ManualClock())

    for _ in range(5):
        router.invoke(rig.chat())

    assert router.health_report()["a"].consecutive_failures == 2
    assert router.health_report()["a"].cooldown_remaining_seconds is None


def test_a_stream_that_breaks_counts_like_any_other_failure(rig: Any) -> None:
    sim = rig.simulate(a=Cut(after_chunks=0), b=Answer())
    router = preferring(rig, sim, clock=ManualClock())

    for _ in range(3):
        list(router.invoke(rig.chat(stream=True)))

    assert router.health_report()["a"].cooldown_remaining_seconds == 60.0


def test_a_provider_that_stays_broken_costs_one_try_per_cooldown(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(a=Status(500), b=Answer())
    router = preferring(rig, sim, clock=clock)

    cooldowns = []
    for _ in range(3):
        for _ in range(5):
            router.invoke(rig.chat())
        cooldowns.append(router.health_report()["a"].cooldown_remaining_seconds)
        clock.advance(cooldowns[-1])

    assert sim.total("a") == 3 + 1 + 1
    assert cooldowns == [60.0, 120.0, 240.0]


def test_when_everyone_is_benched_nobody_is_called_and_each_root_cause_is_told(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(a=Status(404, message="The model does not exist"), b=Status(429, message="slow down"))
    router = rig.router(
        [
            rig.provider(
                sim, "a", provider_id="provider-a-production", name="provider_a", model="gpt-4o-mini"
            ),
            rig.provider(sim, "b", provider_id="provider-b-production", name="provider_b"),
        ],
        clock=clock,
    )
    for _ in range(3):
        with pytest.raises(RouterExhaustedError):
            router.invoke(rig.chat())
    clock.advance(12.1)
    before = sim.total("a") + sim.total("b")

    with pytest.raises(NoEligibleProvidersError) as caught:
        router.invoke(rig.chat())

    assert sim.total("a") + sim.total("b") == before
    lines = str(caught.value).splitlines()
    a = next(line for line in lines if "provider-a-production" in line)
    assert 'provider_a (id="provider-a-production"): is benched for 47.9 s' in a
    assert "3 failures in a row" in a
    for part in ("HTTP 404 Not Found", "model gpt-4o-mini", "The model does not exist"):
        assert part in a
    b = next(line for line in lines if "provider-b-production" in line)
    assert "after rate limit" in b
    assert "slow down" in b


@pytest.mark.parametrize(
    "health",
    [
        HealthConfig(rate_limit_cooldown_seconds=120.0, failure_cooldown_seconds=30.0, failure_threshold=5),
        {"rate_limit_cooldown_seconds": 120.0, "failure_cooldown_seconds": 30.0, "failure_threshold": 5},
    ],
    ids=["config", "dict"],
)
def test_thresholds_and_cooldowns_are_tuned_apart(rig: Any, health: Any) -> None:
    sim = rig.simulate(a=Status(500), b=Status(429), c=Answer())
    router = preferring(rig, sim, clock=ManualClock(), health=health)

    for _ in range(4):
        router.invoke(rig.chat())
    before = router.health_report()
    router.invoke(rig.chat())
    after = router.health_report()

    assert before["b"].cooldown_remaining_seconds == 120.0
    assert (before["a"].consecutive_failures, before["a"].cooldown_remaining_seconds) == (4, None)
    assert (after["a"].consecutive_failures, after["a"].cooldown_remaining_seconds) == (5, 30.0)


def test_a_plain_dict_does_for_health_and_only_what_it_names_changes(rig: Any) -> None:
    sim = rig.simulate(a=Status(500), b=Answer())
    router = preferring(rig, sim, clock=ManualClock(), health={"failure_threshold": 5})

    for _ in range(5):
        router.invoke(rig.chat())

    assert router.health_report()["a"].cooldown_remaining_seconds == 60.0


@pytest.mark.parametrize(
    "health",
    [
        {"failure_treshold": 5},
        {"failure_threshold": 0},
        {"failure_threshold": "many"},
        {"failure_cooldown_seconds": -1},
        {"failure_cooldown_seconds": float("nan")},
        {"rate_limit_cooldown_seconds": float("inf")},
        5,
    ],
)
def test_health_that_cannot_work_is_refused_at_construction(rig: Any, health: Any) -> None:
    sim = rig.simulate(a=Answer())

    with pytest.raises(ConfigError, match="HealthConfig"):
        ProviderRouter(rig.providers(sim), metrics_store=None, health=health)


def test_the_report_has_every_provider_healthy_ones_too(rig: Any) -> None:
    sim = rig.simulate(a=Status(429, message="slow down"), b=Answer())
    router = rig.router(
        [
            rig.provider(sim, "a", provider_id="provider-a-production", name="provider_a"),
            rig.provider(sim, "b"),
        ],
        clock=ManualClock(),
    )
    router.invoke(rig.chat())

    seen = {}
    for provider_id, health in router.health_report().items():
        seen[provider_id] = (health.provider_name, health.cooldown_remaining_seconds, health.auth_disabled)

    assert seen == {"provider-a-production": ("provider_a", 60.0, False), "b": ("b", None, False)}
    report = router.health_report()
    assert "slow down" in report["provider-a-production"].last_error
    assert report["b"].last_error is None


def test_the_report_is_a_frozen_copy(rig: Any) -> None:
    sim = rig.simulate(a=Status(429), b=Answer())
    router = preferring(rig, sim, clock=ManualClock())
    router.invoke(rig.chat())

    report = router.health_report()
    with pytest.raises(FrozenInstanceError):
        report["a"].consecutive_failures = 7
    report.clear()

    assert router.health_report()["a"].cooldown_remaining_seconds == 60.0


def test_cooldowns_are_told_as_what_is_left_of_them(rig: Any) -> None:
    clock = ManualClock(now=1_000_000.0)
    sim = rig.simulate(a=Status(429), b=Answer())
    router = preferring(rig, sim, clock=clock)
    router.invoke(rig.chat())

    clock.advance(12.5)

    assert router.health_report()["a"].cooldown_remaining_seconds == 47.5


@pytest.mark.parametrize("first", [Status(429), Status(401), Status(402)], ids=["429", "401", "402"])
def test_a_reset_makes_one_provider_as_new(rig: Any, first: Status) -> None:
    sim = rig.simulate(a=[first, Answer(text="a")], b=Answer(text="b"))
    router = preferring(rig, sim, clock=ManualClock())
    router.invoke(rig.chat())
    assert who(router.invoke(rig.chat())) == "b"

    router.reset_health("a")

    health = router.health_report()["a"]
    assert (health.auth_disabled, health.consecutive_failures) == (False, 0)
    assert (health.cooldown_remaining_seconds, health.last_error) == (None, None)
    assert who(router.invoke(rig.chat())) == "a"


def test_a_reset_without_a_name_is_for_all_and_an_unknown_name_is_refused(rig: Any) -> None:
    sim = rig.simulate(a=Status(429), b=Status(401))
    router = preferring(rig, sim, clock=ManualClock())
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())

    with pytest.raises(ConfigError, match='no provider has the id "provider-z"; the ids are: a, b'):
        router.reset_health("provider-z")
    with pytest.raises(NoEligibleProvidersError):
        router.invoke(rig.chat())
    router.reset_health()

    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())


def test_a_reset_leaves_the_ledger_alone(rig: Any) -> None:
    store = MemoryMetricsStore()
    sim = rig.simulate(a=Status(429), b=Answer())
    router = preferring(rig, sim, metrics_store=store)
    router.invoke(rig.chat())
    assert router.flush()
    before = store.query_recent(since=LONG_AGO)
    assert [(row.provider_id, row.fault) for row in before] == [("a", "rate_limit"), ("b", None)]

    router.reset_health()
    router.invoke(rig.chat())

    assert router.flush()
    after = store.query_recent(since=LONG_AGO)
    assert [row for row in after if row in before] == before
    assert [(row.provider_id, row.fault) for row in after if row not in before] == [
        ("a", "rate_limit"),
        ("b", None),
    ]


def test_the_first_bench_of_an_outage_warns_repeats_are_debug_and_recovery_is_one_info(
    rig: Any, logged: Any
) -> None:
    clock = ManualClock()
    sim = rig.simulate(
        a=[
            Status(404, message="no such model"),
            Status(404),
            Status(404),
            Status(500),
            Answer(),
            Status(429),
        ],
        b=Answer(),
    )
    router = rig.router(
        [
            rig.provider(sim, "a", provider_id="provider-a-production", name="provider_a"),
            rig.provider(sim, "b"),
        ],
        policy=PreferencePolicy(),
        clock=clock,
        health={"failure_threshold": 1, "cooldown_multiplier": 1.0},
    )

    def benches(level: str) -> list[str]:
        return [text for text in logged.at(level) if "provider_a" in text and "benched" in text]

    router.invoke(rig.chat())
    (warning,) = benches("WARNING")
    for part in ('provider_a (id="provider-a-production")', "60.0 s", "after unknown", "no such model"):
        assert part in warning

    for _ in range(3):
        clock.advance(60.0)
        router.invoke(rig.chat())
    assert len(benches("WARNING")) == 1
    assert len(benches("DEBUG")) == 3
    assert not logged.at("INFO")

    clock.advance(60.0)
    router.invoke(rig.chat())
    (recovered,) = logged.at("INFO")
    assert 'provider_a (id="provider-a-production")' in recovered
    assert "answers again" in recovered

    router.invoke(rig.chat())
    assert len(benches("WARNING")) == 2
    assert "after rate limit" in benches("WARNING")[1]


def test_two_routers_have_health_of_their_own(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [ConnectionError("down")], "b": ["b"]})
    one = rig.scripted(adapters, "ab", health={"failure_threshold": 1})
    other = rig.scripted(adapters, "ab", health={"failure_threshold": 1})

    one.invoke(rig.chat())

    assert one.health_report()["a"].consecutive_failures == 1
    assert other.health_report()["a"].consecutive_failures == 0
