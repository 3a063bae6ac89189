"""Every row of the tables of refusals, over the SDK: a status with its words, an error in a stream, a typed failure."""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from pydantic import SecretStr

from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.adapters.openai_codes import STATUSES, WORDS
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig
from turnout.errors import ProviderError, ProviderHTTPError
from turnout.faults import Fault
from turnout.testing import ManualClock
from turnout.testing.simulator import (
    Answer,
    ErrorEvent,
    Failed,
    Incomplete,
    InStreamError,
    SimulatedProvider,
    Simulator,
    Status,
    StatusOkError,
)

FailureOf = Callable[[Callable[[], Any]], ProviderError]

TOO_LONG = "This model's maximum context length is 8192 tokens."
REFUSED = {
    "400": (Status(400), Fault.BAD_REQUEST),
    "400 code": (Status(400, error_code="context_length_exceeded"), Fault.CONTEXT_LENGTH),
    "400 sentence": (Status(400, message=TOO_LONG), Fault.CONTEXT_LENGTH),
    "400 Anthropic": (Status(400, message="prompt is too long: 210 tokens > 200 maximum"), Fault.CONTEXT_LENGTH),
    "400 llama.cpp": (Status(400, "exceed_context_size_error"), Fault.CONTEXT_LENGTH),
    "400 filter": (Status(400, error_code="content_filter"), Fault.CONTENT_FILTER),
    "400 policy": (Status(400, error_code="content_policy_violation"), Fault.CONTENT_FILTER),
    "400 billing": (Status(400, error_code="billing_hard_limit_reached"), Fault.QUOTA),
    "401": (Status(401), Fault.AUTH),
    "402": (Status(402), Fault.QUOTA),
    "403": (Status(403), Fault.AUTH),
    "403 quota": (Status(403, error_code="insufficient_quota"), Fault.QUOTA),
    "403 limit": (Status(403, error_code="rate_limit_exceeded"), Fault.RATE_LIMIT),
    "403 moderated": (Status(403, error_code="moderation_blocked"), Fault.CONTENT_FILTER),
    "404": (Status(404), Fault.UNKNOWN),
    "408": (Status(408), Fault.TIMEOUT),
    "409": (Status(409), Fault.UNKNOWN),
    "413": (Status(413), Fault.BAD_REQUEST),
    "413 code": (Status(413, error_code="context_length_exceeded"), Fault.CONTEXT_LENGTH),
    "422": (Status(422), Fault.BAD_REQUEST),
    "422 code": (Status(422, message="`inputs` must have less than 9 tokens"), Fault.CONTEXT_LENGTH),
    "422 filter": (Status(422, error_code="content_filter"), Fault.CONTENT_FILTER),
    "422 billing": (Status(422, error_code="insufficient_balance"), Fault.QUOTA),
    "429": (Status(429), Fault.RATE_LIMIT),
    "429 quota": (Status(429, error_code="insufficient_quota"), Fault.QUOTA),
    "429 billing": (Status(429, "billing_hard_limit_reached"), Fault.QUOTA),
    "500": (Status(500), Fault.SERVER_ERROR),
    "503": (Status(503, body="<html>busy</html>"), Fault.SERVER_ERROR),
    "529": (Status(529, "overloaded_error"), Fault.SERVER_ERROR),
}  # fmt: skip
#: The code of an error that has no status of its own.
SAID = {
    "insufficient_quota": Fault.QUOTA,
    "rate_limit_exceeded": Fault.RATE_LIMIT,
    "context_length_exceeded": Fault.CONTEXT_LENGTH,
    "image_content_policy_violation": Fault.CONTENT_FILTER,
    "vector_store_timeout": Fault.TIMEOUT,
    "invalid_api_key": Fault.AUTH,
    "server_error": Fault.SERVER_ERROR,
    "invalid_prompt": Fault.BAD_REQUEST,
    "429": Fault.RATE_LIMIT,
    "never_heard_of": Fault.UNKNOWN,
}


def test_every_row_of_both_tables_is_tested_here() -> None:
    seen = {(status.code, fault) for status, fault in REFUSED.values()}
    assert seen >= {(status, row.fault) for status, row in STATUSES.items()}
    assert seen >= {(status, fault) for status, row in STATUSES.items() for fault in row.may_say}
    assert {row.fault for row in WORDS} <= set(SAID.values())


