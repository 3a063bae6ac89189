"""What a demonstration shows: a live table where there is a terminal, plain lines elsewhere."""

import math
import re
import shlex
import shutil
import sys
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from turnout.actors.health import ProviderHealthReport
from turnout.calls import ApiProtocol
from turnout.cli.demo_board import Board
from turnout.cli.demo_providers import PROTOCOLS
from turnout.cli.lines import write_line
from turnout.decisions.circuit import State

_EVENTS: Final = 4
_BAR_WIDTH: Final = 40
_TITLE: Final = "Calls over four simulated providers"
_SPEAKS: Final = {ApiProtocol.OPENAI_CHAT: "Chat", ApiProtocol.OPENAI_RESPONSES: "Responses"}

Health = Mapping[str, ProviderHealthReport]


class DemoView:
    """Draws the figures of ``board``, on its owner's thread and whenever it is told to."""

    def __init__(self, console: Console, board: Board, total: int) -> None:
        self._console = console
        self._board = board
        self._total = total
        self._events: deque[str] = deque(maxlen=_EVENTS)
        self._last: tuple[RenderableType, ...] = ()
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> Self:
        if self._console.is_interactive:
            self._live.start()
        else:
            self.say(f"{self._total} calls to four simulated providers: {', '.join(PROTOCOLS)}.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The last table stays, without its news.
        if self._console.is_interactive:
            self._live.update(Group(*self._last), refresh=True)
            self._live.stop()

    def note(self, level: str, text: str) -> None:
        """One of turnout's own log messages; called on any thread."""
        self._events.append(text)

    def draw(self, health: Health, pace: str) -> None:
        if self._console.is_interactive:
            self._last = (self._table(health), self._bar(pace))
            self._live.update(Group(*self._last, *self._news()), refresh=True)

    def say(self, text: str) -> None:
        """A line of its own, before the table or after it."""
        # Not through rich, which says a line twice that Ctrl-C has fallen into.
        write_line(self._console.file, text)

    def _table(self, health: Health) -> Table:
        table = Table(
            box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title=_TITLE, title_justify="left"
        )
        table.add_column("provider", style="bold")
        table.add_column("speaks", style="dim")
        table.add_column("attempts", justify="right")
        table.add_column("answers", justify="right", style="green")
        table.add_column("failures", style="yellow", min_width=21)
        table.add_column("health", min_width=14)
        for provider, figures in self._board.providers.items():
            faults = [f"{count} {fault}" for fault, count in figures.faults.most_common()]
            table.add_row(
                provider,
                _SPEAKS[PROTOCOLS[provider]],
                str(figures.attempts),
                str(figures.answers),
                "\n".join(faults),
                _health(health[provider]),
            )
        return table

    def _bar(self, pace: str) -> RenderableType:
        done = self._board.ended
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(self._total, done, width=_BAR_WIDTH),
            f"{done}/{self._total}",
            pace,
        )
        return line

    def _news(self) -> list[Text]:
        return [Text(event, style="dim", no_wrap=True, overflow="ellipsis") for event in self._events.copy()]


def _health(report: ProviderHealthReport) -> Text:
    match report.state:
        case State.CLOSED:
            return Text("closed", style="yellow" if report.consecutive_failures else "green")
        case State.OPEN:
            return Text(f"benched {report.cooldown_remaining_seconds or 0.0:.1f} s", style="red")
        case State.HALF_OPEN:
            # Whoever comes next finds out whether it answers again.
            return Text("being probed" if report.probes_out else "half-open", style="yellow")
        case State.DISABLED:
            return Text("disabled", style="red")


def summary(board: Board, total: int, seconds: float) -> list[str]:
    """What a demonstration came to, in lines of plain text."""
    by_provider = ", ".join(f"{name} {figures.answers}" for name, figures in board.providers.items())
    attempts = sum(figures.attempts for figures in board.providers.values())
    kinds = f"{board.answered - board.streams} regular, {board.streams} streaming"
    lines = [
        f"{board.answered} of {total} calls got a whole answer in {seconds:.1f} s: {kinds}.",
        f"  answered by  {by_provider}",
        f"  attempts     {attempts}, of which {attempts - board.answered} failed",
        f"  failovers    {board.failovers} (calls that another provider than the first answered)",
        f"  restarts     {board.restarts} (streams that broke, started over, their pieces thrown away)",
        f"  latency      p50 {_told(board.percentile(0.50))}, p95 {_told(board.percentile(0.95))}",
    ]
    lines += [f"Call {end.call.number} failed: {end.problem}" for end in board.failed]
    return lines


def _told(seconds: float) -> str:
    if math.isnan(seconds):
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def query_line(database: str, scope: str, since: datetime) -> str:
    """A shell command that shows what came into the ledger since then, for pasting."""
    sql = (
        "SELECT provider_name, outcome, fault, count(*) AS attempts, round(median(total_duration_ms)) AS median_ms "
        f"FROM provider_attempts WHERE metrics_scope = '{scope}' AND started_at >= '{since.isoformat()}' "
        "GROUP BY ALL ORDER BY ALL"
    )
    program = f"import duckdb; duckdb.connect({database!r}, read_only=True).sql('''{sql}''').show()"
    quoted = shlex.quote(program) if re.search(r'["$`\\!]', program) else f'"{program}"'
    return f"{_python()} -c {quoted}"


def _python() -> str:
    """The interpreter that has what turnout has, by the shortest name that means it."""
    here, found = Path(sys.executable), Path(shutil.which("python") or "")
    known = found.parent == here.parent and found.samefile(here)
    return "python" if known else shlex.quote(sys.executable)
