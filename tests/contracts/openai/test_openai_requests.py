"""What the adapters send, and what they refuse to send."""

import sys
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import openai
import pytest
from pydantic import SecretStr

from turnout.adapters.openai_responses import OpenAIResponsesAdapter
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig
from turnout.errors import (
    InvalidOperationArgumentsError,
    MissingApiKeyError,
    ProviderError,
    ProviderSDKNotInstalledError,
    ProviderTimeoutError,
    UnsupportedOperationError,
)
from turnout.faults import Fault
from turnout.testing.simulator import Silence, Status

FailureOf = Callable[[Callable[[], Any]], ProviderError]
KEY = "sk-very-secret-key"


def test_the_answer_is_the_sdks_own_object_and_the_model_is_put_in(bench: Any) -> None:
    answer = bench.call()
    wanted = openai.types.chat.ChatCompletion if bench.chat else openai.types.responses.Response
    assert type(answer) is wanted
    assert bench.text_of(answer) == "all is well"
    assert bench.simulator.requests("alpha")[0].body["model"] == "m-1"


def test_the_callers_arguments_are_never_changed(bench: Any) -> None:
    given = {**bench.arguments, "model": "m-1"}
    bench.adapter().invoke(bench.operation, MappingProxyType(given))
    assert given == {**bench.arguments, "model": "m-1"}


def test_the_configured_extra_body_fills_only_what_the_caller_left_open(bench: Any) -> None:
    adapter = bench.adapter(extra_body={"top_k": 5, "safe": True, "temperature": 2})
    bench.call(adapter, extra_body={"top_k": 9}, temperature=0.5)
    body = bench.simulator.requests("alpha")[0].body
    assert body is not None
    assert (body["top_k"], body["safe"], body["temperature"]) == (9, True, 0.5)


def test_the_sdk_never_retries_by_itself(bench: Any, failure_of: FailureOf) -> None:
    bench.play(Status(500))
    failure_of(bench.call)
    assert bench.simulator.total("alpha") == 1


def test_a_shorter_timeout_of_the_callers_own_is_kept(bench: Any, failure_of: FailureOf) -> None:
    bench.play(Silence())
    failure = failure_of(lambda: bench.call(timeout=0.3))
    assert isinstance(failure, ProviderTimeoutError)
    assert "the timeout that the call's arguments give" in str(failure)
    assert failure.by_caller


@pytest.mark.parametrize(
    "seconds",
    [0, -1, float("nan"), openai.Timeout(0.0), openai.Timeout(5.0, connect=0), openai.Timeout(5.0, read=-1)],
)
def test_a_timeout_in_which_nothing_can_be_done_is_the_callers_mistake(
    bench: Any, failure_of: FailureOf, seconds: Any
) -> None:
    failure = failure_of(lambda: bench.call(timeout=seconds))
    assert failure.fault is Fault.INVALID_OPERATION
    assert "more than 0 seconds" in str(failure)
    assert bench.simulator.total("alpha") == 0


def test_a_timeout_with_parts_is_passed_on_and_still_ends_with_the_limit(
    bench: Any, failure_of: FailureOf
) -> None:
    bench.play(Silence())
    parts = openai.Timeout(30.0, connect=5.0)
    failure = failure_of(lambda: bench.call(bench.adapter(timeout_seconds=0.1), timeout=parts))
    assert isinstance(failure, ProviderTimeoutError)
    assert "0.1 s" in str(failure)


def test_a_longer_timeout_of_the_callers_own_gives_way_to_the_limit(
    bench: Any, failure_of: FailureOf
) -> None:
    bench.play(Silence())
    failure = failure_of(lambda: bench.call(bench.adapter(timeout_seconds=0.1), timeout=30.0))
    assert failure.fault is Fault.TIMEOUT


@pytest.mark.parametrize(
    "operation", ["create", "chat._private.create", "chat.completions", "no.such.thing", "", "chat..create"]
)
def test_an_operation_that_is_no_public_method_is_refused_and_nothing_is_sent(
    bench: Any, operation: str, failure_of: FailureOf
) -> None:
    failure = failure_of(lambda: bench.adapter().invoke(operation, {**bench.arguments, "model": "m"}))
    assert isinstance(failure, UnsupportedOperationError)
    assert failure.fault is Fault.INVALID_OPERATION
    assert bench.simulator.total("alpha") == 0


def test_responses_routes_create_alone(failure_of: FailureOf) -> None:
    config = ProviderConfig(
        provider_id="r",
        name="r",
        protocol=ApiProtocol.OPENAI_RESPONSES,
        model="m",
        api_key=SecretStr(KEY),
        base_url="http://x/",
    )
    adapter = OpenAIResponsesAdapter(config)
    failure = failure_of(lambda: adapter.invoke("responses.retrieve", {"response_id": "r1"}))
    assert isinstance(failure, UnsupportedOperationError)
    adapter.close()


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
def test_chat_reaches_other_operations_of_the_client_too(bench: Any, failure_of: FailureOf) -> None:
    answer = bench.adapter().invoke("chat.completions.parse", {**bench.arguments, "model": "m-1"})
    assert bench.text_of(answer) == "all is well"
    # The simulator knows no embeddings: that its own refusal comes back shows that the call went out.
    failure = failure_of(lambda: bench.adapter().invoke("embeddings.create", {"input": "x", "model": "m-1"}))
    assert failure.status_code == 404


@pytest.mark.parametrize("wrong", [{"mesages": []}, {"metadata": {"a": object()}}])
def test_arguments_that_the_sdk_refuses_are_the_callers_fault_and_nothing_is_sent(
    bench: Any, wrong: dict[str, Any], failure_of: FailureOf
) -> None:
    failure = failure_of(lambda: bench.call(**wrong))
    assert isinstance(failure, InvalidOperationArgumentsError)
    assert failure.fault is Fault.INVALID_OPERATION
    assert isinstance(failure.original, TypeError)
    assert bench.simulator.total("alpha") == 0


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
def test_missing_arguments_are_refused_before_sending(bench: Any, failure_of: FailureOf) -> None:
    failure = failure_of(lambda: bench.adapter().invoke(bench.operation, {}))
    assert isinstance(failure, InvalidOperationArgumentsError)


def test_without_the_sdk_the_error_names_the_extra(
    bench: Any, monkeypatch: pytest.MonkeyPatch, failure_of: FailureOf
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    failure = failure_of(bench.call)
    assert isinstance(failure, ProviderSDKNotInstalledError)
    assert 'pip install "turnout[openai]"' in str(failure)


def test_without_a_key_the_error_names_the_variable(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALPHA_KEY", raising=False)
    with pytest.raises(MissingApiKeyError, match="ALPHA_KEY"):
        bench.call(bench.adapter(api_key=None, api_key_env="ALPHA_KEY"))
