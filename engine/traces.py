"""Errors as the log shows them."""

import sys
import traceback
from contextlib import suppress
from types import FrameType, TracebackType

_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"

_RAISED_IN = "Raised in:"


def trace_of(error: BaseException) -> str:
    """The usual traceback, but for what could hold a key.

    loguru's own shows the values of variables: keys, requests, answers. And what a provider's SDK says stands in
    turnout's error already, cleared of keys: of an exception behind one of ours only the type is told.
    """
    told: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = error
    behind_ours = False
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        frames = "".join(traceback.format_tb(one.__traceback__))
        last = f"{type(one).__module__}.{type(one).__qualname__}" if behind_ours else _last_line(one)
        told.insert(0, (f"Traceback (most recent call last):\n{frames}" if frames else "") + last)
        behind_ours = behind_ours or type(one).__module__.partition(".")[0] == "turnout"
        one, link = _before(one)
        if one is not None:
            told.insert(0, f"\n{link}\n")
    return "\n".join(told).rstrip()


def _last_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).rstrip()


def _before(error: BaseException) -> tuple[BaseException | None, str]:
    """The exception that came before, and what it has to do with this one."""
    if error.__cause__ is not None:
        return error.__cause__, _CAUSE
    return None if error.__suppress_context__ else error.__context__, _CONTEXT


def let_go_of_frames(error: BaseException) -> None:
    """Have the frames of turnout's own that an error came through drop what they hold. What a walk or a stream keeps
    its errors in, those frames hold: a cycle. The lines stay, and so do the frames of the user's own."""
    trace = error.__traceback__
    while trace is not None:
        if _is_ours(trace):
            # One that is running still is let go by whoever runs it.
            with suppress(RuntimeError):
                trace.tb_frame.clear()
        trace = trace.tb_next


def note_places(error: BaseException) -> None:
    """Have an error say itself where it came through, but for turnout's own code: whoever has it may not keep its
    frames. The source is not read."""
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        if not _is_ours(trace):
            code = trace.tb_frame.f_code
            places.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    # Of a class of the user's own, where anything may be read-only.
    with suppress(Exception):
        # Once: some raise the same one again and again.
        if places and not any(str(note).startswith(_RAISED_IN) for note in getattr(error, "__notes__", ())):
            BaseException.add_note(error, "\n".join([_RAISED_IN, *places]))


def is_being_handled(error: BaseException) -> bool:
    """Whether code that is not turnout's own, and that called the code that asks this, has caught an error and goes
    on."""
    trace = error.__traceback__
    if trace is None or _is_ours(trace):
        return False
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame is not trace.tb_frame:
        frame = frame.f_back
    return frame is not None


def _is_ours(trace: TracebackType) -> bool:
    return str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "turnout"
