"""What OpenAI-shaped providers say when they refuse: reading it, and saying it again."""

import email.utils
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC
from http import HTTPStatus
from typing import Any, Final

from turnout.faults import Fault
from turnout.traces import is_being_handled

#: Longest message of a provider that goes into an error's text; ``message`` keeps it whole.
_TEXT_LENGTH: Final = 500

#: What whoever is told of a fault can do about it.
NEXT_STEP: Final = {
    Fault.AUTH: "check its api_key or api_key_env",
    Fault.QUOTA: "raise its quota or credit",
    Fault.CONTEXT_LENGTH: "shorten the request, or add a provider with a larger context_window",
    Fault.CONTENT_FILTER: "change what the request says; other providers are not asked to answer it",
    Fault.BAD_REQUEST: "correct the call's arguments",
}

#: What an answer is in.
_ANSWERS: Final = ("choices", "output")


def text_of(value: object) -> str | None:
    """A code or type as text; servers send numbers, too."""
    return (
        str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None
    )


def field(body: object, name: str) -> Any:
    """A field of a parsed body or a typed object; None where there is none."""
    return body.get(name) if isinstance(body, dict) else getattr(body, name, None)


def rewritten(error: BaseException | None, clean: Callable[[str], str]) -> None:
    """Have an exception, and those that it came of, say what ``clean`` makes of their texts: a traceback prints them
    all. What the caller has caught, and goes on from, is left as it is."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen and not is_being_handled(error):
        seen.add(id(error))
        # Of a class of the user's own, where anything may be read-only.
        with suppress(Exception):
            args = tuple(clean(part) if isinstance(part, str) else part for part in error.args)
            if args != error.args:
                error.args = args
            message = getattr(error, "message", None)
            if isinstance(message, str) and clean(message) != message:
                error.message = clean(message)  # type: ignore[attr-defined]
        error = error.__cause__ or error.__context__


def error_in(body: object) -> object:
    """The error that a parsed body, typed or not, declares instead of an answer; None where it has no such shape."""
    if error := field(body, "error"):
        return error
    if field(body, "object") == "error":
        return body
    if any(isinstance(field(body, name), list) for name in _ANSWERS):
        # Where there is an answer, if an empty one, such words are remarks: chunks that keep a stream alive have them.
        return None
    if field(body, "detail") or field(body, "error_code"):
        return body
    # Some number their successes, too.
    numbered = text_of(field(body, "code")) not in (None, "0", "200")
    return body if numbered and (field(body, "message") or field(body, "msg")) else None


def message_of(body: object) -> str:
    """The provider's own message in a parsed error body; empty where it wrote none for people."""
    if isinstance(body, str):
        text = body.strip()
        return "" if text.startswith("<") else text
    inner: object = body
    # No recursion: it may be nested deeper than our stack is.
    while inner is not None:
        body, inner = inner, None
        for name in ("message", "error", "detail", "msg", "text"):
            found = field(body, name)
            if isinstance(found, str) and found:
                return found
            inner = found[0] if isinstance(found, list) and found else found
            if isinstance(inner, Mapping):
                break
            inner = None
    return ""


#: ``float`` takes far more: signs, exponents, underscores, words.
_NUMBER: Final = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)


def retry_after_seconds(headers: Any, now: float) -> float | None:
    """How long the provider asked to be left alone: milliseconds, seconds or an HTTP date; None where it did not, or
    what it wrote is no such time. ``now``, when its answer came, is UTC seconds."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000.0
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None or not said:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(said)
        # An HTTP date is UTC, also where it does not say so.
        when = (date.replace(tzinfo=UTC) if date.tzinfo is None else date).timestamp()
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return max(when - now, 0.0)


def should_retry(headers: Any) -> bool | None:
    """What the provider says of sending it the same request again; None where it says nothing."""
    return {"true": True, "false": False}.get((headers.get("x-should-retry") or "").strip().lower())


def _number(text: str | None) -> float | None:
    if text is None or not _NUMBER.fullmatch(text.strip()):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def said(message: str, step: str | None = None) -> str:
    """A provider's own message as the end of a sentence, cut where it is long, and what to do next."""
    flat = re.sub(r"\s+", " ", message).strip()
    if len(flat) > _TEXT_LENGTH:
        flat = flat[:_TEXT_LENGTH] + "…"
    told = f": {flat}" if flat else ""
    return f"{told.removesuffix('.')}; {step}" if step else told


def phrase(status: int) -> str:
    """A status by its number, and by its name where it has one."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
