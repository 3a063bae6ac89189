"""How long a stream is read on once its answer was marked whole."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from pydantic import SecretStr

from turnout.adapters.openai_call import answers_asked
from turnout.adapters.openai_chat import ChatStream
from turnout.adapters.openai_end import EndWatch
from turnout.adapters.openai_faults import Seam
from turnout.adapters.openai_responses import ResponsesStream
from turnout.adapters.openai_stream import AFTER_MARK_SECONDS, WatchedStream
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig
from turnout.deadline import Limit
from turnout.testing import ManualClock

IDLE_SECONDS = 120.0


class Opened:
    """A stream of given chunks, one every half second, whose connection then says nothing more."""

    def __init__(
        self, kind: type[WatchedStream], chunks: list[Any], idle_seconds: float, asked: int = 1
    ) -> None:
        clock = ManualClock()
        self.limit = Limit(clock.monotonic() + IDLE_SECONDS, clock)
        #: How long each read may wait.
        self.waits: list[float] = []
        config = ProviderConfig(
            provider_id="a", name="a", protocol=ApiProtocol.OPENAI_CHAT, model="m", api_key=SecretStr("k")
        )
        client: Any = SimpleNamespace(pid=os.getpid(), leave=lambda: None)
        self.stream = kind(
            self._native(chunks, clock), client, EndWatch(self.limit),
            Seam(config, clock), granted_seconds=IDLE_SECONDS, idle_seconds=idle_seconds, known=True,
            asked=asked,
            on_unreadable=lambda: None,
        )  # fmt: skip

    def _native(self, chunks: list[Any], clock: ManualClock) -> Iterator[Any]:
        for chunk in chunks:
            self.waits.append(self.limit.remaining())
            clock.advance(0.5)
            yield chunk
        self.waits.append(self.limit.remaining())
        raise TimeoutError


def choice(finish_reason: str | None = None, index: int = 0, content: str | None = None) -> Any:
    said = content or ("" if finish_reason else "x")
    delta = SimpleNamespace(content=said)
    return SimpleNamespace(
        choices=[SimpleNamespace(index=index, delta=delta, finish_reason=finish_reason)], usage=None
    )


PING_KINDS = ["ping", "heartbeat", "keepalive", "response.heartbeat", "codex.rate_limits"]
USAGE = SimpleNamespace(choices=[], usage=SimpleNamespace(total_tokens=1))
DELTA = SimpleNamespace(type="response.output_text.delta", delta="x")


@pytest.mark.parametrize(
    ("kind", "chunks"),
    [
        (ChatStream, [choice(), choice("stop")]),
        (ResponsesStream, [DELTA, SimpleNamespace(type="response.completed", response=None)]),
        (ResponsesStream, [DELTA, SimpleNamespace(type="response.incomplete", response=None)]),
    ],
)
def test_after_the_mark_of_its_end_an_answer_is_read_on_for_a_short_grace_alone(
    kind: type[WatchedStream], chunks: list[Any]
) -> None:
    opened = Opened(kind, chunks, IDLE_SECONDS)
    assert list(opened.stream) == chunks
    assert opened.stream.completed
    assert opened.waits == [IDLE_SECONDS, IDLE_SECONDS, AFTER_MARK_SECONDS]


def test_content_after_the_mark_opens_its_answer_again() -> None:
    chunks = [choice(), choice("tool_calls"), choice(), choice("stop")]
    opened = Opened(ChatStream, chunks, IDLE_SECONDS)
    assert [opened.stream.completed for _ in opened.stream] == [False, True, False, True]
    assert opened.waits == [IDLE_SECONDS, IDLE_SECONDS, AFTER_MARK_SECONDS, IDLE_SECONDS, AFTER_MARK_SECONDS]


def test_an_answer_that_breaks_off_after_it_was_opened_again_is_a_failure() -> None:
    opened = Opened(ChatStream, [choice("tool_calls"), choice()], IDLE_SECONDS)
    with pytest.raises(Exception, match="failed: TimeoutError"):
        list(opened.stream)
    assert not opened.stream.completed


def test_content_beside_a_mark_gains_the_idle_limit_in_full_and_leaves_the_answer_whole() -> None:
    opened = Opened(ChatStream, [choice("stop", content="a"), choice("stop", content="b")], IDLE_SECONDS)
    assert [opened.stream.completed for _ in opened.stream] == [True, True]
    assert opened.waits == [IDLE_SECONDS] * 3


def test_what_follows_the_mark_gains_no_time() -> None:
    opened = Opened(ChatStream, [choice("stop"), USAGE], IDLE_SECONDS)
    list(opened.stream)
    assert opened.stream.usage.total_tokens == 1
    assert opened.waits == [IDLE_SECONDS, AFTER_MARK_SECONDS, AFTER_MARK_SECONDS - 0.5]


def test_the_grace_is_never_longer_than_the_idle_limit() -> None:
    opened = Opened(ChatStream, [choice("stop")], 0.25)
    list(opened.stream)
    assert opened.waits == [IDLE_SECONDS, 0.25]


def test_a_choice_that_is_still_open_keeps_the_idle_limit() -> None:
    opened = Opened(ChatStream, [choice(), choice(index=1), choice("stop", content="x")], IDLE_SECONDS)
    with pytest.raises(Exception, match="failed: TimeoutError"):
        list(opened.stream)
    assert opened.waits[-1] == IDLE_SECONDS


@pytest.mark.parametrize("kind", PING_KINDS)
def test_an_event_that_only_keeps_the_connection_alive_is_no_content_and_gains_no_time(kind: str) -> None:
    opened = Opened(
        ResponsesStream, [SimpleNamespace(type=kind), DELTA, SimpleNamespace(type=kind)], IDLE_SECONDS
    )
    with pytest.raises(Exception, match="failed: TimeoutError"):
        list(opened.stream)
    assert opened.waits == [IDLE_SECONDS, IDLE_SECONDS - 0.5, IDLE_SECONDS, IDLE_SECONDS - 0.5]


def test_an_answer_that_came_in_its_end_event_alone_is_content() -> None:
    opened = Opened(
        ResponsesStream, [SimpleNamespace(type="response.completed", response=None)], IDLE_SECONDS
    )
    assert [opened.stream.has_content for _ in opened.stream] == [True]


@pytest.mark.parametrize("kind", PING_KINDS)
def test_an_event_that_only_keeps_the_connection_alive_releases_nothing(kind: str) -> None:
    opened = Opened(ResponsesStream, [SimpleNamespace(type=kind), DELTA], IDLE_SECONDS)
    said = []
    for _ in range(2):
        next(opened.stream)
        said.append(opened.stream.has_content)
    assert said == [False, True]
    opened.stream.close()


@pytest.mark.parametrize(
    ("operation", "arguments", "answers"),
    [
        ("chat.completions.create", {}, 1),
        ("chat.completions.create", {"n": 1}, 1),
        ("chat.completions.create", {"n": 2}, 2),
        ("chat.completions.create", {"extra_body": {"n": 2}}, 2),
        ("chat.completions.create", {"n": 3, "extra_body": {"n": 2}}, 2),
        ("chat.completions.create", {"n": 3, "extra_body": {}}, 3),
        ("chat.completions.create", {"n": openai.NOT_GIVEN}, 1),
        ("chat.completions.create", {"n": "2"}, 1),
        ("chat.completions.create", {"n": None}, 1),
        ("chat.completions.create", {"n": 0}, 1),
        ("chat.completions.create", {"prompt": ["a", "b"]}, 1),
        ("completions.create", {"prompt": "ab"}, 1),
        ("completions.create", {"prompt": ["a", "b"]}, 2),
        ("completions.create", {"prompt": ["a", "b"], "n": 2}, 4),
        ("completions.create", {"prompt": [1, 2, 3], "n": 2}, 2),
        ("completions.create", {"prompt": [[1, 2], [3]]}, 2),
        ("completions.create", {"prompt": []}, 1),
        ("completions.create", {"extra_body": {"prompt": ["a", "b"]}}, 2),
    ],
)
def test_the_answers_asked_for_are_counted_over_all_prompts(
    operation: str, arguments: dict[str, Any], answers: int
) -> None:
    assert answers_asked(operation, arguments) == answers


def test_an_answer_that_has_not_begun_keeps_the_idle_limit_and_its_absence_is_a_failure() -> None:
    opened = Opened(ChatStream, [choice("stop", content="x")], IDLE_SECONDS, asked=2)
    with pytest.raises(Exception, match="failed: TimeoutError"):
        list(opened.stream)
    assert opened.waits == [IDLE_SECONDS, IDLE_SECONDS]
    assert not opened.stream.completed


def test_once_all_answers_asked_for_are_marked_they_are_whole() -> None:
    opened = Opened(
        ChatStream, [choice("stop"), choice(index=1), choice("stop", index=1)], IDLE_SECONDS, asked=2
    )
    list(opened.stream)
    assert opened.stream.completed
