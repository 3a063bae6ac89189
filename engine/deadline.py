"""When an invocation must end (Deadline), and when one attempt must (Limit)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from turnout.clock import Clock

#: The longest time handed to a socket: an infinite one makes ``settimeout`` overflow.
FOREVER_SECONDS = 86_400.0
#: The reason of a cut because the whole invocation's time is over.
DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Deadline:
    """The instant, on ``clock``, by which a whole invocation ends. ``at`` is ``math.inf`` where there is none."""

    at: float
    clock: Clock
    timeout_seconds: float = math.inf

    @classmethod
    def after(cls, timeout_seconds: float | None, clock: Clock) -> "Deadline":
        if timeout_seconds is None:
            return cls(math.inf, clock)
        return cls(clock.monotonic() + timeout_seconds, clock, timeout_seconds)

    def remaining(self) -> float:
        """Seconds left, never negative and never infinite, so that a socket takes it as a timeout."""
        if self.at == math.inf:
            return FOREVER_SECONDS
        return min(max(self.at - self.clock.monotonic(), 0.0), FOREVER_SECONDS)

    def expired(self) -> bool:
        return self.at != math.inf and self.clock.monotonic() >= self.at


class Limit:
    """The bound of one attempt: when it ends (``until``), and the way to end it now (``cut``).

    One attempt owns it. ``until`` is moved by the attempt's own thread alone, and never past ``latest``: the
    invocation's deadline, until an answer's content has met it. ``cut`` may come from any thread: it records the first
    reason given and runs the hook that the adapter's transport left, which must wake a blocked read. The recorded
    reason outranks whatever exception or clean end comes out of the SDK afterwards.
    """

    __slots__ = ("_clock", "_hook", "latest", "reason", "until")

    def __init__(self, until: float, clock: Clock, latest: float = math.inf) -> None:
        self.until = until
        self.latest = latest
        self.reason: str | None = None
        self._clock = clock
        self._hook: Callable[[], object] | None = None

    def remaining(self) -> float:
        """Seconds left, never negative and never infinite."""
        return min(max(self.until - self._clock.monotonic(), 0.0), FOREVER_SECONDS)

    def expired(self) -> bool:
        return self._clock.monotonic() >= self.until

    def extend(self, seconds: float) -> None:
        """Move the end to ``seconds`` from now, or to ``latest`` where that is sooner."""
        self.until = min(self._clock.monotonic() + seconds, self.latest)

    def cut(self, reason: str) -> None:
        """End the attempt now, from any thread."""
        if self.reason is None:
            self.reason = reason
        hook = self._hook
        if hook is not None:
            hook()

    def on_cut(self, hook: Callable[[], object] | None) -> None:
        """Leave the transport's hook. A cut that came first runs it at once: neither order loses the other."""
        self._hook = hook
        if hook is not None and self.reason is not None:
            hook()
