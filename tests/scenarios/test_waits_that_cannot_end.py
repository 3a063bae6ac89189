"""Waits that could never end are refused at once, wherever in the router's own threads they are made."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from turnout import ReentrantCallError
from turnout.testing import ScriptedAdapters

CALLS_FROM_A_POLICY: dict[str, Callable[[Any, Any], Any]] = {
    "invoke": lambda router, call: router.invoke(call),
    "result": lambda router, call: router.submit(call).result(),
    "result with a timeout": lambda router, call: router.submit(call).result(20),
    "exception": lambda router, call: router.submit(call).exception(20),
}


class Curious:
    """A policy that waits, once, for a call of its own router, for whose order it is asked too."""

    def __init__(self, wait: Callable[[Any, Any], Any]) -> None:
        self.router: Any = None
        self.call: Any = None
        self.asked = 0
        self.seen: list[BaseException] = []
        self._wait = wait

    def order(self, eligible: Sequence[Any], context: Any) -> Sequence[Any]:
        self.asked += 1
        if self.asked == 1:
            try:
                self._wait(self.router, self.call)
            except BaseException as error:
                self.seen.append(error)
        return eligible


@pytest.mark.parametrize("how", CALLS_FROM_A_POLICY)
def test_a_policy_that_waits_for_a_call_is_refused_even_where_a_worker_began_it(rig: Any, how: str) -> None:
    policy = Curious(CALLS_FROM_A_POLICY[how])
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", policy=policy)
    policy.router, policy.call = router, rig.chat("from the policy")

    assert router.invoke(rig.chat()) == "a"
    assert [type(error) for error in policy.seen] == [ReentrantCallError]


@pytest.mark.parametrize("how", ["invoke", "result", "result with a timeout"])
def test_async_code_that_waits_on_its_own_loop_is_refused_and_no_provider_is_blamed(
    rig: Any, how: str
) -> None:
    refused: list[BaseException] = []

    async def outer(call: Any) -> str:
        try:
            CALLS_FROM_A_POLICY[how](router, rig.chat("inner"))
        except ReentrantCallError as error:
            refused.append(error)
        return "outer"

    async def inner(call: Any) -> str:
        return "inner"

    router = rig.scripted(ScriptedAdapters({"a": [outer, inner]}), "a")

    assert router.invoke(rig.chat(), timeout=20.0) == "outer"
    assert len(refused) == 1
    assert router.health_report()["a"].consecutive_failures == 0
    assert router.invoke(rig.chat(), timeout=20.0) == "inner"


def test_async_code_may_await_another_call_of_its_router(rig: Any) -> None:
    async def outer(call: Any) -> str:
        return f"outer of {await router.ainvoke(rig.chat())}"

    async def inner(call: Any) -> str:
        return "inner"

    router = rig.scripted(ScriptedAdapters({"a": [outer, inner]}), "a")

    assert router.invoke(rig.chat(), timeout=20.0) == "outer of inner"


def test_a_call_made_by_sync_code_on_the_loop_is_no_wait_for_it(rig: Any) -> None:
    async def outer(call: Any) -> str:
        return f"outer of {router.invoke(rig.chat())} on {threading.current_thread().name}"

    router = rig.scripted(ScriptedAdapters({"a": [outer, "inner"]}), "a")

    answer = router.invoke(rig.chat(), timeout=20.0)
    assert answer.startswith("outer of inner on ")
    assert answer.endswith("-loop")
