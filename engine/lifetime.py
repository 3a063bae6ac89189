"""What a process owes its engines: an orderly end at exit, and a clean start in a forked child."""

import atexit
import os
import signal
import sys
import threading
import weakref
from typing import Any, Protocol

from loguru import logger

#: How long all engines together may take at exit.
_EXIT_SECONDS = 10.0
#: And each of them, once Ctrl-C says that it takes too long.
_INTERRUPTED_EXIT_SECONDS = 1.0


class Living(Protocol):
    """What the hooks ask of an engine."""

    def close(self, timeout: float | None) -> None: ...
    def release_files(self) -> None: ...
    def forget_parent(self) -> object: ...


_engines: "weakref.WeakSet[Any]" = weakref.WeakSet()
#: What a child inherited: locks in it may be held for ever by threads that the child does not have.
_inherited: list[object] = []


def living(engine: Living) -> None:
    """Have the hooks look after ``engine`` for as long as it lives."""
    _engines.add(engine)


def _at_exit() -> None:
    engines = list(_engines)
    # Set where the program ends by an error that nobody caught.
    interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
    seconds = _INTERRUPTED_EXIT_SECONDS if interrupted else _EXIT_SECONDS
    for engine in engines:
        try:
            try:
                engine.close(seconds / len(engines))
            except KeyboardInterrupt:
                # A process that ends with a thread inside a database driver is aborted: once more, quickly, and
                # without being interrupted again.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                engine.close(_INTERRUPTED_EXIT_SECONDS)
        except Exception as error:
            logger.warning("a router did not end cleanly at exit: {}", error)


def _before_fork() -> None:
    # A fork made by one of our own threads must not ask that thread's own actor.
    if threading.current_thread().name.startswith("turnout-"):
        return
    for engine in list(_engines):
        engine.release_files()


def _in_child() -> None:
    _inherited.extend([engine.forget_parent() for engine in list(_engines)])


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)
