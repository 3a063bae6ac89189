"""A primary P over real HTTP fails in ways that other tests do not show: what P and F are asked, and what is told."""

import time
from collections.abc import Callable
from concurrent.futures import wait
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import Fault, Outcome, PreferencePolicy, ProviderError
from turnout.decisions.circuit import State
from turnout.testing import ManualClock
from turnout.testing.simulator import Answer, Cut, Ending, Reset, Silence, Status

LIMIT_SECONDS = 0.3


def who(answer: Any) -> str:
    return str(answer.choices[0].message.content)


def who_streams(stream: Any) -> list[str]:
    return [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_silence_is_cut_at_the_providers_limit_and_f_answers(
    rig: Any, measured: Callable[[str], None], protocol: str
) -> None:
    sim = rig.simulate(P=Silence(), F=Answer(text="F"))
    providers = [
        rig.provider(sim, name, timeout_seconds=seconds, protocol=f"openai_{protocol}")
        for name, seconds in (("P", LIMIT_SECONDS), ("F", 60.0))
    ]
    router = rig.router(providers, policy=PreferencePolicy())
    call = rig.chat() if protocol == "chat" else rig.responses()
    # What the SDK imports at its first call would use up P's time.
    rig.router(providers[1:]).invoke(call)
    began = time.monotonic()

    answer = router.invoke(call)

    measured(f"silence under a limit of {LIMIT_SECONDS} s: {time.monotonic() - began:.2f} s in all")
    assert (who(answer) if protocol == "chat" else answer.output_text) == "F"
    assert (sim.total("P"), sim.total("F")) == (1, 2)
    assert sim.wait_for(lambda: sim.requests("P")[0].closed_at)
    assert sim.requests("P")[0].outcome is Ending.CLIENT_CLOSED
    assert router.health_report()["P"].why == Fault.TIMEOUT.value


@pytest.mark.parametrize("stream", [False, True])
def test_a_timeout_that_the_caller_gave_goes_on_to_f_and_benches_nobody(rig: Any, stream: bool) -> None:
    sim = rig.simulate(P=Silence(), F=Answer(text="F"))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy(), health={"failure_threshold": 1})

    answer = router.invoke(rig.chat(stream=stream, timeout=LIMIT_SECONDS))

    assert ("".join(who_streams(answer)) if stream else who(answer)) == "F"
    assert sim.total("P") == 1
    assert router.health_report()["P"].state is State.CLOSED


def test_a_reset_before_headers_is_answered_by_f_and_p_was_asked_once(rig: Any) -> None:
    sim = rig.simulate(P=Reset(), F=Answer(text="F"))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy())

    assert who(router.invoke(rig.chat())) == "F"

    assert [request.outcome for request in sim.requests("P")] == [Ending.RESET]
    assert [request.outcome for request in sim.requests("F")] == [Ending.ANSWERED]


def test_while_everything_is_down_calls_that_wait_ask_nobody_and_keep_no_thread_busy(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=[Status(503), Answer(text="P")], F=[Status(429, retry_after=7), Answer(text="F")])
    router = rig.router(
        rig.providers(sim),
        policy=PreferencePolicy(),
        clock=clock,
        health={"failure_threshold": 1, "when_all_benched": "wait"},
    )
    alarms = router._engine.plant.runtime.alarms
    set_for: SimpleQueue[float] = SimpleQueue()

    def noted(instant: float, callback: Callable[[], None]) -> Any:
        set_for.put(instant)
        return known(instant, callback)

    known = alarms.at
    monkeypatch.setattr(alarms, "at", noted)
    futures = [router.submit(rig.chat())]
    while router.health_report()["F"].state is not State.OPEN:
        router.stats()
    futures += [router.submit(rig.chat()) for _ in range(49)]

    # Each walk is parked, on no thread, until an alarm of its own, and time alone makes that ring.
    assert [set_for.get(timeout=30) for _ in futures] == [7.0] * 50
    assert not any(future.done() for future in futures)
    assert (sim.total("P"), sim.total("F")) == (1, 1)
    assert (router.stats().pending, router.stats().queued) == (50, 0)
    while wait(futures, 0.02).not_done:
        clock.advance(0.5)
    assert {who(future.result(0)) for future in futures} == {"F"}


def test_a_provider_has_thresholds_of_its_own_and_shares_the_rest(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=Status(503), F=Status(503), G=Answer(text="G"))
    providers = [
        rig.provider(sim, "P", health={"failure_threshold": 1}),
        rig.provider(sim, "F", health={"failure_cooldown_seconds": 7.0}),
        rig.provider(sim, "G"),
    ]
    router = rig.router(
        providers,
        policy=PreferencePolicy(),
        clock=clock,
        health={"failure_threshold": 2, "failure_cooldown_seconds": 33.0},
    )

    assert [who(router.invoke(rig.chat())) for _ in range(2)] == ["G", "G"]

    report = router.health_report()
    assert {name: report[name].cooldown_remaining_seconds for name in "PFG"} == {
        "P": 33.0,
        "F": 7.0,
        "G": None,
    }
    assert (sim.total("P"), sim.total("F")) == (1, 2)
    clock.advance(7.0)
    assert who(router.invoke(rig.chat())) == "G"
    assert (sim.total("P"), sim.total("F")) == (1, 3)


def test_restarts_of_streams_that_were_seen_stay_within_the_budget(rig: Any) -> None:
    sim = rig.simulate(P=Cut(2, Answer(text="never whole")), F=Answer(text="all of F"))
    router = rig.router(
        rig.providers(sim),
        policy=PreferencePolicy(),
        clock=ManualClock(),
        health={"failure_threshold": 1000},
        budget={"ratio": 0.0, "per_second": 0.0, "max_tokens": 3},
        on_restart=lambda restart: None,
    )

    def read() -> str:
        try:
            chunks = list(router.invoke(rig.chat(stream=True)))
        except ProviderError as error:
            return error.fault.value
        return str(chunks[-1].model)

    assert [read() for _ in range(5)] == ["model-F"] * 3 + [Fault.STREAM_INTERRUPTED.value] * 2
    assert (sim.total("P"), sim.total("F")) == (5, 3)


def test_a_failure_that_nobody_saw_is_started_over_without_a_token(rig: Any) -> None:
    sim = rig.simulate(P=Cut(0), F=Answer(text="all of F"))
    router = rig.router(
        rig.providers(sim),
        policy=PreferencePolicy(),
        health={"failure_threshold": 1000},
        budget={"ratio": 0.0, "per_second": 0.0, "max_tokens": 0},
    )

    streams = [router.invoke(rig.chat(stream=True)) for _ in range(3)]

    assert [list(stream)[-1].model for stream in streams] == ["model-F"] * 3
    assert {stream.report().attempts[-1].outcome for stream in streams} == {Outcome.OK}
