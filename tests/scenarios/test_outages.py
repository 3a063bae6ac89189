"""Outages over real HTTP: a primary P that fails in every way, a fallback F, and the storm that must not come."""

import gc
from concurrent.futures import wait
from typing import Any

import pytest

from turnout import Outcome, PreferencePolicy, RouterExhaustedError
from turnout.decisions.circuit import State
from turnout.testing import ManualClock
from turnout.testing.simulator import Answer, Reset, SimulatedProvider, Status

WINDOW_SECONDS = 5.0


def who(answer: Any) -> str:
    return str(answer.choices[0].message.content)


@pytest.mark.slow
def test_fifty_callers_of_a_flapping_provider_are_all_served_and_one_a_window_finds_out(rig: Any) -> None:
    clock = ManualClock()
    down, up = Status(503), Answer(text="P")
    sim = rig.simulate(P=down, F=SimulatedProvider("F", Answer(text="F")))
    router = rig.router(
        # P may have every worker; by default it would have half of them.
        [rig.provider(sim, "P", max_concurrency=50), rig.provider(sim, "F")],
        policy=PreferencePolicy(),
        clock=clock,
        pool={"max_workers": 50},
        health={
            "failure_threshold": 1,
            "failure_cooldown_seconds": WINDOW_SECONDS,
            "cooldown_multiplier": 1.0,
        },
    )

    def fifty() -> list[str]:
        futures = [router.submit(rig.chat()) for _ in range(50)]
        assert not wait(futures, 60).not_done
        return [who(future.result(0)) for future in futures]

    # The first blow falls on as many as are in flight when it comes; after it, on one at a time.
    assert set(fifty()) == {"F"}
    for second in range(5, 65, 5):
        clock.advance(WINDOW_SECONDS)
        flaps_up = second in (20, 40, 60)
        sim.script("P", up if flaps_up else down)
        before = sim.total("P")
        answers = fifty()
        if flaps_up:
            # One probe closes the circuit, and the others of this window may follow it.
            assert "P" in answers
            assert router.health_report()["P"].state is State.CLOSED
        elif (second - 5) in (20, 40):
            # Closed again just before: the next blow is a first one.
            assert set(answers) == {"F"}
        else:
            assert set(answers) == {"F"}
            assert sim.total("P") - before == 1
    assert set(fifty()) == {"P"}


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


def test_calls_that_wait_for_a_bench_hold_no_worker_and_go_on_when_it_ends(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=[Status(429, retry_after=2), Answer(text="P")])
    router = rig.router(
        rig.providers(sim), clock=clock, pool={"max_workers": 1}, health={"when_all_benched": "wait"}
    )
    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())
    assert caught.value.retry_after_seconds == 2.0

    futures = [router.submit(rig.chat()) for _ in range(5)]
    while router.stats().queued:
        router.stats()
    clock.advance(1.9)
    assert sim.total("P") == 1
    while wait(futures, 0.1).not_done:
        clock.advance(0.3)
    assert [who(future.result(0)) for future in futures] == ["P"] * 5


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
def test_ten_thousand_failing_rounds_leave_memory_as_it_was(rig: Any, record_property: Any) -> None:
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

    rounds(100)
    before = len(gc.get_objects())
    # Counted with the collector off: no cycle keeps a response until it comes by.
    assert rounds(10_000) <= 2
    gc.collect()
    grown = len(gc.get_objects()) - before
    record_property("objects more after 10,000 rounds", grown)
    assert grown < 500
