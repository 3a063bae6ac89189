"""HTTP errors as the real SDK sees them."""

from typing import Any

import openai
import pytest

from turnout.testing.simulator import (
    Ending,
    RefusesPrefill,
    Status,
    StatusOkError,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (409, openai.ConflictError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_status_is_the_sdks_own_error(
    simulate: Any, connect: Any, code: int, error: Any, stream: bool
) -> None:
    sim = simulate(Status(code))
    with pytest.raises(error) as caught:
        connect(sim).chat.completions.create(**ASK, stream=stream)

    assert caught.value.status_code == code
    assert caught.value.type
    assert sim.requests("a")[0].status == code
    assert sim.requests("a")[0].outcome is Ending.REFUSED


def test_a_rate_limit_carries_what_the_script_says(simulate: Any, connect: Any) -> None:
    limited = Status(
        429,
        error_type="tokens",
        error_code="insufficient_quota",
        message="no more today",
        headers={"x-ratelimit-remaining-requests": "0"},
        retry_after=2,
        retry_after_ms=1500,
    )
    with pytest.raises(openai.RateLimitError) as caught:
        connect(simulate(limited)).chat.completions.create(**ASK)

    error = caught.value
    assert (error.type, error.code) == ("tokens", "insufficient_quota")
    assert "no more today" in str(error)
    headers = error.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1500")
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert error.request_id == "req_a_1"


def test_retry_after_can_be_a_date(simulate: Any, connect: Any) -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    with pytest.raises(openai.InternalServerError) as caught:
        connect(simulate(Status(503, retry_after=date, latency_seconds=0.001))).chat.completions.create(**ASK)

    assert caught.value.response.headers["retry-after"] == date


def test_a_status_can_have_a_gateways_page_for_a_body(simulate: Any, connect: Any) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        connect(simulate(Status(502, body="<h1>Bad gateway</h1>"))).chat.completions.create(**ASK)

    assert caught.value.response.text == "<h1>Bad gateway</h1>"


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_can_hide_behind_status_200(simulate: Any, connect: Any, stream: bool) -> None:
    raw = connect(simulate(StatusOkError("overloaded", error_code="busy"))).chat.completions.with_raw_response
    response = raw.create(**ASK, stream=stream)

    assert response.status_code == 200
    assert response.http_response.headers["content-type"] == "application/json"
    assert response.http_response.read()
    assert response.http_response.json()["error"] == {
        "message": "overloaded",
        "type": "server_error",
        "param": None,
        "code": "busy",
    }


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_to_be_continued_is_refused_where_the_provider_takes_none(
    simulate: Any, connect: Any, stream: bool
) -> None:
    create = connect(simulate(RefusesPrefill())).chat.completions.create
    begun = [*ASK["messages"], {"role": "assistant", "content": "Well"}]

    with pytest.raises(openai.BadRequestError, match="prefill"):
        create(model="m", messages=begun, stream=stream)

    answer = create(**ASK, stream=stream)
    assert (next(iter(answer)) if stream else answer).choices