@pytest.mark.parametrize("stream", [False, True], ids=["regular", "streamed"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_status_and_the_words_beside_it_are_one_fault(
    bench: Any, name: str, stream: bool, failure_of: FailureOf
) -> None:
    status, fault = REFUSED[name]
    bench.play(status)
    failure = failure_of(bench.stream if stream else bench.call)
    assert isinstance(failure, ProviderHTTPError)
    assert (failure.fault, failure.status_code) == (fault, status.code)


def heard(bench: Any) -> None:
    """What a stream says, to its end."""
    with bench.stream() as chunks:
        for _ in chunks:
            pass


@pytest.mark.parametrize("code", SAID)
@pytest.mark.parametrize(
    "how",
    [
        lambda code: InStreamError(error_type="", error_code=code),
        ErrorEvent,
        Failed,
    ],
    ids=["error in stream", "error event", "failed"],
)
def test_an_error_in_a_stream_is_the_fault_that_its_code_says(
    bench: Any, how: Callable[[str], Any], code: str, failure_of: FailureOf
) -> None:
    bench.play(how(code))
    failure = failure_of(lambda: heard(bench))
    if code == "never_heard_of" and bench.chat and not isinstance(how(code), InStreamError):
        # Chat has no typed events: there it comes with the type "server_error".
        assert failure.fault is Fault.SERVER_ERROR
        return
    assert failure.fault is SAID[code]
    assert failure.retry_after_seconds is None


@pytest.mark.parametrize("code", SAID)
def test_an_error_that_is_the_answer_is_the_fault_that_its_code_says(
    bench: Any, code: str, failure_of: FailureOf
) -> None:
    bench.play(StatusOkError(error_type="", error_code=code))
    assert failure_of(bench.call).fault is SAID[code]


def test_a_sentence_is_believed_where_a_stream_sends_no_code(bench: Any, failure_of: FailureOf) -> None:
    bench.play(InStreamError(TOO_LONG, "invalid_request_error"))
    assert failure_of(lambda: heard(bench)).fault is Fault.CONTEXT_LENGTH
    bench.play(InStreamError("Rate limit reached, slow down", ""))
    assert failure_of(lambda: heard(bench)).fault is Fault.RATE_LIMIT


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
def test_an_answer_that_a_filter_or_a_limit_ended_is_served(bench: Any, reason: Any) -> None:
    bench.play(Incomplete(reason, after_chunks=1))
    assert bench.text_of(bench.call())
    with bench.stream() as chunks:
        assert "".join(bench.piece_of(chunk) for chunk in chunks)
        assert chunks.completed


@pytest.mark.parametrize(
    ("said", "wants"), [("true", True), ("false", False), ("perhaps", None), (None, None)]
)
def test_whether_the_provider_wants_the_request_again_is_kept(
    bench: Any, said: str | None, wants: bool | None, failure_of: FailureOf
) -> None:
    bench.play(Status(503, headers={} if said is None else {"x-should-retry": said}))
    assert failure_of(bench.call).should_retry is wants


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "9", "retry-after-ms": "-1"}, 9.0),
        ({"retry-after": "-9"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "a while"}, None),
    ],
)
def test_the_time_that_the_provider_names_is_kept(
    bench: Any, headers: dict[str, str], seconds: float | None, failure_of: FailureOf
) -> None:
    bench.play(Status(429, headers=headers))
    assert failure_of(bench.call).retry_after_seconds == seconds


def test_a_date_is_counted_from_when_the_answer_came(failure_of: FailureOf) -> None:
    clock = ManualClock()
    date = format_datetime(datetime.fromtimestamp(clock.wall() + 90.0, UTC), usegmt=True)
    with Simulator([SimulatedProvider("alpha", [Answer(), Status(429, retry_after=date)])]) as simulator:
        config = ProviderConfig(
            provider_id="alpha", name="alpha", protocol=ApiProtocol.OPENAI_CHAT, model="m",
            base_url=simulator.base_url("alpha"), api_key=SecretStr("key"),
        )  # fmt: skip
        adapter = OpenAIChatAdapter(config, clock=clock)
        call = {"messages": [{"role": "user", "content": "Hello"}], "model": "m"}
        adapter.invoke("chat.completions.create", call)
        clock.advance(60.0)
        failure = failure_of(lambda: adapter.invoke("chat.completions.create", call))
        adapter.close()
    assert failure.retry_after_seconds == 30.0
