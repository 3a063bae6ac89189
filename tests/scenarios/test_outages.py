"""Outages over real HTTP: a primary P that fails in every way, a fallback F, and the storm that must not come."""

import gc
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import Any

import pytest

from turnout import (
    Fault,
    FilterReason,
    NoEligibleProvidersError,
    Outcome,
    PreferencePolicy,
    ProviderHTTPError,
    RouterExhaustedError,
)
from turnout.decisions.circuit import State
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Ending, Reset, Status

WINDOW_SECONDS = 5.0


def who(answer: Any) -> str:
    return str(answer.choices[0].message.content)


@pytest.mark.slow
def test_fifty_callers_of_a_flapping_provider_are_all_served_and_one_a_window_finds_out(rig: Any) -> None:
    clock = ManualClock()
    down, up = Status(503), Answer(text="P")
    sim = rig.simulate(P=down, F=Answer(text="F"))
    router = rig.router(
        rig.providers(sim),
        policy=PreferencePolicy(),
        clock=clock,
        pool={"max_workers": 50},
        health={"failure_cooldown_seconds": WINDOW_SECONDS},
    )
    windows = recoveries = 0

    for second in range(0, 60, 2):
        flaps_up = 14 <= second < 24 or second >= 36
        sim.script("P", up if flaps_up else down)
        health, before = router.health_report()["P"], sim.total("P")
        futures = [router.submit(rig.chat()) for _ in range(50)]
        assert not wait(futures, 60).not_done
        answers, asked = [who(future.result(0)) for future in futures], sim.total("P") - before

        assert set(answers) <= ({"P", "F"} if flaps_up else {"F"})
        if health.state is State.OPEN:
            assert asked == 0
        elif health.state is State.HALF_OPEN and not flaps_up:
            windows += 1
            assert asked == 1
        elif health.state is State.HALF_OPEN:
            # The first window since it is back: one probe closes the circuit, and others of the fifty may follow it.
            recoveries += 1
            assert "P" in answers
            assert router.health_report()["P"].state is State.CLOSED
        elif flaps_up:
            # Its share of the workers.
            assert answers.count("P") >= 25
        else:
            # The first blow falls on as many as are in flight when it comes.
            assert asked <= 50
            assert router.health_report()["P"].state is State.OPEN
        clock.advance(2.0)

    assert windows >= 2
    assert recoveries == 2
    assert router.health_report()["P"].state is State.CLOSED


@pytest.mark.parametrize("down", ["reset", "refused"])
def test_a_connection_reset_or_refused_is_answered_by_the_fallback(rig: Any, down: str) -> None:
    sim = rig.simulate(P=Reset(), F=Answer(text="F"))
    configs = rig.providers(sim)
    if down == "refused":
        # Nobody listens on the discard port.
        configs[0] = rig.provider(sim, "P", base_url="http://127.0.0.1:9/v1")
    router = rig.router(configs, policy=PreferencePolicy())

    future = router.submit(rig.chat())

    assert who(future.result(30)) == "F"
    assert [(one.provider_id, one.outcome) for one in future.report().attempts] == [
        ("P", Outcome.FAILED),
        ("F", Outcome.OK),
    ]
    # Whom nobody reaches has logged nothing.
    assert [request.outcome for request in sim.requests("P")] == [Ending.RESET][: down == "reset"]
    assert [request.outcome for request in sim.requests("F")] == [Ending.ANSWERED]


def waiting(rig: Any, clock: ManualClock, futures: Sequence[Any]) -> None:
    """Let time pass until all have ended."""
    while wait(futures, 0.02).not_done:
        clock.advance(0.3)


def test_calls_that_wait_for_a_bench_hold_no_worker_and_go_on_when_it_ends(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=[Status(429, retry_after=2), Answer(text="P")])
    router = rig.router(
        rig.providers(sim), clock=clock, pool={"max_workers": 1}, health={"when_all_benched": "wait"}
    )

    futures = [router.submit(rig.chat()) for _ in range(6)]
    while router.stats().queued:
        router.stats()
    while router.health_report()["P"].state is not State.OPEN:
        router.stats()
    clock.advance(1.9)
    assert sim.total("P") == 1
    waiting(rig, clock, futures)
    assert [who(future.result(0)) for future in futures] == ["P"] * 6
    assert sorted(len(future.report().attempts) for future in futures) == [1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize("probes", [[Answer(text="P")], [Status(429, retry_after=2), Answer(text="P")]])
def test_of_many_that_wait_one_probes_and_the_others_go_on_waiting(rig: Any, probes: list[Any]) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=[Status(429, retry_after=2), *probes])
    router = rig.router(rig.providers(sim), clock=clock, health={"when_all_benched": "wait"})
    first = router.submit(rig.chat())
    while router.health_report()["P"].state is not State.OPEN:
        router.stats()

    futures = [first, *(router.submit(rig.chat()) for _ in range(30))]

    waiting(rig, clock, futures)
    assert [who(future.result(0)) for future in futures] == ["P"] * 31
    # The others began once it was known to answer again.
    assert sim.total("P") == 31 + len(probes)


