"""Telling apart what comes out of the SDK, and of the HTTP library under it."""

from typing import Final

from pydantic import ValidationError

from turnout.adapters.openai_words import NEXT_STEP
from turnout.faults import Fault

#: Whole answers that the SDK does not parse into the caller's types, by the exception in which it says so.
_UNPARSED: Final = {
    "LengthFinishReasonError": (
        Fault.BAD_REQUEST,
        "ended its answer at the limit of its tokens, too soon to be parsed; raise max_completion_tokens or max_tokens",
    ),
    "ContentFilterFinishReasonError": (
        Fault.CONTENT_FILTER,
        f"ended its answer at its content filter; {NEXT_STEP[Fault.CONTENT_FILTER]}",
    ),
}
_UNFIT: Final = (
    Fault.BAD_REQUEST,
    "gave an answer that does not fit the caller's types; correct its response_format or tools, or what it asks for",
)
#: Where the SDK makes the caller's types of an answer. Its neighbours decode what the provider sent.
_PARSING: Final = ("openai.lib._parsing._completions", "openai.lib._parsing._responses")


def of_parsing(error: Exception) -> tuple[Fault, str] | None:
    """The fault of an answer that came whole and is not what the caller's own types, or limits, make of one, and what
    to say of it: no failure of its provider. None where the exception is about something else."""
    unfit = isinstance(error, ValidationError) or (isinstance(error, ValueError) and _came_of_parsing(error))
    return _UNFIT if unfit else _UNPARSED.get(type(error).__name__)


def _came_of_parsing(error: BaseException) -> bool:
    """Whether the SDK raised it where it makes the caller's types of an answer."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") in _PARSING:
            return True
        trace = trace.tb_next
    return False


def is_of_http(error: BaseException, name: str) -> bool:
    """Whether an exception is the HTTP library's ``name``, in either of its generations."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] in ("httpx", "httpx2")
        for kind in type(error).__mro__
    )


def refuses_arguments(error: Exception) -> bool:
    """Whether an exception that came before anything was sent is about the caller's arguments."""
    return isinstance(error, TypeError | ValueError | RecursionError)


def is_of_a_header(error: BaseException | None) -> bool:
    """Whether an exception says that a header is none: it is not ASCII, not allowed, or belies the body's length."""
    if isinstance(error, UnicodeEncodeError):
        return error.encoding == "ascii"
    # Of the HTTP library, or of h11 below it: the body's length is found out there, and passed on as it is.
    return type(error).__name__ == "LocalProtocolError"


def plain(error: BaseException) -> str:
    """An exception as one clause; foreign texts are kept only from kinds known to hold no request."""
    spoken = isinstance(error, OSError | ImportError) or is_of_http(error, "RequestError")
    text = str(error) if spoken else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
