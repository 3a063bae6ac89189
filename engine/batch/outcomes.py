"""Output lines of a batch, in OpenAI's batch format.

    answered            response {200, request id, the answer}        error null
    an HTTP failure     response {its status, request id, its error}  error null
    any other failure   response null                                 error {code, message}
    a bad input line    response null                                 error {"invalid_line", message}

Lines are ASCII: some readers of JSON lines take U+2028 for the end of one.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from turnout.batch.lines import BadLine
from turnout.errors import (
    DeadlineExceededError,
    NoEligibleProvidersError,
    ProviderHTTPError,
    RouteError,
    RouterClosedError,
    told,
)

_PREFIX: Final = "batch_req_"


class Ending(StrEnum):
    """What became of an input line. A skipped one was answered in an earlier run."""

    ANSWERED = "answered"
    FAILED = "failed"
    INVALID = "invalid"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line for the output, newline included. ``problem`` says in one clause why there is no answer."""

    ending: Ending
    data: bytes
    problem: str = ""


def answered(custom_id: str, invocation_id: str, answer: Any) -> OutputLine:
    """The line of an answer; its id is that of the invocation in the ledger."""
    try:
        response = _response(200, getattr(answer, "_request_id", None), _plain(answer))
        return OutputLine(Ending.ANSWERED, _line(_id(invocation_id), custom_id, response, None))
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"the answer ({type(answer).__name__}) cannot be written as JSON: {type(error).__name__}"
        failure = {"code": "unreadable_answer", "message": problem}
        return OutputLine(Ending.FAILED, _line(_id(invocation_id), custom_id, None, failure), problem)


def failed(custom_id: str, invocation_id: str, error: BaseException) -> OutputLine:
    """The line of a call that no provider answered. An HTTP failure that came last is given as the response."""
    last = _last_error(error)
    if isinstance(last, ProviderHTTPError) and last.status_code is not None:
        request_id = getattr(last.original, "request_id", None)
        response = _response(last.status_code, request_id, {"error": _error_object(last)})
        line = _line(_id(invocation_id), custom_id, response, None)
        return OutputLine(Ending.FAILED, line, str(last))
    failure = {"code": _code(error), "message": told(error)}
    problem = told(last)
    return OutputLine(Ending.FAILED, _line(_id(invocation_id), custom_id, None, failure), problem)


def unsent(custom_id: str, error: BaseException) -> OutputLine:
    """The line of a call that the router never took, and so never gave an id."""
    return failed(custom_id, uuid.uuid4().hex, error)


def invalid(bad: BadLine) -> OutputLine:
    """The line of an input line that could not be run."""
    failure = {"code": "invalid_line", "message": str(bad)}
    return OutputLine(Ending.INVALID, _line(_id(uuid.uuid4().hex), bad.custom_id, None, failure), bad.problem)


def _id(identity: str) -> str:
    return _PREFIX + identity.replace("-", "")


def _response(status_code: int, request_id: str | None, body: Any) -> dict[str, Any]:
    return {"status_code": status_code, "request_id": request_id, "body": body}


def _line(
    line_id: str, custom_id: str | None, response: Mapping[str, Any] | None, error: Mapping[str, Any] | None
) -> bytes:
    line = {"id": line_id, "custom_id": custom_id, "response": response, "error": error}
    return json.dumps(line, allow_nan=False).encode() + b"\n"


def _plain(answer: Any) -> Any:
    """An SDK's answer as the JSON it came as; fields that the provider did not send stay out."""
    dump = getattr(answer, "model_dump", None)
    return answer if dump is None else dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)


def _last_error(error: BaseException) -> BaseException:
    if isinstance(error, RouteError) and error.attempts and not isinstance(error, DeadlineExceededError):
        return error.attempts[-1].error
    return error


def _error_object(error: ProviderHTTPError) -> dict[str, Any]:
    """OpenAI's error object, from what the adapter read of the provider's: without keys that it might echo."""
    param = error.body.get("param") if isinstance(error.body, Mapping) else None
    return {
        "message": error.message or str(error),
        "type": error.error_type,
        "param": param if isinstance(param, str) else None,
        "code": error.error_code,
    }


def _code(error: BaseException) -> str:
    if isinstance(error, DeadlineExceededError):
        return "deadline_exceeded"
    if isinstance(error, NoEligibleProvidersError):
        return "no_eligible_provider"
    if isinstance(error, RouterClosedError):
        return "router_closed"
    if isinstance(error, RouteError) and error.attempts:
        return error.attempts[-1].fault.value
    return "internal_error"
