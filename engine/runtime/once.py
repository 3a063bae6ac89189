"""Something that happens once, whoever comes first."""

from turnout.runtime.tokens import Tokens


class Once:
    """Called from any number of threads, True exactly once. One token, never given back."""

    __slots__ = ("_chance",)

    def __init__(self) -> None:
        self._chance = Tokens(1)

    def __call__(self) -> bool:
        return self._chance.take()

    @property
    def spent(self) -> bool:
        return not self._chance
