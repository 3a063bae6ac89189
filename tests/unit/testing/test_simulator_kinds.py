"""Answers that are no plain text: reasoning, refusals and tool calls, as the SDK reads them."""

from typing import Any

import pytest

from turnout.testing.simulator import Answer

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def tool_call_of(said: Any) -> str:
    (call,) = said.tool_calls
    return str(call.function.arguments)


CHAT: Any = {
    "text": lambda said: said.content,
    "refusal": lambda said: said.refusal,
    "reasoning": lambda said: said.reasoning_content,
    "tool_call": tool_call_of,
}
RESPONSES: Any = {
    "text": ("response.output_text", lambda item: item.content[0].text),
    "refusal": ("response.refusal", lambda item: item.content[0].refusal),
    "reasoning": ("response.reasoning_summary_text", lambda item: item.summary[0].text),
    "tool_call": ("response.function_call_arguments", lambda item: item.arguments),
}


@pytest.mark.parametrize("kind", CHAT)
def test_a_chat_answer_says_its_text_in_the_field_of_its_kind(simulate: Any, connect: Any, kind: Any) -> None:
    client = connect(simulate(Answer(text="abcd", chunks=4, kind=kind)))
    said = CHAT[kind]

    deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(**ASK, stream=True)]
    assert [said(delta) for delta in deltas[1:-1]] == ["a", "b", "c", "d"]
    message = client.chat.completions.create(**ASK).choices[0].message
    assert said(message) == "abcd"
    assert (message.content is None) is (kind != "text")


def test_a_tool_call_in_a_stream_is_named_once(simulate: Any, connect: Any) -> None:
    client = connect(simulate(Answer(text="{}", chunks=2, kind="tool_call")))
    chunks = list(client.chat.completions.create(**ASK, stream=True))
    calls = [chunk.choices[0].delta.tool_calls[0] for chunk in chunks[1:-1]]
    assert [(call.id, call.function.name) for call in calls] == [("call_1", "look_up"), (None, None)]


@pytest.mark.parametrize("kind", RESPONSES)
def test_a_response_says_its_text_in_events_of_its_kind(simulate: Any, connect: Any, kind: Any) -> None:
    client = connect(simulate(Answer(text="abcd", chunks=4, kind=kind)))
    name, text_of = RESPONSES[kind]

    events = list(client.responses.create(model="m", input="hi", stream=True))
    assert [event.delta for event in events if event.type == f"{name}.delta"] == ["a", "b", "c", "d"]
    assert f"{name}.done" in {event.type for event in events}
    assert [event.sequence_number for event in events] == [*range(len(events))]
    opened = [event.type for event in events if event.type.endswith("part.added")]
    assert len(opened) == (kind != "tool_call")
    assert text_of(events[-1].response.output[0]) == "abcd"
    assert text_of(client.responses.create(model="m", input="hi").output[0]) == "abcd"
