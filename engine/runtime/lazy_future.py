"""A standard future that makes its lock only when somebody has to wait for it.

Most futures are resolved before anybody looks, or by the very thread that waits; making, taking and notifying a lock is
a third of what ``concurrent.futures.Future`` costs then.

A future comes to stand somewhere once, in one step: where it ended, if nobody had come to wait, or in front of a crowd
with a lock. Before a crowd its state changes under that lock alone, as ``wait`` and ``as_completed`` rely on. How it
ends is decided before: by the first end that stands there.

Ctrl-C may come between any two steps of an end. Each step may be made again, so whoever is interrupted goes through
them once more, and whoever comes next with an end, too late for his own, goes on with what the first one left.
"""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from loguru import logger

from turnout.runtime.undisturbed import undisturbed
from turnout.traces import trace_of

#: How a future ended: state, value, error. A bare tuple, since every call makes one.
_Ended = tuple[str, Any, BaseException | None]


class _Condition(threading.Condition):
    """Entered and left by its lock's own functions, in one step each. Those of the standard one are written in Python:
    an interrupt between their steps leaves the lock taken for good. A wait that is interrupted has it again."""

    if not TYPE_CHECKING:
        __enter__ = property(lambda self: self._lock.__enter__)
        __exit__ = property(lambda self: self._lock.__exit__)

        def wait(self, timeout: float | None = None) -> bool:
            try:
                return super().wait(timeout)
            except BaseException:
                if not self._is_owned():
                    self.acquire()
                raise


class _Crowd:
    """Who waits for a future, the lock that they share, how it stands with it, and how many of them were told."""

    __slots__ = (
        "begun",
        "callbacks",
        "callers",
        "condition",
        "due",
        "ended",
        "is_calling",
        "telling",
        "told",
        "waiters",
    )

    def __init__(self, ended: _Ended) -> None:
        self.condition = _Condition()
        self.waiters: list[Any] = []
        #: Held while waiters are told, by who is not interrupted; how many have been.
        self.telling = threading.Lock()
        self.told = 0
        #: Those of them who came before it ended: who comes later sees for himself.
        self.due: list[Any] = []
        self.callbacks: list[Any] = []
        self.begun = 0
        #: The first is the thread that calls back: one, so that each is called once and in order.
        self.callers: list[int] = []
        self.is_calling = False
        #: Changed under the condition alone, once.
        self.ended = ended


_PENDING: Final[_Ended] = (PENDING, None, None)
CANCELLED: Final[_Ended] = (CANCELLED_AND_NOTIFIED, None, None)


