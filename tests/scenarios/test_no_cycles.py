"""What a failed call held is freed when the caller lets go of its error, without waiting for the collector."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from turnout import PreferencePolicy, RouterExhaustedError, StreamFailurePolicy
from turnout.testing import FINISHED, ScriptedAdapters
from turnout.testing.simulator import Answer, Cut, InStreamError, Silence, Stall, Status

ROUNDS: Final = 8
_TOLD_OF: Final = ("Response", "Stream", "RouterStream", "Progress", "Reading", "Try")


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> Counter[str]:
    return Counter(name for name in (type(one).__name__ for one in gc.get_objects()) if name in _TOLD_OF)


def kept(call: Callable[[], object]) -> Counter[str]:
    """What stays behind of as many calls."""
    # The first ones make what all share.
    for _ in range(2):
        call()
    before = alive()
    for _ in range(ROUNDS):
        call()
    return alive() - before


def read(router: Any, calls: Any, **options: Any) -> str:
    try:
        for _ in router.invoke(calls, **options):
            pass
    except Exception as error:
        return type(error).__name__
    return "whole"


STREAMS: Final = {
    "cut after content": (Cut(2, Answer(text="long", chunks=4)), StreamFailurePolicy.RESTART),
    "cut after content, raised": (Cut(2, Answer(text="long", chunks=4)), StreamFailurePolicy.RAISE),
    "cut, held": (Cut(2, Answer(text="long", chunks=4)), StreamFailurePolicy.HOLD),
    "an error in the stream": (InStreamError(after_chunks=2), StreamFailurePolicy.RAISE),
    "a stall": (Stall(2), StreamFailurePolicy.RESTART),
    "refused": (Status(503), StreamFailurePolicy.RESTART),
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.usefixtures("no_collector")
def test_a_stream_that_broke_keeps_nothing_alive(rig: Any, kind: str) -> None:
    script, policy = STREAMS[kind]
    sim = rig.simulate(P=script)
    provider = rig.provider(sim, "P", idle_timeout_seconds=0.05)
    router = rig.router([provider], health={"failure_threshold": 10**6}, stream_failure_policy=policy)

    assert kept(lambda: read(router, rig.chat(stream=True))) == {}


@pytest.mark.usefixtures("no_collector")
def test_a_call_that_was_cut_at_its_deadline_keeps_nothing_alive(rig: Any) -> None:
    sim = rig.simulate(P=[Status(500), Silence()], F=Silence())
    router = rig.router(rig.providers(sim), health={"failure_threshold": 10**6})

    def call() -> None:
        with pytest.raises(TimeoutError):
            router.invoke(rig.chat(), timeout=0.05)

    assert kept(call) == {}


@pytest.mark.usefixtures("no_collector")
def test_a_call_that_nobody_answered_keeps_nothing_alive(rig: Any) -> None:
    sim = rig.simulate(P=Status(500), F=Status(503))
    router = rig.router(rig.providers(sim), health={"failure_threshold": 10**6})

    def call() -> None:
        with pytest.raises(Exception, match="P"):
            router.invoke(rig.chat())

    assert kept(call) == {}


def test_what_the_caller_was_handling_keeps_its_traceback_and_its_frames_their_contents(rig: Any) -> None:
    sim = rig.simulate(P=Cut(2, Answer(text="long", chunks=4)), F=Status(500))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy())

    def fails() -> None:
        kept = "kept"
        raise KeyError(kept)

    try:
        fails()
    except KeyError as handled:
        assert read(router, rig.chat(stream=True)) == "ProviderStreamInterruptedError"
        trace = handled.__traceback__

    assert trace is not None
    assert trace.tb_next is not None
    assert trace.tb_next.tb_frame.f_locals["kept"] == "kept"


class WithoutNotesError(Exception):
    """An error of the user's own, that takes nothing."""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise LookupError("no notes")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


@pytest.mark.parametrize("notes", [None, (), [1]])
def test_an_error_that_takes_no_note_is_its_providers_failure_as_any_other(rig: Any, notes: Any) -> None:
    with_odd_notes = ConnectionError("cut")
    with_odd_notes.__notes__ = notes
    for error in (with_odd_notes, WithoutNotesError("cut")):
        adapters = ScriptedAdapters({"a": [[error]], "b": [["b", FINISHED]]})
        router = rig.scripted(adapters, "ab", policy=PreferencePolicy())
        stream = router.invoke(rig.chat(stream=True))
        assert list(stream) == ["b"]
        assert [attempt.by.name for attempt in stream.report().attempts] == ["a", "b"]


def test_a_bug_in_an_adapter_of_the_users_own_is_told_with_its_line_in_a_stream_too(rig: Any) -> None:
    def buggy(call: object) -> Any:
        raise bug

    bug = ZeroDivisionError("by none")
    router = rig.scripted(ScriptedAdapters({"a": [buggy]}), "a", health={"failure_threshold": 99})

    for _ in range(3):
        with pytest.raises(RouterExhaustedError) as caught:
            router.invoke(rig.chat(stream=True))

    # As a note, and once: its frames would keep the stream that another provider is answering.
    (note,) = caught.value.attempts[0].error.__notes__
    assert f'File "{__file__}"' in note
    assert "in buggy" in note
