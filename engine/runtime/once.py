"""Something that happens once, whoever comes first."""

from queue import Empty, SimpleQueue


class Once:
    """Called from any number of threads, True exactly once. One token in a queue: no lock, no look before the leap."""

    __slots__ = ("_chance",)

    def __init__(self) -> None:
        self._chance: SimpleQueue[None] = SimpleQueue()
        self._chance.put(None)

    def __call__(self) -> bool:
        try:
            self._chance.get_nowait()
        except Empty:
            return False
        return True

    @property
    def spent(self) -> bool:
        return self._chance.empty()
