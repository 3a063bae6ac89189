"""What a policy may have besides, to be handed parts of the engine. Each is called before ``ranking``, and in a forked
child again."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from turnout.clock import Clock

#: How many attempts are in flight at a provider, by its id: streams until their end. Cheap, and read by any thread.
Load = Callable[[str], int]


@runtime_checkable
class ReadsLoad(Protocol):
    """A policy whose rankings look at what is in flight."""

    def bind_load(self, load: Load) -> None: ...


@runtime_checkable
class ReadsClock(Protocol):
    """A policy that goes by the router's clock, unless it was given one of its own."""

    def bind_clock(self, clock: Clock) -> None: ...
