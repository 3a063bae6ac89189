"""Each failure is one Fault, in the provider's own words and without secrets."""

import socket
from collections.abc import Callable
from typing import Any

import openai
import pytest
from pydantic import SecretStr

from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.calls import ApiProtocol
from turnout.clock import SystemClock
from turnout.config import ProviderConfig
from turnout.deadline import Limit
from turnout.errors import (
    InvalidOperationArgumentsError,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
)
from turnout.faults import Fault
from turnout.testing.simulator import Cut, Empty, MalformedChunk, Reset, ScriptLike, Status, StatusOkError

FailureOf = Callable[[Callable[[], Any]], ProviderError]
KEY = "sk-very-secret-key"


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (Status(400), Fault.BAD_REQUEST),
        (Status(401), Fault.AUTH),
        (Status(402), Fault.QUOTA),
        (Status(403), Fault.AUTH),
        (Status(403, error_code="insufficient_quota"), Fault.QUOTA),
        (Status(404), Fault.UNKNOWN),
        (Status(408), Fault.TIMEOUT),
        (Status(409), Fault.UNKNOWN),
        (Status(413), Fault.BAD_REQUEST),
        (Status(422), Fault.BAD_REQUEST),
        (Status(429), Fault.RATE_LIMIT),
        (Status(429, error_code="insufficient_quota"), Fault.QUOTA),
        (Status(429, error_type="billing_hard_limit_reached"), Fault.QUOTA),
        (Status(500), Fault.SERVER_ERROR),
        (Status(503, body="<html>busy</html>"), Fault.SERVER_ERROR),
        (Status(529), Fault.SERVER_ERROR),
    ],
)
def test_each_status_is_one_fault(bench: Any, status: Status, fault: Fault, failure_of: FailureOf) -> None:
    bench.play(status)
    failure = failure_of(bench.call)
    assert isinstance(failure, ProviderHTTPError)
    assert (failure.fault, failure.status_code) == (fault, status.code)
    assert "<html>" not in str(failure)


def test_an_http_error_keeps_all_that_the_provider_sent(bench: Any, failure_of: FailureOf) -> None:
    bench.play(Status(429, "requests", "rate_limit_exceeded", "Too fast, friend.", retry_after=2.5))
    failure = failure_of(bench.call)
    assert isinstance(failure, ProviderHTTPError)
    assert isinstance(failure.original, openai.RateLimitError)
    assert failure.__cause__ is failure.original
    assert (failure.message, failure.error_type, failure.error_code) == (
        "Too fast, friend.",
        "requests",
        "rate_limit_exceeded",
    )
    assert failure.retry_after_seconds == 2.5
    assert isinstance(failure.body, dict)
    assert failure.body["message"] == "Too fast, friend."
    assert failure.response.headers["retry-after"]
    for word in ("alpha", "alpha-1", "m-1", "429", "Too fast, friend; it asks to be", "2.5 s"):
        assert word in str(failure)


def test_retry_after_is_read_in_milliseconds_too(bench: Any, failure_of: FailureOf) -> None:
    bench.play(Status(429, retry_after_ms=1500))
    assert failure_of(bench.call).retry_after_seconds == 1.5


def test_no_error_text_holds_the_key(bench: Any, failure_of: FailureOf) -> None:
    bench.play(Status(401, message=f"The key {KEY} is wrong."))
    failure = failure_of(bench.call)
    assert isinstance(failure, ProviderHTTPError)
    assert KEY not in str(failure)
    assert failure.message == "The key [key] is wrong."
    assert isinstance(failure.body, dict)
    assert failure.body["message"] == failure.message


