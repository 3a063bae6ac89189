"""Where turnout's own log goes while a command runs: not through the middle of a live display."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Message


@contextmanager
def log_to(show: Callable[[str, str], None], level: str = "WARNING") -> Iterator[None]:
    """Give each log message (its level and its text) to ``show``, in place of all other sinks.

    For commands only: the process is theirs, and so is its log. Afterwards the log goes to stderr again.
    """

    def sink(message: "Message") -> None:
        show(message.record["level"].name, message.record["message"])

    logger.remove()
    ours = logger.add(sink, level=level)
    try:
        yield
    finally:
        logger.remove(ours)
        logger.add(_to_stderr)


def _to_stderr(message: str) -> None:
    # By its name: what stands there now may be closed by the time something is logged.
    sys.stderr.write(message)
