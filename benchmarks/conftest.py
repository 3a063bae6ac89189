"""What the benchmarks share: blocks measured by turns, routers over adapters that cost nothing, and the table."""

import faulthandler
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import count, groupby
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

import pytest

from turnout import ApiProtocol, CallType, CallVariant, DuckDBMetricsStore, ProviderRouter

# For the PostgreSQL of the tests, wherever pytest was started from.
sys.path.append(str(Path(__file__).parents[1]))

#: Measures one block of calls by itself; the figures by what they are.
Block = Callable[[], Mapping[str, float]]

_SIMULATOR: Final = """
import sys
from turnout.testing.simulator import SimulatedProvider, Simulator, Status

long = SimulatedProvider("long", text="word " * 200, chunks=200)
broken = SimulatedProvider("broken", Status(500))
with Simulator([SimulatedProvider("plain"), long, broken]) as simulator:
    print(*(simulator.base_url(name) for name in ("plain", "long", "broken")), flush=True)
    sys.stdin.read()
"""


class Told(NamedTuple):
    """One line of the table. ``low`` and ``high`` hold the middle half of the ratios."""

    question: str
    what: str
    figure: str
    floor: float
    ours: float
    ratio: float
    low: float
    high: float
    asked: str


_TOLD: Final[pytest.StashKey[list[Told]]] = pytest.StashKey()


