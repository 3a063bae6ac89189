"""A call that was woken for a permit and cannot use it at once leaves it to others."""

import threading
from typing import Any

from turnout import Fault, PreferencePolicy, ProviderHTTPError
from turnout.testing import ManualClock, ScriptedAdapters

LIMITED = ProviderHTTPError("busy", status_code=429, fault=Fault.RATE_LIMIT, retry_after_seconds=5.0)
MISTAKEN = ProviderHTTPError("bad", status_code=400, fault=Fault.BAD_REQUEST)
REFUSED = ProviderHTTPError("who are you", status_code=401, fault=Fault.AUTH)


class Held:
    """A call that a provider is in until it may go on."""

    def __init__(self, end: Any) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self._end = end

    def __call__(self, call: Any) -> Any:
        self.begun.set()
        assert self.go.wait(30)
        if isinstance(self._end, Exception):
            raise self._end
        return self._end


def test_while_a_submitted_call_waits_for_room_of_the_workers_an_invoke_takes_the_permit(rig: Any) -> None:
    clock, hung, probe = ManualClock(), Held("hung"), Held(MISTAKEN)
    router = rig.scripted(
        ScriptedAdapters({"a": [hung, LIMITED, probe, "served", "served"], "b": [REFUSED]}),
        "ab",
        policy=PreferencePolicy(),
        clock=clock,
        pool={"max_workers": 2},
        health={"when_all_benched": "wait"},
    )
    answers: list[Any] = []

    def invoke() -> None:
        try:
            answers.append(router.invoke(rig.chat()))
        except Exception as error:
            answers.append(error)

    waiting = router._engine.plant.health.waiting
    first = router.submit(rig.chat())
    assert hung.begun.wait(30)
    prober = threading.Thread(target=invoke)
    prober.start()
    _until(lambda: len(waiting) == 1)
    clock.advance(5.0)
    assert probe.begun.wait(30)
    submitted = router.submit(rig.chat())
    _until(lambda: len(waiting) == 1)
    other = threading.Thread(target=invoke)
    other.start()
    _until(lambda: len(waiting) == 2)

    probe.go.set()

    prober.join(30)
    other.join(30)
    assert "served" in answers
    hung.go.set()
    assert (first.result(30), submitted.result(30)) == ("hung", "served")


def _until(there: Any) -> None:
    pause = threading.Event()
    for _ in range(30_000):
        if there():
            return
        pause.wait(0.001)
    raise AssertionError("it never came to that")
