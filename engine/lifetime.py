"""What a process owes its engines: an orderly end at exit, and a clean start in a forked child."""

import atexit
import os
import signal
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


def end_first_at_exit() -> None:
    """Have the engines end before what was imported up to now does: a database driver may refuse to work once its own
    exit hook has run, and hooks run in the reverse order of their registration."""
    # Once the hooks run, a new one comes too late, and taking the old one away would leave none.
    if threading.main_thread().is_alive():
        atexit.unregister(_at_exit)
        atexit.register(_at_exit)


def _at_exit() -> None:
    engines = list(_engines)
    for engine in engines:
        try:
            try:
                engine.close(_EXIT_SECONDS / len(engines))
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
