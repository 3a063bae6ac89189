"""The figures of a demonstration, as calls end."""

import math
from collections import Counter
from dataclasses import dataclass, field

from turnout.calls import Outcome
from turnout.cli.demo_calls import CallEnd


@dataclass(slots=True)
class ProviderFigures:
    """One provider's attempts: all of them, those that ended in an answer, and the failures by fault."""

    attempts: int = 0
    answers: int = 0
    faults: Counter[str] = field(default_factory=Counter)


class Board:
    """Adds up what became of the calls."""

    def __init__(self, providers: list[str]) -> None:
        self.providers = {provider: ProviderFigures() for provider in providers}
        self.failed: list[CallEnd] = []
        self.answered = 0
        self.streams = 0
        self.failovers = 0
        self.restarts = 0
        self._seconds: list[float] = []

    @property
    def ended(self) -> int:
        return self.answered + len(self.failed)

    def add(self, end: CallEnd) -> None:
        for attempt in end.report.attempts:
            figures = self.providers[attempt.provider_id]
            figures.attempts += 1
            if attempt.outcome is Outcome.OK:
                figures.answers += 1
            elif attempt.fault is not None:
                figures.faults[attempt.fault.value] += 1
        self.failovers += end.report.failed_over
        self.restarts += end.restarts
        if end.problem:
            self.failed.append(end)
            return
        self.answered += 1
        self.streams += end.call.streaming
        self._seconds.append(end.seconds)

    def percentile(self, part: float) -> float:
        """The seconds within which this part (0 to 1) of the answered calls were answered; NaN without any."""
        ordered = sorted(self._seconds)
        return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] if ordered else math.nan
