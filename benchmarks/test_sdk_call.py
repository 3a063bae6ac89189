"""What does a call of the real openai SDK cost through the router, beside the same call without it?

The answers come over loopback HTTP from a simulator in a process of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import openai
import pytest

pytestmark = pytest.mark.benchmark(group="A real SDK call, beside the bare SDK")

CALLS: Final = 15
NULL_CALLS: Final = 500
MESSAGES: Final[Any] = [{"role": "user", "content": "Hello"}]


@contextmanager
def bare(base_url: str) -> Iterator[Callable[[], object]]:
    with openai.OpenAI(api_key="sk-benchmark", base_url=base_url, max_retries=0) as client:
        yield partial(client.chat.completions.create, model="model", messages=MESSAGES)


def test_sdk_call_through_the_router(side_by_side: Any, routers: Any, simulated: Any) -> None:
    router = routers.over(simulated.plain)
    with bare(simulated.plain) as create:
        side_by_side.compare(
            "invoke() over the SDK, DuckDB ledger",
            side_by_side.calls(create, CALLS),
            side_by_side.calls(partial(router.invoke, routers.chat()), CALLS, then=router.flush),
        )


@pytest.mark.parametrize("door", ["invoke", "submit"])
def test_null_call_over_an_sdk_call(side_by_side: Any, routers: Any, simulated: Any, door: str) -> None:
    router, calls = routers(), routers.chat()
    call = partial(router.invoke, calls) if door == "invoke" else lambda: router.submit(calls).result()
    with bare(simulated.plain) as create:
        side_by_side.compare(
            "a null invoke()" if door == "invoke" else "a null submit().result()",
            side_by_side.calls(create, CALLS),
            side_by_side.calls(call, NULL_CALLS, then=router.flush),
            asked=dict.fromkeys(("p50, us", "drained, us"), "at most 0.03, goal 0.01"),
        )


def test_like_against_like(side_by_side: Any, simulated: Any) -> None:
    with ExitStack() as stack:
        one, other = (stack.enter_context(bare(simulated.plain)) for _ in range(2))
        side_by_side.compare(
            "the bare SDK against another client",
            side_by_side.calls(one, CALLS),
            side_by_side.calls(other, CALLS),
        )
