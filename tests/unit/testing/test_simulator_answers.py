"""Healthy answers, as the real SDK takes them."""

from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseInProgressEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
)

from turnout.testing.simulator import Answer, SimulatedProvider, Simulator

HELLO: Any = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello there"}]


def strictly(model: Any, value: Any) -> None:
    """The SDK builds its objects unchecked; this checks them."""
    model.model_validate(value.to_dict(mode="python"))


def test_a_chat_answer_says_who_answered_what(simulate: Any, connect: Any) -> None:
    answer = connect(simulate()).chat.completions.create(model="gpt-x", messages=HELLO)

    strictly(ChatCompletion, answer)
    assert answer.choices[0].message.content == "a: hello there"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "gpt-x"
    assert answer.id == "chatcmpl-a-1"
    assert answer.system_fingerprint == "fp_a"
    assert answer.created > 0


def test_a_chat_answer_reports_the_tokens_it_is_told_to(simulate: Any, connect: Any) -> None:
    sim = simulate(prompt_tokens=11, completion_tokens=7, cached_tokens=5)
    usage = connect(sim).chat.completions.create(model="m", messages=HELLO).usage

    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (11, 7, 18)
    assert usage.prompt_tokens_details.cached_tokens == 5


def test_tokens_are_words_unless_told_otherwise(simulate: Any, connect: Any) -> None:
    usage = connect(simulate(text="one two three")).chat.completions.create(model="m", messages=HELLO).usage

    assert (usage.prompt_tokens, usage.completion_tokens) == (2, 3)


def test_an_answer_without_usage_reports_none(simulate: Any, connect: Any) -> None:
    client = connect(simulate(Answer(usage=False)))

    assert client.chat.completions.create(model="m", messages=HELLO).usage is None
    assert client.responses.create(model="m", input="hello").usage is None
    options: Any = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(model="m", messages=HELLO, stream=True, stream_options=options)
    )
    assert [chunk.usage for chunk in chunks if chunk.usage] == []


def test_a_chat_stream_has_role_text_and_finish_in_order(simulate: Any, connect: Any) -> None:
    sim = simulate(text="abcdef", chunks=3)
    chunks = list(connect(sim).chat.completions.create(model="m", messages=HELLO, stream=True))

    for chunk in chunks:
        strictly(ChatCompletionChunk, chunk)
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["", "ab", "cd", "ef", None]
    assert [chunk.choices[0].delta.role for chunk in chunks] == ["assistant", None, None, None, None]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, None, None, None, "stop"]
    assert {chunk.id for chunk in chunks} == {"chatcmpl-a-1"}
    assert all(chunk.usage is None for chunk in chunks)


def test_a_chat_stream_ends_with_usage_only_when_asked(simulate: Any, connect: Any) -> None:
    client = connect(simulate(prompt_tokens=4, completion_tokens=6, cached_tokens=2))
    options: Any = {"include_usage": True}
    *chunks, last = client.chat.completions.create(
        model="m", messages=HELLO, stream=True, stream_options=options
    )

    strictly(ChatCompletionChunk, last)
    assert last.choices == []
    assert last.usage.total_tokens == 10
    assert last.usage.prompt_tokens_details.cached_tokens == 2
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_can_open_with_its_first_text(simulate: Any, connect: Any) -> None:
    client = connect(simulate(Answer(text="ab", chunks=2, opening=False)))
    chunks = list(client.chat.completions.create(model="m", messages=HELLO, stream=True))

    assert [chunk.choices[0].delta.content for chunk in chunks] == ["a", "b", None]
    assert chunks[0].choices[0].delta.role == "assistant"


def test_an_answer_overrides_the_providers_settings(simulate: Any, connect: Any) -> None:
    sim = simulate(
        [Answer(text="mine", finish_reason="length", prompt_tokens=1), Answer()], text="ours", prompt_tokens=9
    )
    client = connect(sim)
    first, second = (client.chat.completions.create(model="m", messages=HELLO) for _ in range(2))

    assert (first.choices[0].message.content, first.choices[0].finish_reason) == ("mine", "length")
    assert (second.choices[0].message.content, second.choices[0].finish_reason) == ("ours", "stop")
    assert (first.usage.prompt_tokens, second.usage.prompt_tokens) == (1, 9)


@pytest.mark.parametrize(
    "said",
    [
        "hello",
        [{"role": "user", "content": "hello"}],
        [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
    ],
)
def test_a_responses_answer_says_who_answered_what(simulate: Any, connect: Any, said: Any) -> None:
    sim = simulate(prompt_tokens=8, completion_tokens=2, cached_tokens=3)
    answer = connect(sim).responses.create(model="gpt-x", input=said)

    strictly(Response, answer)
    assert answer.output_text == "a: hello"
    assert answer.status == "completed"
    assert answer.model == "gpt-x"
    assert answer.usage.total_tokens == 10
    assert answer.usage.input_tokens_details.cached_tokens == 3


def test_a_responses_stream_has_every_event_in_order(simulate: Any, connect: Any) -> None:
    sim = simulate(text="abcd", chunks=2, cached_tokens=1)
    events = list(connect(sim).responses.create(model="m", input="hello", stream=True))

    expected = [
        ResponseCreatedEvent,
        ResponseInProgressEvent,
        ResponseOutputItemAddedEvent,
        ResponseContentPartAddedEvent,
        ResponseTextDeltaEvent,
        ResponseTextDeltaEvent,
        ResponseTextDoneEvent,
        ResponseContentPartDoneEvent,
        ResponseOutputItemDoneEvent,
        ResponseCompletedEvent,
    ]
    assert [type(event) for event in events] == expected
    for event in events:
        strictly(type(event), event)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.delta for event in events[4:6]] == ["ab", "cd"]
    assert events[6].text == "abcd"
    assert events[-1].response.output_text == "abcd"
    assert events[-1].response.usage.input_tokens_details.cached_tokens == 1


def test_pauses_change_nothing_in_an_answer(simulate: Any, connect: Any) -> None:
    slow = Answer(latency_seconds=0.001, first_token_seconds=0.001, chunk_interval_seconds=0.001, text="abcd")
    client = connect(simulate(slow))

    assert client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content == "abcd"
    chunks = client.chat.completions.create(model="m", messages=HELLO, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "abcd"


def test_providers_answer_under_their_own_paths(connect: Any) -> None:
    with Simulator([SimulatedProvider("a"), SimulatedProvider("b", text="I am b")]) as sim:
        said = {
            name: connect(sim, name).chat.completions.create(model="m", messages=HELLO) for name in ("a", "b")
        }

        assert said["a"].choices[0].message.content == "a: hello there"
        assert said["b"].choices[0].message.content == "I am b"
        assert [len(sim.requests(name)) for name in ("a", "b")] == [1, 1]


def test_calls_of_one_client_share_a_connection(simulate: Any, connect: Any) -> None:
    sim = simulate()
    client = connect(sim)
    for _ in range(5):
        client.chat.completions.create(model="m", messages=HELLO)
        list(client.responses.create(model="m", input="hello", stream=True))

    assert len({request.connection for request in sim.requests("a")}) == 1
    assert sim.connections("a") == 1


def test_requests_sent_at_once_on_one_connection_are_answered_in_order(simulate: Any, bare: Any) -> None:
    client = bare(simulate())
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    client.send(body)
    client.send({**body, "model": "second"})
    got = client.read_until(b'"model":"second"')

    assert got.count(b"HTTP/1.1 200") == 2
    assert got.index(b"chatcmpl-a-1") < got.index(b"chatcmpl-a-2")
