"""A standard future that makes its lock only when somebody has to wait for it.

Most futures are resolved before anybody looks, or by the very thread that waits; making, taking and notifying a lock is
a third of what ``concurrent.futures.Future`` costs then.

A future comes to stand somewhere once, in one step: where it ended, if nobody had come to wait, or in front of a crowd
with a lock. Before a crowd its state changes under that lock alone, as ``wait`` and ``as_completed`` rely on.
"""

import threading
from abc import abstractmethod
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from typing import TYPE_CHECKING, Any, Final

#: The longest a cancel waits for who is resolving the future at that very moment.
_LOST_RACE_SECONDS: Final = 1.0


class _Crowd:
    """Who waits for a future, and the lock that they share."""

    __slots__ = ("callbacks", "condition", "waiters")

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.waiters: list[Any] = []
        self.callbacks: list[Any] = []


class _Standing:
    """Where a future stands. Pending, it stands before a crowd; the first of ``crowds`` is the one that counts."""

    __slots__ = ("crowds", "error", "state", "value")

    def __init__(self, state: str, value: Any, error: BaseException | None, crowds: list[_Crowd]) -> None:
        self.state = state
        self.value = value
        self.error = error
        self.crowds = crowds


class LazyFuture(Future[Any]):
    """Resolved once, by ``resolve`` or ``cancel``; ``wait``, ``as_completed`` and ``asyncio.wrap_future`` take it as
    any other future. It is never ``running``: it can be cancelled until it is resolved.
    """

    _standing: _Standing | None = None

    def __init__(self) -> None:
        """Nothing: not even what the standard future makes for itself."""

    if not TYPE_CHECKING:
        # What the functions of concurrent.futures use of a future, made when they do.

        @property
        def _state(self) -> str:
            standing = self._standing
            return PENDING if standing is None else standing.state

        @property
        def _result(self) -> Any:
            return self._standing.value

        @property
        def _exception(self) -> BaseException | None:
            return self._standing.error

        @property
        def _condition(self) -> threading.Condition:
            return self._crowd().condition

        @property
        def _waiters(self) -> list[Any]:
            return self._crowd().waiters

        @property
        def _done_callbacks(self) -> list[Any]:
            return self._crowd().callbacks

    @abstractmethod
    def _claim(self) -> bool:
        """True to exactly one of those who would resolve it."""

    def resolve(self, value: Any, error: BaseException | None) -> bool:
        """Resolve it with ``value``, or with ``error`` where there is one; False where it is resolved already."""
        if not self._claim():
            return False
        self._end(_Standing(FINISHED, value, error, []))
        return True

    def cancel(self) -> bool:
        """Resolve it with ``CancelledError``; whether it ends, or has ended, so."""
        if not self._claim():
            with self._condition:
                self._condition.wait_for(self.done, _LOST_RACE_SECONDS)
            return self.cancelled()
        self._end(_Standing(CANCELLED_AND_NOTIFIED, None, None, []))
        return True

    def cancelled(self) -> bool:
        standing = self._standing
        return standing is not None and standing.state == CANCELLED_AND_NOTIFIED

    def done(self) -> bool:
        standing = self._standing
        return standing is not None and standing.state != PENDING

    def result(self, timeout: float | None = None) -> Any:
        """The value; raises what it was resolved with, or ``TimeoutError``."""
        try:
            standing = self._standing
            if standing is None or standing.state == PENDING:
                return super().result(timeout)
            if standing.state == CANCELLED_AND_NOTIFIED:
                raise CancelledError
            if standing.error is not None:
                raise standing.error
            return standing.value
        finally:
            # An error keeps this frame, and this future keeps the error: that would be a cycle.
            standing = None
            del self

    def _crowd(self) -> _Crowd:
        standing = self._standing
        if standing is None:
            # One step: of all who come first, waiting or resolving, one decides where the future stands.
            made = _Standing(PENDING, None, None, [_Crowd()])
            standing = self.__dict__.setdefault("_standing", made)
        if not standing.crowds:
            standing.crowds.append(_Crowd())
        return standing.crowds[0]

    def _end(self, ended: _Standing) -> None:
        standing = self.__dict__.setdefault("_standing", ended)
        if standing is ended:
            return
        crowd = standing.crowds[0]
        with crowd.condition:
            standing.value, standing.error = ended.value, ended.error
            # Last: who reads it without the lock must find what it promises.
            standing.state = ended.state
            for waiter in crowd.waiters:
                if ended.state == CANCELLED_AND_NOTIFIED:
                    waiter.add_cancelled(self)
                elif ended.error is None:
                    waiter.add_result(self)
                else:
                    waiter.add_exception(self)
            crowd.condition.notify_all()
        # After this state no callback is added any more: it is called at once.
        self._invoke_callbacks()  # type: ignore[attr-defined]  # typeshed leaves it out
