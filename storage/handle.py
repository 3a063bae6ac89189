"""A store's database connection: opened at first use, given up at will, never touched by a forked child.

Two locks. ``_turn`` is held by whoever writes or gives the connection up, ``_gate`` for the moments in which the
connection or the set of reads changes hands. A read holds neither while it runs, so it delays no write.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, Protocol, TypeVar

from turnout.errors import StorageError, StorageLockedError
from turnout.storage.forking import Listeners

PATIENCE_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 5.0


class Connection(Protocol):
    """What the connections of all drivers have in common here."""

    def interrupt(self) -> object: ...

    def close(self) -> object: ...


C = TypeVar("C", bound=Connection)


class Handle(Generic[C]):
    """The connection to the database at ``path``.

    ``opened`` makes it, ``branched`` makes the one that a read works on. With ``ends_at_fork`` the connection is
    closed before every ``os.fork()``, so that parent and child each open their own; without, it stays the parent's and
    the child is refused: a driver that finds the parent's state in its memory would take it for its own.
    """

    def __init__(
        self,
        path: str,
        opened: Callable[[], C],
        branched: Callable[[C], C],
        *,
        ends_at_fork: bool,
    ) -> None:
        self.path = path
        self._opened = opened
        self._branched = branched
        self._ends_at_fork = ends_at_fork
        self._connection: C | None = None
        self._reads: list[C] = []
        self._in_use = False
        self._leaving = False
        self._closed = False
        #: The thread that forks, while it holds the turn and the gate: two may fork at once.
        self._still: int | None = None
        self._renew_locks()
        _handles.add(self)

    def _renew_locks(self) -> None:
        self._turn = threading.Lock()
        self._gate = threading.Condition()

    @contextmanager
    def writing(self) -> Iterator[C]:
        """The connection, for one writer at a time."""
        turn = self._take_turn()
        try:
            with self._gate:
                connection = self._current()
            yield connection
        finally:
            turn.release()

    @contextmanager
    def reading(self) -> Iterator[C]:
        """A connection of the reader's own, beside writers and other readers."""
        with self._gate:
            branch = self._branched(self._current())
            self._reads.append(branch)
        try:
            yield branch
        finally:
            with self._gate:
                self._reads.remove(branch)
                branch.close()
                self._gate.notify_all()

    def release(self) -> None:
        """Close the connection, once the write and the reads under way have ended. The next use opens another."""
        turn = self._take_turn()
        try:
            with self._gate:
                self._give_up()
        finally:
            turn.release()

    def close(self) -> None:
        """Release, and refuse every later use."""
        self._closed = True
        self.release()

    def _take_turn(self) -> threading.Lock:
        turn = self._turn
        if not turn.acquire(timeout=PATIENCE_SECONDS):
            raise StorageError(
                f"{self.path} is still being written after {PATIENCE_SECONDS:g} s; try again later"
            )
        return turn

    def _current(self) -> C:
        if not self._gate.wait_for(lambda: not self._leaving, 3 * _GRACE_SECONDS):
            raise StorageError(f"{self.path} is still being released; try again later")
        if self._closed:
            raise StorageError(f"the store of {self.path} is closed; build a new one")
        if self._connection is None:
            if os.path.realpath(self.path) in _inherited:
                raise StorageLockedError(
                    f"{self.path} was open when this process was forked and belongs to the parent; call release() "
                    "before forking, use SQLiteMetricsStore for several processes, or give this one another path"
                )
            self._in_use = True
            try:
                self._connection = self._opened()
            finally:
                self._in_use = self._connection is not None or bool(self._reads)
        return self._connection

    def _give_up(self) -> None:
        if self._connection is None:
            self._in_use = False
            return
        self._leaving = True
        try:
            if not self._gate.wait_for(lambda: not self._reads, _GRACE_SECONDS):
                for read in self._reads:
                    read.interrupt()
                self._gate.wait_for(lambda: not self._reads, _GRACE_SECONDS)
            connection, self._connection = self._connection, None
            connection.close()
            self._in_use = bool(self._reads)
        finally:
            self._leaving = False
            self._gate.notify_all()

    def before_fork(self) -> None:
        """Come to rest, so that the child inherits no open connection."""
        if not self._ends_at_fork or not self._turn.acquire(timeout=_GRACE_SECONDS):
            return
        if not self._gate.acquire(timeout=_GRACE_SECONDS):
            self._turn.release()
            return
        self._still = threading.get_ident()
        self._give_up()

    def after_fork_in_parent(self) -> None:
        if self._still == threading.get_ident():
            self._still = None
            self._gate.release()
            self._turn.release()

    def after_fork_in_child(self) -> None:
        """Leave what was inherited alone for ever: neither use it, nor close it, nor let it be collected."""
        if self._in_use:
            _inherited.add(os.path.realpath(self.path))
            for connection in (self._connection, *self._reads):
                if connection is not None:
                    never_collect(connection)
        self._connection, self._reads = None, []
        self._in_use = self._leaving = False
        self._still = None
        self._renew_locks()


_handles: "Listeners[Handle[Any]]" = Listeners()
_inherited: set[str] = set()


def never_collect(connection: object) -> None:
    """Leave ``connection``, which is the parent's, alone for ever."""
    # A reference in a module would still be dropped when the interpreter ends, and the driver would then write to the
    # parent's file.
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _before() -> None:
    for handle in _handles.alive():
        handle.before_fork()


def _in_parent() -> None:
    for handle in _handles.alive():
        handle.after_fork_in_parent()


def _in_child() -> None:
    for handle in _handles.alive():
        handle.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
