"""`turnout demo`: calls over simulated providers that fail, watched live, with every attempt in a ledger."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty
from time import monotonic
from typing import Final

from rich.console import Console

from turnout.cli.demo_board import Board
from turnout.cli.demo_calls import CALLERS, Callers, questions
from turnout.cli.demo_providers import PROTOCOLS, configured, simulated
from turnout.cli.demo_view import DemoView, query_line, summary
from turnout.cli.exits import FAILED, INTERRUPTED, comes_of_ctrl_c, stop_if_pressed
from turnout.cli.log import log_to
from turnout.cli.pace import Pace
from turnout.cli.sdk import load_duckdb, load_sdk
from turnout.errors import StorageError, ThreadsStillRunningError
from turnout.router import ProviderRouter
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.testing.simulator import Simulator

_SCOPE: Final = "demo"
#: Short, so that providers are benched and come back while one watches.
_COOLDOWN_SECONDS: Final = 0.5
_DRAW_SECONDS: Final = 0.1
_LET_GO_SECONDS: Final = 1.0
_WITHOUT_LEDGER: Final = " The calls are made all the same; for a ledger, name another file with --database."


def run_demo(calls: int, database: Path | None, seed: int) -> int:
    """Run it on standard output, and give back the exit code."""
    board = Board(list(PROTOCOLS))
    view = DemoView(Console(), board, calls)
    began, seconds = datetime.now(UTC), 0.0
    with log_to(view.note, "INFO"), _ledger(database, view) as store:
        try:
            seconds = _run(board, view, store, calls, seed)
        except BaseException as error:
            if not comes_of_ctrl_c(error):
                raise
            view.say(f"Stopped: {board.answered} of {calls} calls were answered, {len(board.failed)} failed.")
            _tell_of(store, began, view)
            return INTERRUPTED
    for line in summary(board, calls, seconds):
        view.say(line)
    _tell_of(store, began, view)
    return FAILED if board.failed else 0


def _tell_of(store: DuckDBMetricsStore | None, began: datetime, view: DemoView) -> None:
    if store is not None:
        view.say(f'  ledger       {store.path}, metrics_scope "{_SCOPE}"; to look into this run:')
        view.say(query_line(store.path, _SCOPE, began))


def _run(board: Board, view: DemoView, store: DuckDBMetricsStore | None, calls: int, seed: int) -> float:
    """Make the calls, and draw until all have ended; how many seconds they took."""
    rng = random.Random(seed)
    # The providers are here: no proxy that the environment names can reach them.
    os.environ["NO_PROXY"] = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1"]))
    with Simulator(simulated(seed)) as simulator, _router(simulator, store, rng) as router:
        callers = Callers(router, questions(calls, rng))
        with view:
            view.draw(router.health_report(), "loading the openai SDK")
            load_sdk()
            stop_if_pressed()
            pace = Pace(monotonic)
            try:
                callers.start()
                while board.ended < calls:
                    stop_if_pressed()
                    with suppress(Empty):
                        board.add(callers.ended.get(timeout=_DRAW_SECONDS))
                        pace.step()
                    view.draw(router.health_report(), pace.told(calls - board.ended))
            finally:
                callers.stop(_LET_GO_SECONDS)
    return pace.elapsed_seconds


@contextmanager
def _router(
    simulator: Simulator, store: DuckDBMetricsStore | None, rng: random.Random
) -> Iterator[ProviderRouter]:
    router = ProviderRouter(
        configured(simulator),
        _SCOPE,
        health={
            "failure_cooldown_seconds": _COOLDOWN_SECONDS,
            "rate_limit_cooldown_seconds": _COOLDOWN_SECONDS,
        },
        pool={"max_workers": CALLERS},
        metrics_store=store,
        rng=rng,
    )
    try:
        yield router
    finally:
        # After Ctrl-C a thread may still be in a call that nothing can cut; it ends with the process.
        with suppress(ThreadsStillRunningError):
            router.close(_LET_GO_SECONDS)


@contextmanager
def _ledger(database: Path | None, view: DemoView) -> Iterator[DuckDBMetricsStore | None]:
    """The store, opened; None where that cannot be, which is said."""
    store = DuckDBMetricsStore(database)
    load_duckdb()
    try:
        store.query_recent(since=datetime.now(UTC))
    except StorageError as error:
        # The interrupt may be what it failed of.
        stop_if_pressed()
        view.say(f"No ledger: {error}.{_WITHOUT_LEDGER}")
        yield None
        return
    try:
        yield store
    finally:
        store.close()