def test_a_call_that_met_every_bench_itself_waits_for_the_first_to_end(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=Status(429, retry_after=50), F=[Status(429, retry_after=2), Answer(text="F")])
    router = rig.router(
        rig.providers(sim), policy=PreferencePolicy(), clock=clock, health={"when_all_benched": "wait"}
    )

    future = router.submit(rig.chat(), timeout=20)
    waiting(rig, clock, [future])

    assert who(future.result(0)) == "F"
    assert [attempt.provider_id for attempt in future.report().attempts] == ["P", "F", "F"]
    assert (sim.total("P"), sim.total("F")) == (1, 2)
    assert future.report().exclusions == ()


def test_a_wait_for_a_bench_that_does_not_fit_the_deadline_names_each_cause(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=Status(429, retry_after=50), F=Status(429, retry_after=20))
    router = rig.router(rig.providers(sim), clock=clock, health={"when_all_benched": "wait"})
    with pytest.raises(RouterExhaustedError) as met:
        router.invoke(rig.chat(), timeout=10)
    with pytest.raises(NoEligibleProvidersError) as found:
        router.invoke(rig.chat(), timeout=10)

    assert {one.provider_id for one in met.value.attempts} == {"P", "F"}
    assert {one.provider_id: one.reason for one in found.value.exclusions} == {
        "P": FilterReason.IN_COOLDOWN,
        "F": FilterReason.IN_COOLDOWN,
    }
    assert (met.value.retry_after_seconds, found.value.retry_after_seconds) == (20.0, 20.0)
    assert (sim.total("P"), sim.total("F")) == (1, 1)


def test_a_bench_that_ended_while_others_were_tried_is_waited_for_no_more(rig: Any) -> None:
    clock = ManualClock()

    def slowly(call: object) -> Exception:
        clock.advance(5.0)
        return ConnectionError("down")

    limited = ProviderHTTPError("busy", status_code=429, fault=Fault.RATE_LIMIT, retry_after_seconds=3.0)
    adapters = ScriptedAdapters({"b": [limited, "b"], "a": ["a", slowly]})
    router = rig.scripted(
        adapters, "ba", policy=PreferencePolicy(), clock=clock, health={"when_all_benched": "wait"}
    )
    assert router.invoke(rig.chat()) == "a"

    assert router.invoke(rig.chat(), timeout=60.0) == "b"
    assert [call.provider_id for call in adapters.calls] == ["b", "a", "a", "b"]


@pytest.mark.parametrize("then_omits", [False, True])
def test_whom_the_policy_left_out_is_not_tried_after_a_wait_either(rig: Any, then_omits: bool) -> None:
    class OnlyA:
        asked = 0

        def order(self, eligible: Sequence[Any], context: Any) -> list[Any]:
            self.asked += 1
            return (
                [] if then_omits and self.asked > 1 else [one for one in eligible if one.provider_id == "a"]
            )

    clock = ManualClock()
    limited = ProviderHTTPError("busy", status_code=429, fault=Fault.RATE_LIMIT, retry_after_seconds=3.0)
    adapters = ScriptedAdapters({"a": [limited, "a"], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=OnlyA(), clock=clock, health={"when_all_benched": "wait"})

    future = router.submit(rig.chat())
    waiting(rig, clock, [future])

    if then_omits:
        assert isinstance(future.exception(0), RouterExhaustedError)
    else:
        assert future.result(0) == "a"
    assert {call.provider_id for call in adapters.calls} == {"a"}


def test_what_is_too_long_is_not_sent_again_to_the_same_size_after_a_wait(rig: Any) -> None:
    too_long = Status(400, error_code="context_length_exceeded")
    sim = rig.simulate(P=[Status(429, retry_after=2), Answer(text="P")], F=too_long, G=Answer(text="G"))
    router = rig.router(
        [rig.provider(sim, name, model="m") for name in "PFG"],
        policy=PreferencePolicy(),
        clock=ManualClock(),
        health={"when_all_benched": "wait"},
    )

    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())

    assert [sim.total(name) for name in "PFG"] == [1, 1, 0]


