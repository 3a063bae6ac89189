"""What a walk asks of whoever drives it."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import Context
from typing import Any, NamedTuple

from turnout.deadline import Limit
from turnout.runtime.contract import ActorRef
from turnout.runtime.lane import Lane


class Call:
    """Call ``function(request, limit)`` in ``context``; sent back: its value, or thrown: what it raised.

    A base for what knows more of the call: a healthy walk makes one object for it, not two.
    """

    __slots__ = ("context", "function", "limit", "request")

    function: Callable[[Any, Limit], Any]
    request: Any
    limit: Limit
    context: Context


class Await(NamedTuple):
    """Await on the loop until the limit; sent back or thrown as for a call. A cut cancels the task."""

    awaitable: Awaitable[Any]
    limit: Limit
    context: Context


class Ask(NamedTuple):
    """Ask an actor; sent back: its reply."""

    actor: ActorRef
    message: Any


class Hear(NamedTuple):
    """Have ``begin`` called with a function, and wait until that is called, by any thread and as often as it likes, or
    the limit is over; sent back: what it was called with first, or None."""

    begin: Callable[[Callable[[Any], None]], None]
    limit: Limit


class TakeLane(NamedTuple):
    """Wait for a token of any of ``lanes``; sent back: the token, or None once the limit is over or was cut."""

    lanes: Sequence[Lane]
    limit: Limit


class Sleep(NamedTuple):
    """Wait until the limit is over, or was cut; sent back: None."""

    limit: Limit


class HandOver(NamedTuple):
    """Hand ``value`` to the caller with the rest of this walk; sent back, by whoever then drives it: what became of
    ``value``."""

    value: Any


Step = Call | Await | Ask | Hear | TakeLane | Sleep | HandOver
Walk = Generator[Step, Any, Any]