@pytest.mark.parametrize(
    "broken", ["sk-two\nlines", "sk-schlüssel", "sk-line\n", "sk-blank ", "sk-\x7f", " "]
)
def test_a_key_that_no_header_can_hold_is_its_providers_fault_and_not_told(
    bench: Any, broken: str, failure_of: FailureOf
) -> None:
    failure = failure_of(lambda: bench.call(bench.adapter(api_key=broken)))
    assert failure.fault is Fault.AUTH
    assert "its key cannot be sent in a header; check its api_key" in str(failure)
    assert "sk-" not in str(failure)
    assert bench.simulator.total("alpha") == 0


@pytest.mark.parametrize(
    "header",
    [
        {"x-auth": "mine\nyours"},
        {"x-auth": "schlüssel"},
        {"x-auth": "mine "},
        {"x mine": "yours"},
        {"authorization": "Bearer mine\n"},
        {"content-length": "3"},
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_header_that_cannot_be_sent_is_the_callers_fault_and_not_told(
    bench: Any, header: dict[str, str], streamed: bool, failure_of: FailureOf
) -> None:
    failure = failure_of(lambda: (bench.stream if streamed else bench.call)(extra_headers=header))
    assert isinstance(failure, InvalidOperationArgumentsError)
    assert failure.fault is Fault.INVALID_OPERATION
    assert failure.__cause__ is failure.original is not None
    assert "correct its extra_headers" in str(failure)
    assert not any(word in str(failure) for word in ("mine", "yours", "schlüssel", "base_url"))
    assert bench.simulator.total("alpha") == 0


def test_a_refused_connection_is_a_connection_fault(failure_of: FailureOf) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config = ProviderConfig(
        provider_id="gone", name="gone", protocol=ApiProtocol.OPENAI_CHAT, model="m", api_key=SecretStr(KEY),
        base_url=f"http://127.0.0.1:{port}/v1",
    )  # fmt: skip
    adapter = OpenAIChatAdapter(config)
    failure = failure_of(lambda: adapter.invoke("chat.completions.create", {"messages": [], "model": "m"}))
    assert isinstance(failure, ProviderConnectionError)
    assert failure.fault is Fault.CONNECTION
    assert "base_url" in str(failure)
    adapter.close()


@pytest.mark.parametrize("script", [Reset(), Reset(1), Cut(1)])
def test_a_connection_lost_before_the_answer_is_a_connection_fault(
    bench: Any, script: ScriptLike, failure_of: FailureOf
) -> None:
    bench.play(script)
    assert isinstance(failure_of(bench.call), ProviderConnectionError)


@pytest.mark.parametrize("script", [MalformedChunk(), Empty()])
def test_an_answer_that_is_no_json_is_a_failure(
    bench: Any, script: ScriptLike, failure_of: FailureOf
) -> None:
    bench.play(script)
    failure = failure_of(bench.call)
    assert failure.fault is Fault.UNKNOWN
    assert "not JSON; check its base_url and protocol" in str(failure)


def test_an_error_that_is_the_answer_is_a_failure(bench: Any, failure_of: FailureOf) -> None:
    bench.play(StatusOkError("all broken", "server_error"))
    assert failure_of(bench.call).fault is Fault.SERVER_ERROR


def test_interrupts_are_not_taken_for_faults(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = bench.adapter()
    bench.call(adapter)
    client = adapter._clients.take()

    def interrupted(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(client._operations, bench.operation, interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.call(adapter)
    client.leave()


def test_a_limit_that_is_over_sends_nothing(bench: Any, failure_of: FailureOf) -> None:
    clock = SystemClock()
    over, cut = Limit(clock.monotonic() - 1.0, clock), Limit(clock.monotonic() + 100.0, clock)
    cut.cut("deadline")
    adapter = bench.adapter()
    assert (
        failure_of(lambda: adapter.invoke(bench.operation, bench.arguments, limit=over)).fault
        is Fault.TIMEOUT
    )
    assert (
        failure_of(lambda: adapter.invoke(bench.operation, bench.arguments, limit=cut)).fault
        is Fault.DEADLINE
    )
    assert bench.simulator.total("alpha") == 0
