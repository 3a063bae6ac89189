"""A standard future that makes its lock only when somebody has to wait for it.

Most futures are resolved before anybody looks, or by the very thread that waits; making, taking and notifying a lock is
a third of what ``concurrent.futures.Future`` costs then.

A future comes to stand somewhere once, in one step: where it ended, if nobody had come to wait, or in front of a crowd
with a lock. Before a crowd its state changes under that lock alone, as ``wait`` and ``as_completed`` rely on.
"""

import threading
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from typing import TYPE_CHECKING, Any, Final, Self

from loguru import logger

from turnout.traces import trace_of

#: The longest a cancel waits for who is resolving the future at that very moment.
_LOST_RACE_SECONDS: Final = 1.0


#: How a future ended: state, value, error. A bare tuple, since every call makes one.
_Ended = tuple[str, Any, BaseException | None]


class _Crowd:
    """Who waits for a future, the lock that they share, and how it stands with it."""

    __slots__ = ("callbacks", "condition", "ended", "waiters")

    def __init__(self, ended: _Ended) -> None:
        self.condition = threading.Condition()
        self.waiters: list[Any] = []
        self.callbacks: list[Any] = []
        #: Changed under the condition alone, once.
        self.ended = ended


_PENDING: Final[_Ended] = (PENDING, None, None)
_CANCELLED: Final[_Ended] = (CANCELLED_AND_NOTIFIED, None, None)


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

    @abstractmethod
    def _claim(self) -> bool:
        """True to exactly one of those who would resolve it."""

    def _before_waiting(self, timeout: float | None) -> None:
        """Called where ``result`` or ``exception`` finds it unresolved; may raise, or resolve it."""

    def resolve(self, value: Any, error: BaseException | None) -> bool:
        """Resolve it with ``value``, or with ``error`` where there is one; False where it is resolved already."""
        if not self._claim():
            return False
        self._end((FINISHED, value, error))
        return True

    def cancel(self) -> bool:
        """Resolve it with ``CancelledError``; whether it ends, or has ended, so."""
        if not self._claim():
            with self._condition:
                self._condition.wait_for(self.done, _LOST_RACE_SECONDS)
            return self.cancelled()
        self._end(_CANCELLED)
        return True

    def cancelled(self) -> bool:
        return self._ended is _CANCELLED

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

    def _end(self, ended: _Ended) -> None:
        """Stand there, and tell who waits. Of several ends the first counts."""
        standing = self._standing
        standing.append(ended)
        first = standing[0]
        if first is ended or not isinstance(first, _Crowd):
            return
        state, _, error = ended
        with first.condition:
            if first.ended is not _PENDING:
                return
            first.ended = ended
            for waiter in first.waiters:
                if state == CANCELLED_AND_NOTIFIED:
                    waiter.add_cancelled(self)
                elif error is None:
                    waiter.add_result(self)
                else:
                    waiter.add_exception(self)
            first.condition.notify_all()
        # After this state no callback is added any more: it is called at once.
        for callback in first.callbacks:
            self._call_back(callback)

    def _call_back(self, callback: Callable[[Self], object]) -> None:
        try:
            callback(self)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # Also SystemExit: whoever resolves it is not the callback's to end.
            logger.error("a callback of a future raised:\n{}", trace_of(error))
