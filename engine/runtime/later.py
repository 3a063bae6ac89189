"""A reply that is not there yet."""

from collections.abc import Callable
from typing import Any

#: Is told a value, or an error.
Reply = Callable[[Any, BaseException | None], object]


class Later:
    """What a behaviour returns instead of a reply: whoever asked waits for ``give``. Used by its thread alone."""

    __slots__ = ("_given", "_reply")

    def __init__(self) -> None:
        self._reply: Reply | None = None
        self._given: tuple[Any, BaseException | None] | None = None

    def give(self, value: Any = None, error: BaseException | None = None) -> None:
        """The reply; the first counts."""
        if self._given is None:
            self._given = value, error
            self._pass_on()

    def go_to(self, reply: Reply) -> None:
        self._reply = reply
        self._pass_on()

    def _pass_on(self) -> None:
        if self._reply is not None and self._given is not None:
            reply, self._reply = self._reply, None
            reply(*self._given)
