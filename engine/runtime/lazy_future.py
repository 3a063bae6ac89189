"""A standard future that makes its lock only when somebody has to wait for it.

Most futures are resolved before anybody looks, or by the very thread that waits; making, taking and notifying a lock is
a third of what ``concurrent.futures.Future`` costs then.

Who resolves publishes the state first and looks for a lock after; who waits makes the lock first and looks at the state
after. Whatever the order of these four steps, one of the two sees the other.
"""

import threading
from abc import abstractmethod
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from typing import TYPE_CHECKING, Any, Final

#: The longest a cancel waits for who is resolving the future at that very moment.
_LOST_RACE_SECONDS: Final = 1.0


class _Bystanders:
    """Who waits for a future, and the lock that they share."""

    __slots__ = ("callbacks", "condition", "waiters")

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.waiters: list[Any] = []
        self.callbacks: list[Any] = []


class LazyFuture(Future[Any]):
    """Resolved once, by ``resolve`` or ``cancel``; ``wait``, ``as_completed`` and ``asyncio.wrap_future`` take it as
    any other future. It is never ``running``: it can be cancelled until it is resolved.
    """

    _state = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    _bystanders: _Bystanders | None = None

    def __init__(self) -> None:
        """Nothing: not even what the standard future makes for itself."""

    if not TYPE_CHECKING:
        # What the functions of concurrent.futures use of a future, made when they do.

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
        self._result, self._exception = value, error
        self._state = FINISHED
        if self._bystanders is not None:
            self._tell(self._bystanders)
        return True

    def cancel(self) -> bool:
        """Resolve it with ``CancelledError``; whether it ends, or has ended, so."""
        if not self._claim():
            with self._condition:
                self._condition.wait_for(self.done, _LOST_RACE_SECONDS)
            return self.cancelled()
        self._state = CANCELLED_AND_NOTIFIED
        if self._bystanders is not None:
            self._tell(self._bystanders)
        return True

    def cancelled(self) -> bool:
        return self._state == CANCELLED_AND_NOTIFIED

    def done(self) -> bool:
        return self._state != PENDING

    def result(self, timeout: float | None = None) -> Any:
        """The value; raises what it was resolved with, or ``TimeoutError``."""
        state = self._state
        if state == FINISHED and self._exception is None:
            return self._result
        if state == PENDING:
            return super().result(timeout)
        if state == CANCELLED_AND_NOTIFIED:
            raise CancelledError
        assert self._exception is not None
        try:
            raise self._exception
        finally:
            # The error keeps this frame, and this future keeps the error: that would be a cycle.
            del self

    def _crowd(self) -> _Bystanders:
        if self._bystanders is None:
            # One step: of several threads that come first, all get the same lock.
            self.__dict__.setdefault("_bystanders", _Bystanders())
        assert self._bystanders is not None
        return self._bystanders

    def _tell(self, bystanders: _Bystanders) -> None:
        with bystanders.condition:
            for waiter in bystanders.waiters:
                if self._state == CANCELLED_AND_NOTIFIED:
                    waiter.add_cancelled(self)
                elif self._exception is None:
                    waiter.add_result(self)
                else:
                    waiter.add_exception(self)
            bystanders.condition.notify_all()
        # After this state no callback is added any more: it is called at once.
        self._invoke_callbacks()  # type: ignore[attr-defined]  # typeshed leaves it out
