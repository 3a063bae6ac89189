"""Who must hear of a fork: it concerns the whole process, so they are known to the whole process."""

from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class Listeners(Generic[T]):
    """Those added that are still alive. As all in here, adding and looking are one step each: another thread may add
    one while a fork is under way, and a garbage collection may come at any time."""

    def __init__(self) -> None:
        self._known: dict[ref[T], None] = {}

    def add(self, listener: T) -> None:
        self._known[ref(listener, self._forget)] = None

    def alive(self) -> list[T]:
        found = (known() for known in self._known.copy())
        return [listener for listener in found if listener is not None]

    def _forget(self, known: "ref[T]") -> None:
        self._known.pop(known, None)
