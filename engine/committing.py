"""Walks whose callers hear of nothing before the ledger has it for good."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from loguru import logger

from turnout.actors.ledger import Ledger
from turnout.clock import Clock
from turnout.deadline import Limit
from turnout.execution import Execution
from turnout.invocation import Progress
from turnout.runtime.steps import HandOver, Hear, Step, Walk

#: How long an answer is held back for its rows at most: a store that hangs has no claim to it.
_COMMIT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Committing:
    """Walks as ``execution`` does, and ends once the rows of the walk are committed.

    Where that takes longer than the invocation's deadline allows, or cannot be had, the answer is handed out all the
    same, and counted: it was paid for.
    """

    execution: Execution
    ledger: Ledger
    clock: Clock

    def walk(self, progress: Progress) -> Walk:
        lost = self.ledger.lost
        try:
            answer = yield from self._before_streams(self.execution.walk(progress), progress, lost)
        except Exception:
            yield from self._committed(progress, lost)
            raise
        yield from self._committed(progress, lost)
        return answer

    def _before_streams(self, walk: Walk, progress: Progress, lost: int) -> Walk:
        """What ``walk`` does, with a commit of what failed before each stream that is handed out."""
        value = error = None
        try:
            while True:
                step = walk.send(value) if error is None else walk.throw(error)
                value = error = None
                if isinstance(step, HandOver):
                    yield from self._committed(progress, lost)
                try:
                    value = yield step
                except Exception as raised:
                    error = raised
        except StopIteration as end:
            return end.value
        finally:
            # An error keeps this frame.
            walk.close()
            error = None

    def _committed(self, progress: Progress, lost: int) -> Generator[Step, Any, None]:
        """``lost`` rows were lost before: where more are by now, one may be of this walk."""
        if not progress.attempts:
            return
        latest = progress.invocation.deadline.at
        until = min(latest, self.clock.monotonic() + _COMMIT_SECONDS)
        safe = yield Hear(self.ledger.commit, Limit(until, self.clock, latest))
        if not safe or self.ledger.lost != lost:
            self.ledger.count_uncommitted()
            logger.debug("an answer was handed out before its rows were committed")
