"""The calls that wait until a provider may be tried again."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from turnout.clock import Clock
from turnout.deadline import Limit
from turnout.errors import RouterBusyError
from turnout.runtime.contract import Alarms

#: The reason of a cut because of which nobody is given up: who waited looks again.
_NEWS: Final = "news of a provider"


class Turn(NamedTuple):
    """At whom the call waited, and whether it was ``called`` from the line. It hands the turn on where it does not use
    it: nobody else may be on the way to a permit that is free."""

    provider_ids: tuple[str, ...]
    called: bool


class Waiting:
    """Their waits, in a line at each provider, which the owner of the circuits ends early where it has news for them.

    Who waits enters before it looks a last time, the owner publishes before it ends a wait: neither misses the other.
    Where few may go, as many are called, the first in line first; who was called and does not go calls the next. Any
    thread may enter, leave and call: each step is one operation on a dict. Bounded by the invocations in flight.
    """

    def __init__(self, provider_ids: Iterable[str], alarms: Alarms, clock: Clock) -> None:
        self._alarms = alarms
        self._clock = clock
        self._alarms_ring = True
        self._lines: dict[str, OrderedDict[Limit, None]] = {one: OrderedDict() for one in provider_ids}
        self._waits: dict[Limit, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def enter(self, limit: Limit, provider_ids: tuple[str, ...], *, first: bool = False) -> None:
        """Stand in line at these providers; ``first`` where it was called, and another was faster."""
        self._waits[limit] = provider_ids
        for provider_id in provider_ids:
            line = self._lines[provider_id]
            line[limit] = None
            if first:
                # Unless it was called meanwhile.
                with suppress(KeyError):
                    line.move_to_end(limit, last=False)

    def leave(self, limit: Limit) -> bool:
        """Stand in no line any more; whether it was called."""
        called = False
        for provider_id in self._waits.pop(limit, ()):
            try:
                del self._lines[provider_id][limit]
            except KeyError:
                called = True
        return called

    def call(self, provider_id: str, number: int) -> None:
        """End the waits of so many as are first in line at a provider."""
        if self._lines[provider_id]:
            self._soon(partial(self._call, provider_id, number))

    def end(self, provider_ids: tuple[str, ...]) -> None:
        """End the waits of all who stand in line at these providers."""
        if any(self._lines[provider_id] for provider_id in provider_ids):
            self._soon(partial(self._cut, provider_ids))

    def end_without_alarms(self) -> None:
        """The timer has ended, with what it was still to ring. Only threads of callers are left to wait."""
        self._alarms_ring = False
        self._cut(tuple(self._lines))

    def _soon(self, ends: Callable[[], None]) -> None:
        """On the timer's thread: where the system gives no worker, who ends a wait goes on with the call, which may ask
        the very owner that has the news."""
        if self._alarms_ring:
            # Where it has no thread, nobody but callers' own threads can wait.
            with suppress(RouterBusyError):
                self._alarms.at(self._clock.monotonic(), ends)
                return
        ends()

    def _call(self, provider_id: str, number: int) -> None:
        line = self._lines[provider_id]
        for _ in range(number):
            try:
                limit, _ = line.popitem(last=False)
            except KeyError:
                return
            limit.cut(_NEWS)

    def _cut(self, provider_ids: tuple[str, ...]) -> None:
        # Each once, though it stand in several lines.
        for limit in dict.fromkeys(limit for one in provider_ids for limit in list(self._lines[one])):
            limit.cut(_NEWS)
