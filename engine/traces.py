"""Errors as the log shows them."""

import traceback


def trace_of(error: BaseException) -> str:
    """The usual traceback. loguru's own shows the values of variables, and those are keys, requests and answers."""
    return "".join(traceback.format_exception(error)).rstrip()
