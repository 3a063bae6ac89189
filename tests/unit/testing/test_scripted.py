"""The scripted adapters, on their own."""

from typing import Any

import pytest
from pydantic import SecretStr

from turnout import ApiProtocol, ProviderConfig
from turnout.testing import FINISHED, ScriptedAdapters, ScriptedCall, ScriptedStream

A = ProviderConfig(
    provider_id="a", name="a", protocol=ApiProtocol.OPENAI_CHAT, model="m", api_key=SecretStr("k")
)


def called(adapters: ScriptedAdapters, **arguments: Any) -> Any:
    return adapters(A).invoke("chat.completions.create", arguments)


def test_results_come_in_order_and_the_last_one_repeats() -> None:
    adapters = ScriptedAdapters({"a": ["first", "second"]})

    assert [called(adapters) for _ in range(3)] == ["first", "second", "second"]


def test_an_exception_is_raised_each_time_without_its_earlier_tracebacks() -> None:
    adapters = ScriptedAdapters({"a": [ConnectionError("gone")]})

    depths = []
    for _ in range(3):
        with pytest.raises(ConnectionError, match="gone") as caught:
            called(adapters)
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1


def test_a_function_is_given_the_call_and_gives_the_result() -> None:
    adapters = ScriptedAdapters({"a": [lambda call: f"{call.provider_id} saw {call.arguments['n']}"]})

    assert called(adapters, n=7) == "a saw 7"
    assert adapters.calls == (ScriptedCall("a", "chat.completions.create", {"n": 7}),)


def test_a_list_is_a_stream_that_is_complete_with_the_chunk_before_its_mark() -> None:
    stream = called(ScriptedAdapters({"a": [["Hel", lambda: "lo", FINISHED, "late"]]}))

    assert isinstance(stream, ScriptedStream)
    assert (next(stream), stream.completed) == ("Hel", False)
    assert (next(stream), stream.completed) == ("lo", True)
    assert list(stream) == ["late"]


def test_a_stream_raises_in_the_place_of_a_listed_exception_and_ends_when_closed() -> None:
    stream = called(ScriptedAdapters({"a": [["x", TimeoutError("late"), "y", "z"]]}))

    assert next(stream) == "x"
    with pytest.raises(TimeoutError, match="late"):
        next(stream)
    assert next(stream) == "y"
    stream.close()
    assert stream.closed
    assert list(stream) == []


def test_an_empty_script_is_refused() -> None:
    with pytest.raises(ValueError, match="these have none: a"):
        ScriptedAdapters({"a": []})
