"""What an operator sees of a batch, on stderr: a bar where there is a terminal, a line now and then elsewhere."""

import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from turnout.batch import BatchCounts, Ending, LineEnd
from turnout.cli.lines import in_one_line, write_line
from turnout.cli.pace import Pace

_TOLD_AT_MOST: Final = 20
_TELL_EVERY_SECONDS: Final = 10.0


class BatchView:
    """Shows each line's end. ``total`` is None where nobody can know; ``live`` wants a bar."""

    def __init__(
        self,
        console: Console,
        total: int | None,
        *,
        live: bool,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._total = total
        self._monotonic = monotonic
        self._pace = Pace(monotonic)
        self._told_at = monotonic()
        self._problems = 0
        self._endings: Counter[Ending] = Counter()
        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live = live
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._progress.stop()

    def line_ended(self, end: LineEnd) -> None:
        """For ``run_batch``: called on its writer's thread."""
        self._endings[end.ending] += 1
        if end.ending is not Ending.SKIPPED:
            self._pace.step()
        if end.problem:
            self._tell_problem(end)
        done = self._endings.total()
        if self._live:
            self._progress.update(self._task, completed=done, description=self._state(done))
        elif self._monotonic() - self._told_at >= _TELL_EVERY_SECONDS:
            self._told_at = self._monotonic()
            of = "" if self._total is None else f" of {self._total:,}"
            self.say(f"{done:,}{of} lines, {self._state(done)}")

    def say(self, text: str) -> None:
        """One line, above the bar where there is one."""
        if self._progress.live.is_started:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            # Not through rich, which says a line twice that Ctrl-C has fallen into.
            write_line(self._console.file, text)

    def counts(self) -> BatchCounts:
        return BatchCounts(**{ending.value: self._endings[ending] for ending in Ending})

    def summary(self) -> str:
        """What was done, and how fast, in one clause."""
        counts, seconds = self.counts(), self._pace.elapsed_seconds
        ran = counts.answered + counts.failed + counts.invalid
        parts = [f"{counts.answered:,} answered", f"{counts.failed:,} failed"]
        if counts.invalid:
            parts.append(f"{counts.invalid:,} bad line{'s' if counts.invalid > 1 else ''}")
        if counts.skipped:
            parts.append(f"{counts.skipped:,} answered before")
        return f"{', '.join(parts)} in {seconds:.1f} s ({ran / max(seconds, 0.001):,.1f}/s)"

    def _state(self, done: int) -> str:
        left = None if self._total is None else max(self._total - done, 0)
        failures = self._endings[Ending.FAILED] + self._endings[Ending.INVALID]
        return ", ".join(
            part for part in (self._pace.told(left), f"{failures:,} failed" if failures else "") if part
        )

    def _tell_problem(self, end: LineEnd) -> None:
        self._problems += 1
        if self._problems > _TOLD_AT_MOST:
            return
        who = f"line {end.number}" if end.ending is Ending.INVALID else f"line {end.number} ({end.custom_id})"
        self.say(f"{who}: {in_one_line(end.problem)}")
        if self._problems == _TOLD_AT_MOST:
            self.say("further failures are only in the output")
