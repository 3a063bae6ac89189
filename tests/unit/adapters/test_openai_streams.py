"""What a watched stream makes of streams that no well-behaved provider sends."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from loguru import logger
from pydantic import SecretStr

from turnout.adapters.openai_call import OpenAIAdapter
from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.adapters.openai_responses import OpenAIResponsesAdapter
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig
from turnout.errors import ProviderError, ProviderStreamInterruptedError

Open = Callable[..., Any]


class _Server:
    """Answers every request with one SSE body; then closes, resets, or stays silent."""

    def __init__(self, body: bytes, end: str) -> None:
        self._body = body
        self._end = end
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def __exit__(self, *exc: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)
        for connection in self._held:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            _take_request(connection)
            size = b"%x\r\n%s\r\n" % (len(self._body), self._body)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            connection.sendall(head + size + (b"0\r\n\r\n" if self._end == "close" else b""))
            if self._end == "silence":
                self._held.append(connection)
            else:
                connection.close()


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    assert data, "the client left before its request was whole"
    return data


def _take_request(connection: socket.socket) -> None:
    """Reads a whole request: what is left unread would turn the close into a reset."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _some(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    (size,) = (
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    while len(body) < size:
        body += _some(connection)


@pytest.fixture
def open_stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a stream whose server sends these events: ``open_stream(*events, end="close")``."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        adapters: dict[str, OpenAIAdapter] = {}

        def start(
            *events: str,
            end: str = "close",
            responses: bool = False,
            again: bool = False,
            operation: str = "",
            **more: Any,
        ) -> Any:
            if not again:
                url = stack.enter_context(
                    _Server("".join(f"data: {event}\n\n" for event in events).encode(), end)
                )
                kind = OpenAIResponsesAdapter if responses else OpenAIChatAdapter
                protocol = ApiProtocol.OPENAI_RESPONSES if responses else ApiProtocol.OPENAI_CHAT
                config = ProviderConfig(
                    provider_id="odd-1", name="odd", protocol=protocol, model="m",
                    base_url=url, api_key=SecretStr("sk-1"),
                    timeout_seconds=0.5 if end == "silence" else 20.0,
                )  # fmt: skip
                adapters["odd"] = kind(config)
                stack.callback(adapters["odd"].close)
            known = "responses.create" if responses else "chat.completions.create"
            given = "input" if responses else "prompt" if operation == "completions.create" else "messages"
            return adapters["odd"].invoke(
                operation or known, {given: [], "model": "m", "stream": True, **more}
            )

        yield start


@pytest.fixture
def told() -> Iterator[list[str]]:
    kept: list[str] = []
    sink = logger.add(lambda message: kept.append(message.record["message"]), level="WARNING")
    yield kept
    logger.remove(sink)


def chunk(delta: str = "{}", finish: str = "null", index: int = 0) -> str:
    choice = f'{{"index": {index}, "delta": {delta}, "finish_reason": {finish}}}'
    return (
        f'{{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{choice}]}}'
    )


HELLO = chunk('{"content": "hi"}')
STOP = chunk(finish='"stop"')


@pytest.mark.parametrize("end", ["silence", "cut"])
def test_an_answer_marked_finished_is_whole_whatever_the_connection_does_next(
    open_stream: Open, end: str
) -> None:
    stream = open_stream(HELLO, STOP, end=end)
    assert len(list(stream)) == 2
    assert stream.completed


@pytest.mark.parametrize("end", ["silence", "cut"])
def test_an_answer_without_a_mark_is_not_whole(open_stream: Open, end: str) -> None:
    stream = open_stream(HELLO, end=end)
    with pytest.raises(ProviderError):
        list(stream)
    assert not stream.completed


def test_every_choice_that_appeared_must_finish(open_stream: Open) -> None:
    stream = open_stream(HELLO, chunk('{"content": "ho"}', index=1), STOP, chunk(finish='"length"', index=1))
    seen = [stream.completed for _ in stream]
    assert seen == [False, False, False, True]


