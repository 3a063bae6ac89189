"""Errors in OpenAI's shape: scripted ones, and those for requests that no provider can take."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from turnout.testing.simulator.behaviours import Status
from turnout.testing.simulator.events import error_object
from turnout.testing.simulator.steps import Ending, Finish, Head, Pause, Piece, Step

_JSON = "application/json"
_CALLER = "invalid_request_error"
_SERVER = "server_error"
# status -> (type, code, message), as OpenAI words them
_DEFAULTS: Mapping[int, tuple[str, str | None, str]] = {
    400: (_CALLER, None, "The request was malformed."),
    401: (_CALLER, "invalid_api_key", "Incorrect API key provided."),
    403: (_CALLER, "unsupported_country_region_territory", "Country, region, or territory not supported."),
    404: (_CALLER, "model_not_found", "The model does not exist or you do not have access to it."),
    408: (_CALLER, None, "The request timed out."),
    409: (_CALLER, None, "The resource is in conflict."),
    413: (_CALLER, None, "The request body is too large."),
    422: (_CALLER, None, "The request could not be processed."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    500: (_SERVER, None, "The server had an error while processing your request."),
    502: (_SERVER, None, "Bad gateway."),
    503: (_SERVER, None, "The engine is currently overloaded, please try again later."),
    504: (_SERVER, None, "Gateway timeout."),
}


def json_steps(
    status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Iterator[Step]:
    """A whole JSON response."""
    return body_steps(
        status, json.dumps(body, separators=(",", ":")).encode(), {"content-type": _JSON, **(headers or {})}
    )


def body_steps(status: int, data: bytes, headers: Mapping[str, str]) -> Iterator[Step]:
    """A whole response of known length."""
    yield Head(status, {**headers, "content-length": str(len(data))})
    if data:
        yield Piece(data)
    yield Finish(Ending.ANSWERED if status < 400 else Ending.REFUSED)


def status_steps(status: Status) -> Iterator[Step]:
    """The response of a scripted `Status`."""
    if status.latency_seconds:
        yield Pause(status.latency_seconds)
    headers = dict(status.headers)
    if status.retry_after is not None:
        after = status.retry_after
        headers["retry-after"] = after if isinstance(after, str) else f"{after:g}"
    if status.retry_after_ms is not None:
        headers["retry-after-ms"] = f"{status.retry_after_ms:g}"
    if status.body is not None:
        yield from body_steps(status.code, status.body.encode(), {"content-type": "text/html", **headers})
        return
    fallback = (
        (_CALLER, None, "The request failed.") if status.code < 500 else (_SERVER, None, "The server failed.")
    )
    error_type, code, message = _DEFAULTS.get(status.code, fallback)
    error = error_object(
        status.message if status.message is not None else message,
        status.error_type if status.error_type is not None else error_type,
        status.error_code if status.error_code is not None else code,
    )
    yield from json_steps(status.code, error, headers)


def refusal(
    status: int, message: str, *, code: str | None = None, param: str | None = None, allow: str | None = None
) -> Iterator[Step]:
    """A caller's error, refused before any script is asked."""
    headers = {"allow": allow} if allow else {}
    return json_steps(status, error_object(message, _CALLER, code, param), headers)
