"""What is in the caller's context (``contextvars``) follows the call, and nothing comes back out of it."""

from contextvars import ContextVar
from threading import Event
from typing import Any

import pytest

from turnout import PreferencePolicy, ProviderConnectionError, SameProviderRetryPolicy
from turnout.testing import FINISHED, ScriptedAdapters

WAIT = 30.0
TRACE: ContextVar[str] = ContextVar("TRACE", default="nobody's")

WAYS = {
    "invoke": lambda router, call: router.invoke(call),
    "invoke with a deadline": lambda router, call: router.invoke(call, timeout=WAIT),
    "submit": lambda router, call: router.submit(call).result(WAIT),
    "result": lambda router, call: router.submit(call).result(),
}


@pytest.fixture(autouse=True)
def _traced() -> Any:
    token = TRACE.set("the caller's")
    yield
    TRACE.reset(token)


def sees(call: Any) -> str:
    return TRACE.get()


async def sees_on_the_loop(call: Any) -> str:
    return TRACE.get()


def sets_and_fails(call: Any) -> str:
    TRACE.set("an attempt's")
    raise ProviderConnectionError("down")


async def sets_on_the_loop_and_fails(call: Any) -> str:
    return sets_and_fails(call)


def test_a_submitted_call_has_the_context_of_the_moment_at_which_it_was_submitted(rig: Any) -> None:
    begun, go_on = Event(), Event()

    def waits(call: Any) -> str:
        begun.set()
        assert go_on.wait(WAIT)
        return TRACE.get()

    router = rig.scripted(ScriptedAdapters({"a": [waits, sees]}), "a", pool={"max_workers": 1})
    under_way = router.submit(rig.chat())
    assert begun.wait(WAIT)
    TRACE.set("the second call's")
    queued = router.submit(rig.chat())
    TRACE.set("later")
    go_on.set()

    assert [under_way.result(WAIT), queued.result(WAIT)] == ["the caller's", "the second call's"]


@pytest.mark.parametrize("provider", [sees, sees_on_the_loop])
@pytest.mark.parametrize("way", WAYS)
def test_an_adapter_sees_the_context_of_its_caller_on_whatever_thread_it_runs(
    rig: Any, way: str, provider: Any
) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [provider]}), "a")

    assert WAYS[way](router, rig.chat()) == "the caller's"


@pytest.mark.parametrize("fails", [sets_and_fails, sets_on_the_loop_and_fails])
@pytest.mark.parametrize("way", WAYS)
def test_what_an_attempt_sets_is_seen_by_no_other_attempt_and_not_by_the_caller(
    rig: Any, way: str, fails: Any
) -> None:
    adapters = ScriptedAdapters({"a": [fails], "b": [sees]})
    router = rig.scripted(
        adapters, "ab", policy=PreferencePolicy(), retry_policy=SameProviderRetryPolicy(max_attempts=2)
    )

    assert WAYS[way](router, rig.chat()) == "the caller's"
    assert TRACE.get() == "the caller's"


def test_a_retry_starts_from_the_callers_context_too(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [sets_and_fails, sees]})
    router = rig.scripted(adapters, "a", retry_policy=SameProviderRetryPolicy())

    assert router.invoke(rig.chat()) == "the caller's"


def test_a_stream_that_starts_over_on_its_readers_thread_has_the_context_it_was_asked_for_in(
    rig: Any,
) -> None:
    def breaks(call: Any) -> list[Any]:
        TRACE.set("an attempt's")
        return [ConnectionError("cut")]

    adapters = ScriptedAdapters({"a": [breaks], "b": [lambda call: [TRACE.get(), FINISHED]]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy())
    stream = router.invoke(rig.chat(stream=True))
    TRACE.set("the reader's")

    assert list(stream) == ["the caller's"]