class SideBySide:
    """Measures the floor and ours in small blocks by turns, and tells the median of the pairs' ratios."""

    def __init__(self, benchmark: Any, rounds: int, told: list[Told]) -> None:
        self._benchmark = benchmark
        self._told = told
        self.rounds = rounds

    @staticmethod
    def calls(
        call: Callable[[], object],
        count: int,
        *,
        then: Callable[[], object] = lambda: None,
        tell: tuple[str, ...] = ("p50", "drained"),
    ) -> Block:
        """A block of ``count`` calls one after another, in microseconds. ``drained`` is the time of the whole block,
        ``then`` included, over its calls."""

        def block() -> Mapping[str, float]:
            took: list[float] = []
            clock = time.perf_counter
            began = clock()
            for _ in range(count):
                asked = clock()
                call()
                took.append(clock() - asked)
            then()
            drained = (clock() - began) / count
            took.sort()
            known = {
                "p50": took[count // 2],
                "p99": took[count * 99 // 100],
                "mean": sum(took) / count,
                "drained": drained,
            }
            return {f"{figure}, us": known[figure] * 1e6 for figure in tell}

        return block

    def compare(
        self,
        what: str,
        floor: Block,
        ours: Block,
        *,
        asked: Mapping[str, str] | None = None,
        one_round_in: int = 1,
        warm_up: bool = True,
    ) -> None:
        """Run both by turns and note every figure. ``asked`` says what its ratio should be, for the reader alone."""
        floors: list[Mapping[str, float]] = []
        mine: list[Mapping[str, float]] = []

        # F O, O F, F O, ...: neither gains from its place, nor from a machine that grows busier or calmer.
        def before() -> None:
            if len(mine) % 2 == 0:
                floors.append(floor())

        def after() -> None:
            if len(mine) % 2 == 0:
                floors.append(floor())

        if warm_up:
            floor()
            ours()
        self._benchmark.pedantic(
            lambda: mine.append(ours()),
            setup=before,
            teardown=after,
            rounds=max(self.rounds // one_round_in, 1),
        )
        for figure in floors[0]:
            self._note(
                what,
                figure,
                [each[figure] for each in floors],
                [each[figure] for each in mine],
                (asked or {}).get(figure, ""),
            )

    def _note(self, what: str, figure: str, floors: list[float], mine: list[float], asked: str) -> None:
        ratios = [ours / floor for floor, ours in zip(floors, mine, strict=True)]
        low, ratio, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        line = Told(
            self._benchmark.group or "", what, figure, median(floors), median(mine), ratio, low, high, asked
        )
        self._told.append(line)
        self._benchmark.extra_info[figure] = {
            name: value for name, value in line._asdict().items() if name not in ("question", "figure")
        }


class NullAdapter:
    """Makes no call: its answer is a constant."""

    def invoke(self, operation: str, arguments: Mapping[str, Any]) -> object:
        return self


class Routers:
    """Routers over adapters that cost nothing, or as much as a test says. Each must have written all of its rows."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._numbers = count(1)

    def __call__(self, adapter: Any = None, **settings: Any) -> ProviderRouter:
        """``lent`` until the test ends."""
        return self._stack.enter_context(self.lent(adapter, **settings))

    @contextmanager
    def lent(
        self,
        adapter: Any = None,
        *,
        ledger: bool = True,
        store: Any = None,
        durability: str = "batched",
        **settings: Any,
    ) -> Iterator[ProviderRouter]:
        """A router over two providers by turns. With ``ledger``, rows go into ``store``, or a new DuckDB file."""
        answering = adapter if adapter is not None else NullAdapter()
        with ExitStack() as stack:
            if ledger and store is None:
                store = stack.enter_context(closing(self._duckdb()))
            yield stack.enter_context(
                self._opened(
                    [self.provider(name) for name in ("one", "two")],
                    metrics_store=store if ledger else None,
                    ledger={"durability": durability},
                    adapter_factory=lambda config: answering,
                    **settings,
                )
            )

    def over(self, *base_urls: str, **settings: Any) -> ProviderRouter:
        """A router over providers behind the real SDK, its rows going into a DuckDB file."""
        store = self._stack.enter_context(closing(self._duckdb()))
        providers = [self.provider(f"sdk{n}", base_url=url) for n, url in enumerate(base_urls)]
        return self._stack.enter_context(self._opened(providers, metrics_store=store, **settings))

    @staticmethod
    def provider(name: str, **settings: Any) -> dict[str, Any]:
        known = {"provider_id": name, "name": name, "protocol": ApiProtocol.OPENAI_CHAT, "model": "model"}
        return {**known, "api_key": "sk-benchmark", **settings}

    @staticmethod
    def chat(**arguments: Any) -> list[CallVariant]:
        """The call that all benchmarks make."""
        return [
            CallVariant(
                protocol=ApiProtocol.OPENAI_CHAT,
                operation="chat.completions.create",
                call_type=CallType.STREAMING if arguments.get("stream") else CallType.REGULAR,
                arguments={"messages": [{"role": "user", "content": "Hello"}], **arguments},
            )
        ]

    def _duckdb(self) -> DuckDBMetricsStore:
        return DuckDBMetricsStore(self._folder / f"ledger{next(self._numbers)}.duckdb")

    @contextmanager
    def _opened(self, providers: list[dict[str, Any]], **settings: Any) -> Iterator[ProviderRouter]:
        with ProviderRouter(providers, f"benchmark{next(self._numbers)}", **settings) as router:
            yield router
            # Numbers of a ledger that lost rows, or could not be written, would be worth nothing.
            assert router.flush()
            ledger = router.stats().ledger
            assert (ledger.waiting, ledger.dropped, ledger.failing) == (0, 0, None)


class Simulated(NamedTuple):
    """Base URLs of simulated providers: one of short answers, one that streams 200 chunks of text, one that answers
    HTTP 500."""

    plain: str
    long: str
    broken: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds",
        type=int,
        default=21,
        metavar="N",
        help="pairs of blocks that a benchmark measures (21); slow ones take a fraction of it",
    )


def pytest_xdist_auto_num_workers() -> int:
    """None: what is measured has the machine to itself."""
    return 0


def pytest_configure(config: pytest.Config) -> None:
    options = config.option
    # The plugin's own table has the times of whole blocks, which mean little; --benchmark-verbose shows it.
    options.benchmark_quiet = not (options.benchmark_verbose or options.benchmark_compare)
    # As written, so that one machine's mood does not fall on other questions each time.
    options.randomly_reorganize = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # The tests' minute is for what hangs; here a longer look was asked for.
    patience = pytest.mark.timeout(60 + 20 * config.getoption("--rounds"))
    for item in items:
        if "side_by_side" in getattr(item, "fixturenames", ()):
            item.add_marker(patience)


@pytest.fixture
def side_by_side(benchmark: Any, request: pytest.FixtureRequest) -> SideBySide:
    rounds: int = request.config.getoption("--rounds")
    # The tests' last resort against what hangs, three minutes; the patience that was asked for here is enough.
    faulthandler.cancel_dump_traceback_later()
    return SideBySide(benchmark, rounds, request.config.stash.setdefault(_TOLD, []))


@pytest.fixture
def routers(tmp_path: Path) -> Iterator[Routers]:
    with ExitStack() as stack:
        yield Routers(stack, tmp_path)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    """The floor: as many workers as a router has by default."""
    with ThreadPoolExecutor(32) as pool:
        yield pool


@pytest.fixture(scope="session")
def simulated() -> Iterator[Simulated]:
    """A simulator in a process of its own, whose work is not done under our interpreter's lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SIMULATOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Simulated(*process.stdout.readline().split())
        process.stdin.close()
        process.wait(10)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    told = config.stash.get(_TOLD, [])
    if not told:
        return
    terminalreporter.section(
        "ours beside its floor: medians; the median of the pairs' ratios, and their middle half"
    )
    what, figure = max(len(line.what) for line in told), max(len(line.figure) for line in told)
    for question, lines in groupby(told, lambda line: line.question):
        terminalreporter.write_line(f"\n{question}", bold=True)
        terminalreporter.write_line(
            f"  {'':{what}}  {'':{figure}}{'floor':>9}{'ours':>9}{'ratio':>8}  {'middle half':13}  asked"
        )
        above = ""
        for line in lines:
            terminalreporter.write_line(
                f"  {'' if line.what == above else line.what:{what}}  {line.figure:{figure}}"
                f"{_short(line.floor):>9}{_short(line.ours):>9}{line.ratio:>8.3f}"
                f"  {f'{line.low:.3f}-{line.high:.3f}':13}  {line.asked}".rstrip()
            )
            above = line.what


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
