"""How a history looks: a table where it fits, a block for each provider where it does not, or JSON."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final, Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from turnout.decisions.history import ProviderHistory

_UNKNOWN: Final = "-"


class Asked(Protocol):
    """What a history was asked for."""

    @property
    def since(self) -> datetime: ...
    @property
    def until(self) -> datetime: ...
    @property
    def scope(self) -> str | None: ...
    @property
    def call_type(self) -> str | None: ...


def as_json(asked: Asked, told: Sequence[ProviderHistory]) -> str:
    """One object. Its keys are the same for ever; there may come more."""
    whole = {
        "since": asked.since.astimezone(UTC).isoformat(),
        "until": asked.until.astimezone(UTC).isoformat(),
        "scope": asked.scope,
        "call_type": asked.call_type,
        "providers": [asdict(history) for history in told],
    }
    return json.dumps(whole, indent=2)


def as_blocks_or_table(told: Sequence[ProviderHistory], console: Console | None = None) -> str:
    """Text for a console's width, in its colours; plain, and as wide as it is, where that is no terminal."""
    console = console if console is not None else Console(file=sys.stdout)
    table = _table(told)
    width = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    if not console.is_terminal:
        console.width = width
    with console.capture() as shown:
        if width <= console.width:
            console.print(table)
        else:
            for history in told:
                console.print(_block(history), "")
    return "\n".join(line.rstrip() for line in shown.get().splitlines()).rstrip("\n")


def _table(told: Sequence[ProviderHistory]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("provider", style="bold", no_wrap=True)
    for name in ("attempts", "success", "p50", "p95", "TTFT p50", "TTFT p95"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("faults", style="yellow", no_wrap=True)
    for name in ("tokens in", "cached", "out", "cost", "failovers"):
        table.add_column(name, justify="right", no_wrap=True)
    for history in told:
        table.add_row(
            Text(_named(history)),
            f"{history.attempts:,}",
            _rate(history),
            *(_time(ms) for ms in _times(history)),
            Text("\n".join(_faults(history)) or _UNKNOWN),
            *(_count(tokens) for tokens in _tokens(history)),
            _cost(history),
            f"{history.failovers_caused:,}",
        )
    return table


def _block(history: ProviderHistory) -> Text:
    p50, p95, ttft_p50, ttft_p95 = map(_time, _times(history))
    taken, cached, given = map(_count, _tokens(history))
    ended = f"{history.successes:,} ok, {history.failures:,} failed, {history.ignored:,} ignored"
    lines = {
        "attempts": f"{history.attempts:,}: {ended}",
        "success": _rate(history),
        "latency": f"p50 {p50}, p95 {p95}",
        "TTFT": f"p50 {ttft_p50}, p95 {ttft_p95}",
        "faults": ", ".join(_faults(history)) or _UNKNOWN,
        "tokens": f"{taken} in, {cached} cached, {given} out",
        "cost": _cost(history),
        "failovers": f"{history.failovers_caused:,}",
    }
    block = Text(_named(history), style="bold")
    for name, line in lines.items():
        block.append(f"\n  {name:<9} {line}", style="not bold")
    return block


def _named(history: ProviderHistory) -> str:
    same = history.provider_name == history.provider_id
    name = history.provider_id if same else f"{history.provider_name} ({history.provider_id})"
    return _printable(name)


def _printable(text: str) -> str:
    # What a database holds was written by anyone, and a terminal obeys.
    return "".join(character if character.isprintable() else "?" for character in text)


def _rate(history: ProviderHistory) -> str:
    ended = history.successes + history.failures
    if not ended:
        return _UNKNOWN
    # Downwards: what failed once in 100,000 times is not 100 %.
    return f"{history.successes * 1000 // ended / 10:.1f} %"


def _times(history: ProviderHistory) -> tuple[float | None, ...]:
    return history.p50_ms, history.p95_ms, history.ttft_p50_ms, history.ttft_p95_ms


def _tokens(history: ProviderHistory) -> tuple[int | None, ...]:
    return history.input_tokens, history.cached_tokens, history.output_tokens


def _time(ms: float | None) -> str:
    if ms is None:
        return _UNKNOWN
    if ms < 10:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"


def _count(count: int | None) -> str:
    return _UNKNOWN if count is None else f"{count:,}"


def _cost(history: ProviderHistory) -> str:
    if history.cost_usd is None:
        return _UNKNOWN
    cost = f"${history.cost_usd:,.2f}" if history.cost_usd >= 1 else f"${history.cost_usd:.4f}"
    return f"{cost} (+{history.unpriced:,} unknown)" if history.unpriced else cost


def _faults(history: ProviderHistory) -> list[str]:
    return [f"{count:,} {_printable(fault)}" for fault, count in history.faults.items()]
