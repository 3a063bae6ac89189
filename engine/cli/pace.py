"""How fast something goes, and how long it will still take."""

from collections import deque
from collections.abc import Callable
from typing import Final

_WINDOW_SECONDS: Final = 30.0
_SAMPLE_SECONDS: Final = 0.25


class Pace:
    """The rate over the last half minute. ``monotonic`` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._done = 0
        self._samples: deque[tuple[float, int]] = deque([(self._began, 0)])

    @property
    def elapsed_seconds(self) -> float:
        return self._monotonic() - self._began

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        now = self._monotonic()
        if now - self._samples[-1][0] < _SAMPLE_SECONDS:
            return
        self._samples.append((now, self._done))
        while self._samples[1][0] < now - _WINDOW_SECONDS:
            self._samples.popleft()

    def per_second(self) -> float | None:
        """None while there is nothing to tell it from."""
        since, before = self._samples[0]
        seconds = self._monotonic() - since
        if self._done == before or seconds < _SAMPLE_SECONDS:
            return None
        return (self._done - before) / seconds

    def told(self, left: int | None) -> str:
        """The rate, and how long ``left`` more will take at it (None: nobody knows)."""
        rate = self.per_second()
        if rate is None:
            return ""
        text = f"{rate:,.1f}/s"
        return f"{text}, {_clock_time(left / rate)} left" if left else text


def _clock_time(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
