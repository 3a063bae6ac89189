"""`turnout stats`: what became of the attempts at each provider, read from a ledger."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Final, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.text import Text

from turnout.calls import CallType
from turnout.cli.exits import HELD, NO_DRIVER, REFUSED, UNREACHABLE, stop_if_pressed
from turnout.cli.ledgers import Place, opened, waiting_files
from turnout.cli.lines import in_one_line, write_line
from turnout.cli.log import log_to
from turnout.cli.moments import shown
from turnout.cli.stats_view import as_blocks_or_table, as_json
from turnout.decisions.history import HistoryTotals, ProviderHistory
from turnout.errors import SchemaMismatchError, StorageDriverMissingError, StorageError, StorageLockedError
from turnout.storage.contract import MetricsStore
from turnout.storage.reading import rows_of

_LOOK_EVERY_ROWS: Final = 2_048
_SHOWN_AFTER_SECONDS: Final = 0.5
_DRAWN_EVERY_SECONDS: Final = 0.1
_HOW_TO_FILL_IT: Final = (
    "Each attempt of a router that keeps its ledger there is in it soon after it has ended. Look further back with "
    "--since 30d; turnout demo makes some attempts to look at."
)


class Question(NamedTuple):
    """Whose attempts are asked for, and of which time; None is any."""

    since: datetime
    until: datetime
    scope: str | None
    providers: tuple[str, ...]
    call_type: CallType | None


def run_stats(place: Place, question: Question, *, json: bool) -> int:
    """Tell it on standard output, and give back the exit code. Raises ``ConfigError`` where there is no ledger."""
    with ExitStack() as stack:
        stack.enter_context(log_to(lambda level, text: _say(f"{level.lower()}: {text}")))
        ledger = stack.enter_context(opened(place))
        try:
            told = _history(ledger.store, question)
        except StorageError as error:
            # The interrupt may be what it failed of.
            stop_if_pressed()
            return _refused(place, ledger.name, error)
        _tell(ledger.name, question, told, json=json)
        count, folder = waiting_files(ledger, place)
        if count:
            files = "1 file of rows waits" if count == 1 else f"{count:,} files of rows wait"
            _say(
                f"{files} in {folder}, not counted here; the next router that opens this ledger takes them in"
            )
    return 0


def _history(store: MetricsStore, question: Question) -> list[ProviderHistory]:
    totals, wanted = HistoryTotals(), question.call_type
    rows = rows_of(store, since=question.since, until=question.until, metrics_scope=question.scope)
    # Of all providers, also where one is asked for: another's attempts say what failovers it caused.
    with _progress() as show:
        for number, row in enumerate(rows, 1):
            if wanted is None or row.call_type == wanted:
                totals.add(row)
            if number % _LOOK_EVERY_ROWS == 0:
                stop_if_pressed()
                show(number, row.started_at)
    return list(totals.by_provider().values())


@contextmanager
def _progress() -> Iterator[Callable[[int, datetime], None]]:
    """A line on stderr, where that is a terminal, that says how many rows were read once that takes a while."""
    console, began = Console(stderr=True), time.monotonic()
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
    next_at = began + _SHOWN_AFTER_SECONDS

    def show(number: int, reached: datetime) -> None:
        nonlocal next_at
        now = time.monotonic()
        if now < next_at or not console.is_interactive:
            return
        next_at = now + _DRAWN_EVERY_SECONDS
        live.start()
        line = f"{number:,} attempts read ({number / (now - began):,.0f}/s), up to {shown(reached)}"
        live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    try:
        yield show
    finally:
        live.stop()


def _tell(name: str, question: Question, found: list[ProviderHistory], *, json: bool) -> None:
    asked = question.providers
    told = [one for one in found if not asked or one.provider_id in asked or one.provider_name in asked]
    if json:
        write_line(sys.stdout, as_json(question, told))
        return
    which = [f'scope "{question.scope}"'] if question.scope is not None else []
    which += [f"{question.call_type} calls"] if question.call_type is not None else []
    which += [f"provider {' and '.join(asked)}"] if asked else []
    what = f"from {shown(question.since)} to {shown(question.until)}, {', '.join([name, *which])}"
    if told:
        write_line(sys.stdout, f"Attempts {what}")
        write_line(sys.stdout, as_blocks_or_table(told))
        return
    write_line(sys.stdout, f"No attempts {what}.")
    if found:
        others = ", ".join(one.provider_id for one in found)
        write_line(sys.stdout, f"There are some of other providers: {others}.")
    else:
        write_line(sys.stdout, _HOW_TO_FILL_IT)


def _refused(place: Place, name: str, error: StorageError) -> int:
    code, text = _failure(place.store.backend, name, error)
    _say(f"turnout stats: {in_one_line(text)}")
    return code


def _failure(backend: str, name: str, error: StorageError) -> tuple[int, str]:
    match error:
        case StorageDriverMissingError():
            missing = f"the driver that a {backend} ledger needs is not installed"
            return NO_DRIVER, f'{missing}: pip install "turnout[{backend}]"'
        case StorageLockedError():
            # DuckDB alone says who.
            who = re.search(r"\(PID (\d+)\)", str(error.__cause__))
            holder = f"process {who[1]}" if who else "another process"
            instead = "A router that holds it tells its last attempts by router.stats().providers"
            return HELD, f"{name} is held by {holder}. {instead}; all can be read here when it has ended"
        case SchemaMismatchError():
            return REFUSED, str(error)
        case _:
            return UNREACHABLE, str(error)


def _say(text: str) -> None:
    write_line(sys.stderr, text)