@pytest.mark.parametrize("end", ["close", "cut", "silence"])
def test_answers_asked_for_that_never_came_leave_the_stream_cut_short(open_stream: Open, end: str) -> None:
    stream = open_stream(HELLO, STOP, end=end, n=2)
    if end == "close":
        list(stream)
    else:
        with pytest.raises(ProviderError):
            list(stream)
    assert not stream.completed


@pytest.mark.parametrize("end", ["close", "cut", "silence"])
def test_fewer_answers_than_were_asked_for_are_whole_with_the_providers_own_end_mark(
    open_stream: Open, end: str
) -> None:
    stream = open_stream(HELLO, STOP, "[DONE]", end=end, n=2)
    assert [stream.completed for _ in stream] == [False, False]
    assert stream.completed


def test_the_providers_own_end_mark_says_nothing_after_a_chunk_that_could_not_be_read(
    open_stream: Open,
) -> None:
    stream = open_stream(HELLO, STOP, "{not json", chunk('{"content": "ho"}', index=1), "[DONE]", n=2)
    with pytest.raises(ProviderStreamInterruptedError, match="malformed chunk"):
        list(stream)
    assert not stream.completed


@pytest.mark.parametrize("done", [True, False])
def test_content_after_the_finish_is_whole_only_with_the_providers_own_end_mark(
    open_stream: Open, done: bool
) -> None:
    stream = open_stream(HELLO, STOP, chunk('{"annotations": [1]}'), *["[DONE]"] * done)
    list(stream)
    assert stream.completed is done


def test_the_providers_own_end_mark_finishes_no_answer_that_was_begun(open_stream: Open) -> None:
    stream = open_stream(HELLO, chunk('{"content": "ho"}', index=1), STOP, "[DONE]", n=2)
    list(stream)
    assert not stream.completed


def test_remarks_after_the_finish_do_not_open_the_answer_again(open_stream: Open) -> None:
    stream = open_stream(HELLO, STOP, chunk())
    list(stream)
    assert stream.completed


@pytest.mark.parametrize(
    "delta",
    [
        '{"content": "x"}',
        '{"tool_calls": [{"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": ""}}]}',
        '{"refusal": "no"}',
        '{"function_call": {"name": "f", "arguments": "{"}}',
        '{"reasoning": "hm"}',
        '{"reasoning_content": "hm"}',
    ],
)
def test_whatever_a_model_says_is_content(open_stream: Open, delta: str) -> None:
    stream = open_stream(chunk('{"role": "assistant", "content": ""}'), chunk(delta), STOP)
    assert [stream.has_content for _ in stream] == [False, True, True]


def test_the_newest_usage_counts(open_stream: Open) -> None:
    usage = '{{"choices": [], "usage": {{"prompt_tokens": 1, "completion_tokens": {0}, "total_tokens": 9}}}}'
    stream = open_stream(HELLO, usage.format(1), STOP, usage.format(2))
    list(stream)
    assert stream.usage.completion_tokens == 2


def test_a_shape_that_nobody_knows_counts_as_complete_and_is_told_of_once(
    open_stream: Open, told: list[str]
) -> None:
    stream = open_stream('{"word": "hi"}', "[DONE]")
    assert len(list(stream)) == 1
    assert stream.completed
    assert stream.has_content
    list(open_stream(again=True))
    (warning,) = told
    assert "odd" in warning
    assert "chat.completions.create" in warning


@pytest.mark.parametrize(
    "event",
    [
        '{"word": "hi"}',
        '{"code": 1, "message": "a word"}',
        '{"type": "transcript.text.done", "text": "hi", "usage": {"total_tokens": 2}}',
    ],
)
def test_of_an_operation_without_a_known_shape_any_stream_that_ends_is_complete(
    open_stream: Open, told: list[str], event: str
) -> None:
    stream = open_stream(event, operation="completions.create")
    assert [stream.has_content for _ in stream] == [True]
    assert stream.completed
    assert len(told) == 1


