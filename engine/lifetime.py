"""What a process owes its engines: an orderly end at exit or where one is dropped, and a clean start in a forked
child."""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol
from weakref import ref

from loguru import logger

from turnout.errors import ReentrantCallError

#: How long all engines together may take at exit.
_EXIT_SECONDS = 10.0
#: And each of them, once Ctrl-C says that it takes too long.
_INTERRUPTED_EXIT_SECONDS = 1.0
#: Of the finalizers of ``multiprocessing`` the last: calls in flight may use what the others end.
_LAST = -1_000
#: How long a fork waits for the threads of dropped engines.
_FORK_SECONDS = 5.0


class Living(Protocol):
    """What the hooks ask of an engine."""

    def close(self, timeout: float | None) -> None: ...
    def release_files(self) -> None:
        """Raises ``ReentrantCallError`` on the thread of its own ledger."""

    def forget_parent(self) -> object: ...


#: Has threads end by themselves; see ``Runtime.dismiss``.
Dismiss = Callable[[], list[threading.Thread]]

#: Every engine, and what has its threads end: held by itself, since threads outlive an engine that is dropped. As all
#: in here it is changed by one step, and read from a copy that is one step: a garbage collection may come at any time.
_engines: "dict[ref[Any], tuple[Dismiss, ...]]" = {}
#: The threads of dropped engines, which have rows to write yet.
_leaving: set[threading.Thread] = set()
#: The process that ends with the finalizers of ``multiprocessing``, if it does.
_finalized: list[int] = []
#: What a child inherited: locks in it may be held for ever by threads that the child does not have.
_inherited: list[object] = []


def living(engine: Living, *threads: Dismiss) -> None:
    """Have the hooks look after ``engine`` for as long as it lives, and after its ``threads`` until they have ended.
    Told again in a forked child, where the threads are others."""
    _leaving.difference_update([thread for thread in _leaving.copy() if not thread.is_alive()])
    _engines[ref(engine, _dropped)] = threads
    _end_with_multiprocessing()


def _dropped(engine: "ref[Any]") -> None:
    # Inside garbage collection, perhaps: its threads are told to end, and whoever leaves or forks waits for them.
    for dismiss in _engines.get(engine, ()):
        _leaving.update(dismiss())
    _engines.pop(engine, None)


def _alive() -> list[Any]:
    engines = [(reference, reference()) for reference in _engines.copy()]
    for reference, engine in engines:
        if engine is None:
            # At this very moment.
            _dropped(reference)
    return [engine for _, engine in engines if engine is not None]


def _at_exit() -> None:
    engines = _alive()
    # The one is set where the program ends by an error that nobody caught, the other where a child does.
    interrupted = KeyboardInterrupt in (getattr(sys, "last_type", None), sys.exc_info()[0])
    seconds = _INTERRUPTED_EXIT_SECONDS if interrupted else _EXIT_SECONDS
    end = time.monotonic() + seconds
    for engine in engines:
        try:
            _in_time(engine.close, seconds / len(engines))
        except Exception as error:
            logger.warning("a router did not end cleanly at exit: {}", error)
    _in_time(_join_leaving, max(end - time.monotonic(), _INTERRUPTED_EXIT_SECONDS))
    left = sorted(thread.name for thread in _leaving.copy() if thread.is_alive())
    if left:
        logger.warning("threads of a router that was dropped did not end at exit: {}", ", ".join(left))
    # What is collected from now on may find the modules gone.
    _engines.clear()


def _end_with_multiprocessing() -> None:
    """A child of ``multiprocessing`` leaves by ``os._exit``: no exit hook runs in it, but the finalizers of that module
    do. It is not imported for this: in such a child it has been."""
    process, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
    if process is None or util is None or process.parent_process() is None or os.getpid() in _finalized:
        return
    _finalized[:] = [os.getpid()]
    util.Finalize(None, _at_childs_exit, exitpriority=_LAST)


def _at_childs_exit() -> None:
    try:
        # As in any process, threads that are not daemons have their say before the routers end. That is what such a
        # child does next, and it does nothing where it was done; there is no public name for it.
        getattr(threading, "_shutdown", _nothing)()
    finally:
        _at_exit()


def _nothing() -> None:
    """Where there is no such thing."""


def _in_time(end: Callable[[float], None], seconds: float) -> None:
    try:
        end(seconds)
    except KeyboardInterrupt:
        # A process that ends with a thread inside a database driver is aborted: once more, quickly, and without being
        # interrupted again.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end(_INTERRUPTED_EXIT_SECONDS)


def _join_leaving(seconds: float) -> None:
    end = time.monotonic() + seconds
    for thread in _leaving.copy() - {threading.current_thread()}:
        # A worker whose start was interrupted has nothing to be waited for.
        with suppress(RuntimeError):
            thread.join(max(end - time.monotonic(), 0.0))


def _before_fork() -> None:
    _join_leaving(_FORK_SECONDS)
    for engine in _alive():
        try:
            engine.release_files()
        except ReentrantCallError:
            # It is that router's ledger that forks. The others let go all the same.
            continue
        except Exception as error:
            logger.warning("a router's database could not be let go of before a fork: {}", error)


def _in_child() -> None:
    engines = [(reference, reference()) for reference in _engines.copy()]
    # An engine that is dropped here must not tell the parent's threads.
    _inherited.append((_engines.copy(), _leaving.copy()))
    _engines.clear()
    _leaving.clear()
    for reference, engine in engines:
        if engine is not None:
            _engines[reference] = ()
            _inherited.append(engine.forget_parent())


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)