class LazyFuture(Future[Any]):
    """Resolved once, by ``resolve`` or ``cancel``; ``wait``, ``as_completed`` and ``asyncio.wrap_future`` take it as
    any other future. It is never ``running``: it can be cancelled until it is resolved.
    """

    def __init__(self) -> None:
        """Not what the standard future makes for itself."""
        #: The first decides. Appending is one step: of all who come first, waiting or resolving, one is the first.
        self._standing: list[_Ended | _Crowd] = []

    if not TYPE_CHECKING:
        # What the functions of concurrent.futures use of a future, made when they do.

        @property
        def _state(self) -> str:
            return self._ended[0]

        @property
        def _result(self) -> Any:
            return self._ended[1]

        @property
        def _exception(self) -> BaseException | None:
            return self._ended[2]

        @property
        def _condition(self) -> threading.Condition:
            return self._crowd.condition

        @property
        def _waiters(self) -> list[Any]:
            return self._crowd.waiters

        @property
        def _done_callbacks(self) -> list[Any]:
            return self._crowd.callbacks

    def _before_waiting(self, timeout: float | None) -> None:
        """Called where ``result`` or ``exception`` finds it unresolved; may raise, or resolve it."""

    def resolve(self, value: Any, error: BaseException | None) -> bool:
        """Resolve it with ``value``, or with ``error`` where there is one; False where it is resolved already."""
        return self._end((FINISHED, value, error))

    def cancel(self) -> bool:
        """Resolve it with ``CancelledError``; whether it ends, or has ended, so."""
        try:
            return self._end(CANCELLED)
        except BaseException:
            # Interrupted between two steps.
            self._end(CANCELLED)
            raise

    @property
    def is_decided(self) -> bool:
        """Whether it is known how it ends; who waits is told at this moment, or was."""
        return bool(self._ends)

    def watch(self, told: Callable[[Self], object]) -> None:
        """Have ``told`` called with it when it ends, unless it has ended by now: look after this. Takes no lock."""
        self._crowd.callbacks.append(told)

    def cancelled(self) -> bool:
        return self._ended is CANCELLED

    def done(self) -> bool:
        return self._ended is not _PENDING

    def result(self, timeout: float | None = None) -> Any:
        """The value; raises what it was resolved with, or ``TimeoutError``."""
        try:
            standing = self._standing
            ended = self._ended if standing else _PENDING
            if ended is _PENDING:
                self._before_waiting(timeout)
                # Most often it stands alone by now; a look saves a call.
                ended = standing[0] if standing and isinstance(standing[0], tuple) else self._ended
            state, value, error = ended
            if state == PENDING:
                return super().result(timeout)
            if error is not None:
                raise error
            if state == CANCELLED_AND_NOTIFIED:
                raise CancelledError
            return value
        finally:
            # An error keeps this frame, and this future keeps the error: that would be a cycle.
            ended = error = standing = None  # type: ignore[assignment]
            del self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What it was resolved with instead of a value, or None; raises ``CancelledError`` or ``TimeoutError``."""
        try:
            if not self.done():
                self._before_waiting(timeout)
            return super().exception(timeout)
        finally:
            # As in result().
            del self

    @property
    def _ends(self) -> list[_Ended]:
        """Those that came; the first counts."""
        return [one for one in self._standing if not isinstance(one, _Crowd)]

    @property
    def _ended(self) -> _Ended:
        """How it ended, or that it has not."""
        if not self._standing:
            return _PENDING
        first = self._standing[0]
        return first.ended if isinstance(first, _Crowd) else first

    @property
    def _crowd(self) -> _Crowd:
        """Who waits. One that has ended without a crowd has one behind its end, for those who ask for its lock."""
        standing = self._standing
        if not standing:
            standing.append(_Crowd(_PENDING))
        for one in standing:
            if isinstance(one, _Crowd):
                return one
        standing.append(_Crowd(self._ended))
        return next(one for one in standing if isinstance(one, _Crowd))

    def _end(self, ended: _Ended) -> bool:
        """Stand there, and tell who waits; whether it ended so. Of several ends the first counts."""
        standing = self._standing
        if not standing:
            standing.append(ended)
        return standing[0] is ended or self._end_before_others(ended)

    def _end_before_others(self, ended: _Ended) -> bool:
        """Somebody waits, or it has ended otherwise."""
        standing = self._standing
        crowd = standing[0]
        if not isinstance(crowd, _Crowd):
            return False
        ends = self._ends
        if not ends:
            standing.append(ended)
            ends = self._ends
        decided = ends[0]
        self._tell(crowd, decided)
        if crowd.callbacks:
            self._call_back(crowd)
        return decided is ended

    def _tell(self, crowd: _Crowd, ended: _Ended) -> None:
        """Change its state before a crowd, and tell those of it who have not been told."""
        with crowd.condition:
            if crowd.ended is _PENDING:
                crowd.due = crowd.waiters.copy()
                crowd.ended = ended
            if crowd.told < len(crowd.due):
                try:
                    undisturbed(partial(self._tell_waiters, crowd, ended))
                except RuntimeError:
                    # The system gives no thread for that.
                    self._tell_waiters(crowd, ended)
            crowd.condition.notify_all()

    def _tell_waiters(self, crowd: _Crowd, ended: _Ended) -> None:
        """What ``wait`` and ``as_completed`` wait with has a lock, a count and an event of its own."""
        state, _, error = ended
        with crowd.telling:
            while crowd.told < len(crowd.due):
                waiter = crowd.due[crowd.told]
                if state == CANCELLED_AND_NOTIFIED:
                    waiter.add_cancelled(self)
                elif error is None:
                    waiter.add_result(self)
                else:
                    waiter.add_exception(self)
                crowd.told += 1

    def _call_back(self, crowd: _Crowd) -> None:
        """Make the calls that were not begun. After the change of state none is added any more but by ``watch``."""
        here = threading.get_ident()
        crowd.callers.append(here)
        if crowd.callers[0] != here or crowd.is_calling:
            return
        try:
            crowd.is_calling = True
            self._make_calls(crowd)
        finally:
            crowd.is_calling = False

    def _make_calls(self, crowd: _Crowd) -> None:
        """An interrupt ends the call that it comes to; it is raised once the others are made. (A function of its own:
        Python looks for signals where a loop jumps back, and 3.13 leaves that jump out of a ``try`` around the loop.)
        """
        interrupts: list[KeyboardInterrupt] = []
        while crowd.begun < len(crowd.callbacks):
            callback = crowd.callbacks[crowd.begun]
            try:
                # No signal is looked for between these two.
                crowd.begun += 1
                callback(self)
            except KeyboardInterrupt as interrupt:
                interrupts[:] = [interrupt]
            except BaseException as error:
                # Also SystemExit: whoever resolves it is not the callback's to end.
                logger.error("a callback of a future raised:\n{}", trace_of(error))
        if interrupts:
            # Kept by nobody: it keeps this frame.
            raise interrupts.pop()