def test_of_threads_that_find_an_unknown_shape_at_once_one_tells_of_it(told: list[str]) -> None:
    together = threading.Barrier(4, timeout=20)

    class Together(dict[str, object]):
        """Lets nobody go on before all have looked."""

        def setdefault(self, *given: Any) -> Any:
            found = super().setdefault(*given)
            together.wait()
            return found

    adapter = OpenAIChatAdapter(
        ProviderConfig(
            provider_id="odd-1",
            name="odd",
            protocol=ApiProtocol.OPENAI_CHAT,
            model="m",
            api_key=SecretStr("k"),
        )
    )
    adapter._told = Together()
    threads = [
        threading.Thread(target=adapter._tell_unreadable, args=["embeddings.create"]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    (warning,) = told
    assert "embeddings.create" in warning


def test_a_shape_that_nobody_knows_is_not_complete_when_it_breaks_or_is_left(open_stream: Open) -> None:
    stream = open_stream('{"word": "hi"}', end="cut")
    with pytest.raises(ProviderStreamInterruptedError):
        list(stream)
    assert not stream.completed
    left = open_stream('{"word": "hi"}', '{"word": "ho"}')
    next(left)
    left.close()
    assert not left.completed


def test_events_of_unknown_kinds_pass_and_the_end_is_still_known(open_stream: Open, told: list[str]) -> None:
    stream = open_stream(
        '{"type": "response.created", "response": {"id": "r", "status": "in_progress"}, "sequence_number": 0}',
        '{"type": "response.new_kind.delta", "delta": "x", "sequence_number": 1}',
        '{"type": "response.completed", "response": {"id": "r", "status": "completed"}, "sequence_number": 2}',
        responses=True,
    )
    assert [(event.type, stream.has_content) for event in stream] == [
        ("response.created", False),
        ("response.new_kind.delta", True),
        ("response.completed", True),
    ]
    assert stream.completed
    assert told == []


def test_calls_go_through_the_proxy_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ProviderConfig(
        provider_id="far-1", name="far", protocol=ApiProtocol.OPENAI_CHAT, model="m", api_key=SecretStr("sk-1"),
        base_url="http://provider.invalid/v1",
    )  # fmt: skip
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    events = f"data: {HELLO}\n\ndata: {STOP}\n\n".encode()
    with _Server(events, "close") as proxy:
        monkeypatch.setenv("http_proxy", proxy.removesuffix("/v1"))
        adapter = OpenAIChatAdapter(config)
        stream = adapter.invoke("chat.completions.create", {"messages": [], "model": "m", "stream": True})
        assert len(list(stream)) == 2
        adapter.close()


def test_a_second_reader_is_refused_and_the_first_reads_on(open_stream: Open) -> None:
    stream = open_stream(HELLO, STOP)
    stream._turn.acquire()
    with pytest.raises(RuntimeError, match="one reader"):
        next(stream)
    stream._turn.release()
    assert len(list(stream)) == 2


def test_bytes_that_are_no_text_interrupt_the_stream(open_stream: Open) -> None:
    stream = open_stream(HELLO, "{not json")
    next(stream)
    with pytest.raises(ProviderStreamInterruptedError, match="malformed chunk"):
        next(stream)


def test_bytes_that_are_no_text_harm_no_answer_that_was_marked_finished(open_stream: Open) -> None:
    usage = '{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}'
    stream = open_stream(HELLO, STOP, usage, "{not json")
    assert len(list(stream)) == 3
    assert stream.completed
    assert stream.usage.total_tokens == 3


def test_a_shape_that_nobody_knows_says_nothing_beside_chunks_that_can_be_read(open_stream: Open) -> None:
    stream = open_stream(chunk('{"role": "assistant"}'), '{"word": "ping"}', HELLO, STOP)
    assert [stream.has_content for _ in stream] == [False, False, True, True]


@pytest.mark.parametrize(
    "kind",
    [
        "response.output_text",
        "response.refusal",
        "response.function_call_arguments",
        "response.reasoning_text",
    ],
)
def test_an_event_says_something_only_where_its_delta_does(open_stream: Open, kind: str) -> None:
    stream = open_stream(
        '{"type": "response.output_item.added", "item": {"type": "reasoning", "id": "i"}, "sequence_number": 0}',
        f'{{"type": "{kind}.delta", "delta": "", "sequence_number": 1}}',
        f'{{"type": "{kind}.delta", "delta": "x", "sequence_number": 2}}',
        responses=True,
    )
    assert [stream.has_content for _ in stream] == [False, False, True]
