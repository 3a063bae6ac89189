"""What does each chunk of a stream cost more when the router watches it?

Once over chunks that cost nothing, which shows the microseconds; once over the real SDK and HTTP, which shows how much
they matter. The time runs from the call to the last chunk, and until the row of it is in DuckDB.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import openai
import pytest

from turnout import NormalizedStream

pytestmark = pytest.mark.benchmark(group="Streaming: a chunk, beside the same stream read bare")

CHUNKS: Final = tuple(f"chunk {n}" for n in range(10_000))
SDK_STREAMS: Final = 3
FIGURE: Final = "us a chunk"


class Listed(NormalizedStream):
    """Hands out CHUNKS, and is complete when they are."""

    def __init__(self) -> None:
        self._chunks = iter(CHUNKS)
        self._left = len(CHUNKS)

    def __next__(self) -> str:
        chunk = next(self._chunks)
        self._left -= 1
        return chunk

    @property
    def completed(self) -> bool:
        return self._left == 0

    def close(self) -> None:
        """Nothing is held."""


class Listing:
    def invoke(self, operation: str, arguments: Mapping[str, Any]) -> Listed:
        return Listed()


def read(
    opened: Callable[[], Iterable[object]], streams: int = 1, then: Callable[[], object] = lambda: None
) -> Callable[[], Mapping[str, float]]:
    """A block of whole streams, as microseconds a chunk."""

    def block() -> Mapping[str, float]:
        chunks = 0
        began = time.perf_counter()
        for _ in range(streams):
            for _ in opened():
                chunks += 1
        then()
        return {FIGURE: (time.perf_counter() - began) / chunks * 1e6}

    return block


def test_stream_without_a_network(side_by_side: Any, routers: Any) -> None:
    router, calls = routers(Listing()), routers.chat(stream=True)
    side_by_side.compare(
        f"{len(CHUNKS):,} chunks from memory",
        read(Listed),
        read(lambda: router.invoke(calls), then=router.flush),
    )


def test_sdk_stream(side_by_side: Any, routers: Any, simulated: Any) -> None:
    router, calls = routers.over(simulated.long), routers.chat(stream=True)
    with openai.OpenAI(api_key="sk-benchmark", base_url=simulated.long, max_retries=0) as client:
        side_by_side.compare(
            "200 chunks of the SDK over HTTP",
            read(
                lambda: client.chat.completions.create(
                    model="model", messages=[{"role": "user", "content": "Hello"}], stream=True
                ),
                SDK_STREAMS,
            ),
            read(lambda: router.invoke(calls), SDK_STREAMS, router.flush),
        )


def test_like_against_like(side_by_side: Any) -> None:
    side_by_side.compare("chunks from memory, both bare", read(Listed), read(Listed))
