"""What does one failover cost, beside the two bare SDK calls that it consists of?

The first provider answers HTTP 500, the second answers, over loopback HTTP from a simulator in a process of its own.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import openai
import pytest

pytestmark = pytest.mark.benchmark(group="One failover, beside two bare SDK calls")

CALLS: Final = 10
MESSAGES: Final[Any] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def two_calls(simulated: Any) -> Iterator[Callable[[], object]]:
    with (
        openai.OpenAI(api_key="sk-benchmark", base_url=simulated.broken, max_retries=0) as broken,
        openai.OpenAI(api_key="sk-benchmark", base_url=simulated.plain, max_retries=0) as plain,
    ):

        def calls() -> object:
            try:
                return broken.chat.completions.create(model="model", messages=MESSAGES)
            except openai.InternalServerError:
                return plain.chat.completions.create(model="model", messages=MESSAGES)

        yield calls


def test_one_failover(
    side_by_side: Any, routers: Any, simulated: Any, two_calls: Callable[[], object]
) -> None:
    # Never benched: each call fails over.
    router = routers.over(
        simulated.broken, simulated.plain, policy="preference", health={"failure_threshold": 1_000_000}
    )
    side_by_side.compare(
        "invoke() that fails over once, DuckDB ledger",
        side_by_side.calls(two_calls, CALLS),
        side_by_side.calls(partial(router.invoke, routers.chat()), CALLS, then=router.flush),
    )


def test_like_against_like(side_by_side: Any, two_calls: Callable[[], object]) -> None:
    side_by_side.compare(
        "two bare calls against two others",
        side_by_side.calls(two_calls, CALLS),
        side_by_side.calls(two_calls, CALLS),
    )