def test_a_short_bench_is_waited_for_no_longer_than_it_lasts(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=[Status(429, retry_after=0.05), Answer(text="P")])
    router = rig.router(rig.providers(sim), clock=clock, health={"when_all_benched": "wait"})

    future = router.submit(rig.chat(), timeout=0.2)
    while router.health_report()["P"].state is not State.OPEN:
        router.stats()
    while wait([future], 0.02).not_done:
        clock.advance(0.01)

    assert who(future.result(0)) == "P"


def test_waiting_for_benches_ends_with_the_attempts_that_a_call_may_have(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=Status(429, retry_after=2))
    router = rig.router(
        rig.providers(sim),
        clock=clock,
        health={"when_all_benched": "wait"},
        budget={"max_attempts_per_call": 3},
    )

    future = router.submit(rig.chat())
    waiting(rig, clock, [future])

    assert isinstance(future.exception(0), RouterExhaustedError)
    assert sim.total("P") == 3


def test_where_all_are_benched_the_one_whose_bench_ends_soonest_may_be_tried(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(
        P=[Status(429, retry_after=50), Answer(text="P")], F=[Status(429, retry_after=20), Answer(text="F")]
    )
    router = rig.router(
        rig.providers(sim),
        policy=PreferencePolicy(),
        clock=clock,
        health={"when_all_benched": "soonest"},
    )
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    assert who(router.invoke(rig.chat())) == "F"
    assert router.health_report()["F"].state is State.CLOSED
    assert router.health_report()["P"].state is State.OPEN


@pytest.mark.slow
def test_ten_thousand_failing_rounds_leave_memory_as_it_was(
    rig: Any, measured: Callable[[str], None]
) -> None:
    class Refusal:
        """What an SDK's exception holds."""

        alive = 0

        def __init__(self) -> None:
            Refusal.alive += 1
            self.body = bytearray(10_000)

        def __del__(self) -> None:
            Refusal.alive -= 1

    class Down:
        def invoke(self, operation: str, arguments: Any) -> str:
            # Not by way of a variable: its frame would be in a cycle with it.
            raise ConnectionError("down", Refusal())

    provider = {"protocol": "openai_chat", "model": "m", "api_key": "k"}
    router = rig.router(
        [{**provider, "provider_id": name, "name": name} for name in "ab"],
        adapter_factory=lambda config: Down(),
        health={"failure_threshold": 1_000_000},
    )

    def rounds(count: int) -> int:
        gc.collect()
        gc.disable()
        try:
            for _ in range(count):
                try:
                    router.invoke(rig.chat())
                except RouterExhaustedError:
                    continue
            return Refusal.alive
        finally:
            gc.enable()

    def objects() -> int:
        # The ledger takes its time to take over what it keeps for stats().
        pause = threading.Event()
        while router._engine.plant.ledger._incoming:
            pause.wait(0.01)
        gc.collect()
        return len(gc.get_objects())

    # More than the latest attempts, which are kept.
    rounds(3_000)
    before = objects()
    # Counted with the collector off: no cycle keeps a response until it comes by.
    assert rounds(10_000) <= 2
    grown = objects() - before
    measured(f"objects more after 10,000 failing rounds: {grown}")
    assert grown < 500


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("count", "scripts"), [(10_000, {"P": Status(500)}), (1_000, {"P": Status(500), "F": Status(503)})]
)
def test_failing_rounds_over_http_keep_no_response_alive(
    rig: Any, measured: Callable[[str], None], count: int, scripts: dict[str, Any]
) -> None:
    sim = rig.simulate(**scripts)
    router = rig.router(rig.providers(sim), health={"failure_threshold": 1_000_000})

    def rounds(count: int) -> int:
        for _ in range(count):
            with pytest.raises(RouterExhaustedError):
                router.invoke(rig.chat())
        return sum(type(one).__name__ == "Response" for one in gc.get_objects())

    before = rounds(20)
    gc.collect()
    gc.disable()
    try:
        kept = rounds(count) - before
    finally:
        gc.enable()

    measured(f"responses more after {count:,} failing rounds over HTTP, without the collector: {kept}")
    assert kept <= 2
    assert {sim.total(name) for name in scripts} == {count + 20}
