"""What OpenAI-shaped providers say when they refuse: reading it, and naming the Fault it means."""

import email.utils
import math
from collections.abc import Mapping
from typing import Any

from turnout.faults import Fault

_QUOTA = ("insufficient_quota", "quota_exceeded", "exceeded_quota", "billing", "credit", "payment_required")
_TIMEOUT = ("timeout", "timed_out")
_SERVER = ("server_error", "internal_error", "overloaded", "unavailable", "api_error", "bad_gateway")
_AUTH = ("authentication", "invalid_api_key", "permission")
#: Codes of a Responses call's failed input that do not start with ``invalid_``.
_INPUT = frozenset(
    {
        "image_too_large",
        "image_too_small",
        "image_parse_error",
        "image_content_policy_violation",
        "image_file_too_large",
        "unsupported_image_media_type",
        "empty_image_file",
        "failed_to_download_image",
        "image_file_not_found",
    }
)


def text_of(value: object) -> str | None:
    """A code or type as text; servers send numbers, too."""
    return (
        str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None
    )


def field(body: object, name: str) -> Any:
    """A field of a parsed body or a typed object; None where there is none."""
    return body.get(name) if isinstance(body, dict) else getattr(body, name, None)


def message_of(body: object) -> str:
    """The provider's own message in a parsed error body; empty where it wrote none for people."""
    if isinstance(body, str):
        text = body.strip()
        return "" if text.startswith("<") else text
    for name in ("message", "error", "detail", "msg"):
        found = field(body, name)
        if isinstance(found, str) and found:
            return found
        if isinstance(found, Mapping):
            return message_of(found)
        if isinstance(found, list) and found and isinstance(found[0], Mapping):
            return message_of(found[0])
    return ""


def fault_of_status(status: int, code: str | None, error_type: str | None, message: str = "") -> Fault:
    """The Fault of an HTTP status, with the words beside it where they tell kinds apart."""
    if status == 402:
        return Fault.QUOTA
    if status == 429:
        return Fault.QUOTA if _says(_QUOTA, code, error_type) else Fault.RATE_LIMIT
    if status in (401, 403):
        spent = status == 403 and (_says(_QUOTA, code, error_type) or _says(("insufficient quota",), message))
        return Fault.QUOTA if spent else Fault.AUTH
    if status == 408:
        return Fault.TIMEOUT
    if status >= 500:
        return Fault.SERVER_ERROR
    if status in (400, 413, 422):
        return Fault.BAD_REQUEST
    return Fault.UNKNOWN


def fault_of_code(code: str | None, error_type: str | None = None) -> Fault:
    """The Fault of an error that came without a status of its own: in a stream, or as a typed failure."""
    for word in (code, error_type):
        if word is None:
            continue
        if word.isdigit() and 400 <= int(word) <= 599:
            return fault_of_status(int(word), None, error_type)
        fault = _fault_of_word(word.lower())
        if fault is not Fault.UNKNOWN:
            return fault
    return Fault.UNKNOWN


def _fault_of_word(word: str) -> Fault:
    if _says(_QUOTA, word):
        return Fault.QUOTA
    if "rate_limit" in word or word == "too_many_requests":
        return Fault.RATE_LIMIT
    if _says(_TIMEOUT, word):
        return Fault.TIMEOUT
    if _says(_AUTH, word):
        return Fault.AUTH
    if _says(_SERVER, word):
        return Fault.SERVER_ERROR
    if word.startswith("invalid_") or word in _INPUT:
        return Fault.BAD_REQUEST
    return Fault.UNKNOWN


def _says(words: tuple[str, ...], *texts: str | None) -> bool:
    return any(word in text.lower() for text in texts if text for word in words)


def retry_after_seconds(headers: Any, now: float) -> float | None:
    """How long the provider asked to be left alone: milliseconds, seconds or an HTTP date. ``now`` is UTC seconds."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000.0
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None or not said:
        return seconds
    try:
        when = email.utils.parsedate_to_datetime(said).timestamp()
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return max(when - now, 0.0)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0.0 else None
