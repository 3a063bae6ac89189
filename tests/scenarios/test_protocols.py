"""Several protocols in one call."""

from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from turnout import (
    ApiProtocol,
    CallError,
    CallType,
    CallVariant,
    DuplicateCallVariantProtocolError,
    MixedCallTypeError,
    NoCallVariantError,
    PreferencePolicy,
    RouterExhaustedError,
    UnsupportedOperationError,
)
from turnout.testing.simulator import Answer, Cut, Status

BOTH = [
    CallVariant(
        protocol=ApiProtocol.OPENAI_CHAT,
        operation="chat.completions.create",
        call_type=CallType.REGULAR,
        arguments={"messages": [{"role": "user", "content": "Hello"}]},
    ),
    CallVariant(
        protocol=ApiProtocol.OPENAI_RESPONSES,
        operation="responses.create",
        call_type=CallType.REGULAR,
        arguments={"input": "Hello"},
    ),
]


def two_protocols(rig: Any, sim: Any, first: ApiProtocol) -> Any:
    """A router whose provider `a` speaks `first` and whose `b` speaks the other protocol."""
    other = {
        ApiProtocol.OPENAI_CHAT: ApiProtocol.OPENAI_RESPONSES,
        ApiProtocol.OPENAI_RESPONSES: ApiProtocol.OPENAI_CHAT,
    }[first]
    return rig.router(
        [rig.provider(sim, "a", protocol=first), rig.provider(sim, "b", protocol=other)],
        policy=PreferencePolicy(),
    )


@pytest.mark.parametrize("first", list(ApiProtocol))
def test_a_retryable_failure_falls_over_from_one_protocol_to_the_other(rig: Any, first: ApiProtocol) -> None:
    sim = rig.simulate(a=Status(500), b=Answer(text="b here"))
    router = two_protocols(rig, sim, first)

    answer = router.invoke(BOTH)

    if first is ApiProtocol.OPENAI_CHAT:
        assert type(answer) is Response
        assert answer.output_text == "b here"
    else:
        assert type(answer) is ChatCompletion
        assert answer.choices[0].message.content == "b here"
    paths = {name: sim.requests(name)[0].path.rpartition("/v1/")[2] for name in "ab"}
    chat, responses = ("a", "b") if first is ApiProtocol.OPENAI_CHAT else ("b", "a")
    assert paths == {chat: "chat/completions", responses: "responses"}
    assert sim.requests(chat)[0].body == {
        "messages": [{"role": "user", "content": "Hello"}],
        "model": f"model-{chat}",
    }
    assert sim.requests(responses)[0].body == {"input": "Hello", "model": f"model-{responses}"}


def test_a_stream_that_breaks_before_content_starts_over_on_the_other_protocol(rig: Any) -> None:
    sim = rig.simulate(a=Cut(after_chunks=0), b=Answer(text="b here", chunks=2))
    router = two_protocols(rig, sim, ApiProtocol.OPENAI_CHAT)

    stream = router.invoke([*rig.chat(stream=True), *rig.responses(stream=True)])
    texts = [event.delta for event in stream if getattr(event, "type", "") == "response.output_text.delta"]

    assert "".join(texts) == "b here"
    assert stream.restarts == 1


@pytest.mark.parametrize("first", list(ApiProtocol))
def test_a_callers_mistake_stops_although_another_protocol_is_at_hand(rig: Any, first: ApiProtocol) -> None:
    sim = rig.simulate(a=Status(400), b=Answer())
    router = two_protocols(rig, sim, first)

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(BOTH)

    assert [attempt.provider_id for attempt in caught.value.attempts] == ["a"]
    assert sim.total("b") == 0


def test_a_bad_operation_for_one_protocol_stops_too(rig: Any) -> None:
    sim = rig.simulate(a=Answer(), b=Answer())
    router = two_protocols(rig, sim, ApiProtocol.OPENAI_CHAT)
    bad = CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.crate", CallType.REGULAR, {"messages": []})

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke([bad, *rig.responses()])

    (attempt,) = caught.value.attempts
    assert isinstance(attempt.error, UnsupportedOperationError)
    assert sim.total("a") == sim.total("b") == 0


def test_openai_code_calls_responses_through_the_client_and_gets_the_sdks_own_objects(rig: Any) -> None:
    sim = rig.simulate(chat=Answer(), a=Status(500), b=Answer(text="b here", chunks=2))
    over_responses = {"protocol": ApiProtocol.OPENAI_RESPONSES}
    router = rig.router(
        [
            rig.provider(sim, "chat"),
            rig.provider(sim, "a", **over_responses),
            rig.provider(sim, "b", **over_responses),
        ],
        policy=PreferencePolicy(),
    )
    client = router.client()

    answer = client.responses.create(model="gpt-x", input="Hello", store=False)
    assert type(answer) is Response
    assert answer.output_text == "b here"

    with client.responses.create(model="gpt-x", input="Hello", stream=True) as stream:
        events = list(stream)
    assert events[-1].type == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "b here"
    assert stream.report().answered_by.provider_id == "b"

    asked = [(request.path.rpartition("/v1/")[2], request.body) for request in sim.requests("b")]
    assert asked == [
        ("responses", {"model": "model-b", "input": "Hello", "store": False}),
        ("responses", {"model": "model-b", "input": "Hello", "stream": True}),
    ]
    assert (sim.total("chat"), sim.total("a")) == (0, 2)


# What is wrong with a call, and the error that says so.
WRONG: dict[str, tuple[Any, type[CallError]]] = {
    "a protocol twice": ([BOTH[0], BOTH[1], BOTH[0]], DuplicateCallVariantProtocolError),
    "regular and streaming": (
        [
            BOTH[0],
            CallVariant(
                ApiProtocol.OPENAI_RESPONSES, "responses.create", CallType.STREAMING, {"stream": True}
            ),
        ],
        MixedCallTypeError,
    ),
    "no variant": ([], NoCallVariantError),
    "something else": ([{"messages": []}], NoCallVariantError),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("door", ["invoke", "submit"])
def test_a_call_that_cannot_be_routed_is_refused_before_any_provider_is_contacted(
    rig: Any, name: str, door: str
) -> None:
    calls, kind = WRONG[name]
    sim = rig.simulate(a=Answer(), b=Answer())
    router = two_protocols(rig, sim, ApiProtocol.OPENAI_CHAT)

    with pytest.raises(kind):
        getattr(router, door)(calls)

    assert sim.total("a") == sim.total("b") == 0
    assert router.stats().pending == 0
