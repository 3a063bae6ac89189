"""Probes of a provider that may answer again: how many are out, and how long one may take."""

from collections import deque
from threading import Barrier, Thread
from typing import Any

import pytest

from turnout import Fault, NoEligibleProvidersError, PreferencePolicy, ProviderHTTPError, RouterExhaustedError
from turnout.actors.health import AskPermit, Renewed
from turnout.decisions.circuit import State
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Status

LIMITED = ProviderHTTPError("busy", status_code=429, fault=Fault.RATE_LIMIT, retry_after_seconds=3.0)
#: Of P, in seconds: a permit lasts five more, or twice as long once it was renewed.
TIMEOUT = 20.0


def text(chunks: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def recovering(rig: Any, clock: ManualClock, **of_primary: Any) -> tuple[Any, Any]:
    """A simulator, and a router whose P was benched and may be probed."""
    letters = Answer(text="abcdefghij", chunks=10)
    sim = rig.simulate(P=[Status(429, retry_after=3), letters], F=Answer(text="F"))
    limits = {"timeout_seconds": TIMEOUT, **of_primary}
    configs = [rig.provider(sim, "P", **limits), rig.provider(sim, "F")]
    router = rig.router(configs, policy=PreferencePolicy(), clock=clock)
    assert text(router.invoke(rig.chat(stream=True))) == "F"
    clock.advance(3.0)
    return sim, router


@pytest.mark.parametrize("idle_seconds", [None, 3.5 * TIMEOUT])
def test_a_probes_stream_keeps_others_out_as_long_as_it_is_read(rig: Any, idle_seconds: float | None) -> None:
    clock = ManualClock()
    sim, router = recovering(rig, clock, idle_timeout_seconds=idle_seconds)
    # As long as nothing of it may be waited for, and longer in all than its permit lasts.
    silence = TIMEOUT if idle_seconds is None else idle_seconds

    with router.invoke(rig.chat(stream=True)) as probe:
        said = ""
        while len(said) < 9:
            said += text([next(probe)])
            clock.advance(0.99 * silence)
            assert text(router.invoke(rig.chat(stream=True))) == "F"
            assert router.health_report()["P"].probes_out == 1
        said += text(probe)

    assert said == "abcdefghij"
    assert sim.total("P") == 2
    assert router.health_report()["P"].state is State.CLOSED


def test_a_reader_who_stops_reading_lets_another_probe(rig: Any) -> None:
    clock = ManualClock()
    sim, router = recovering(rig, clock)
    probe = router.invoke(rig.chat(stream=True))
    next(probe)
    clock.advance(2 * (TIMEOUT + 5.0) - 0.1)
    assert text(router.invoke(rig.chat(stream=True))) == "F"
    clock.advance(0.1)

    another = router.invoke(rig.chat(stream=True))
    next(another)

    assert sim.total("P") == 3
    assert router.health_report()["P"].probes_out == 1
    # What the first one proves is known all the same: it began after the bench.
    assert text(probe).endswith("j")
    assert router.health_report()["P"].state is State.CLOSED
    another.close()


def test_a_provider_whose_streams_all_outlive_their_permits_is_healthy_after_the_first(rig: Any) -> None:
    clock = ManualClock()
    sim, router = recovering(rig, clock)
    read: deque[Any] = deque()

    # Each is read once, and on after a time in which another is let in.
    while router.health_report()["P"].state is not State.CLOSED:
        assert len(read) < 4
        read.append(router.invoke(rig.chat(stream=True)))
        next(read[-1])
        clock.advance(2 * (TIMEOUT + 5.0))
        if len(read) > 2:
            list(read[0])

    assert sim.total("P") == 4
    for stream in read:
        stream.close()


def test_a_permit_is_renewed_with_the_first_chunk_and_then_once_in_half_of_its_life(rig: Any) -> None:
    clock = ManualClock()
    adapters = ScriptedAdapters({"P": [LIMITED, [*range(60), FINISHED]], "F": [["f", FINISHED]]})
    provider: dict[str, Any] = {
        "protocol": "openai_chat",
        "model": "m",
        "api_key": "k",
        "timeout_seconds": TIMEOUT,
    }
    router = rig.router(
        [{**provider, "provider_id": name, "name": name} for name in "PF"],
        adapter_factory=adapters,
        policy=PreferencePolicy(),
        clock=clock,
    )
    list(router.invoke(rig.chat(stream=True)))
    clock.advance(3.0)
    actor = router._engine.plant.health.actor
    tell, told = actor.tell, []

    def witnessed(message: Any) -> bool:
        told.append((clock.monotonic(), type(message)))
        return bool(tell(message))

    actor.tell = witnessed
    for _ in range(2):
        for _ in router.invoke(rig.chat(stream=True)):
            clock.advance(1.0)

    # The second is no probe.
    assert told == [(3.0, Renewed), (28.0, Renewed), (53.0, Renewed)]


def test_a_call_that_asks_for_a_permit_after_the_probe_of_another_goes_on_without(rig: Any) -> None:
    clock = ManualClock()
    router = rig.scripted(ScriptedAdapters({"P": [LIMITED, "first", "second"]}), "P", clock=clock)
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    clock.advance(3.0)
    actor = router._engine.plant.health.actor
    ask = actor.ask
    answers: list[Any] = []

    def asks_last(message: Any, *more: Any) -> Any:
        if isinstance(message, AskPermit) and not answers:
            answers.append(None)
            answers[:] = [router.invoke(rig.chat())]
        return ask(message, *more)

    actor.ask = asks_last

    assert router.invoke(rig.chat()) == "second"
    assert answers == ["first"]


def test_threads_at_a_recovery_take_nobody_for_benched_who_answers_again(rig: Any) -> None:
    clock = ManualClock()
    down = True
    said: list[str] = []

    def primary(call: Any) -> str:
        if down:
            raise LIMITED
        return "P"

    def calls() -> None:
        together.wait(30)
        try:
            said.append(router.invoke(rig.chat()))
        except NoEligibleProvidersError as error:
            said.append(str(error))

    router = rig.scripted(ScriptedAdapters({"P": [primary]}), "P", clock=clock)
    for _ in range(30):
        down = True
        with pytest.raises(RouterExhaustedError):
            router.invoke(rig.chat())
        down = False
        clock.advance(3.0)
        together = Barrier(8)
        threads = [Thread(target=calls) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert len(said) == 30 * 8
    assert not [told for told in said if told != "P" and "is being probed by another call" not in told]
