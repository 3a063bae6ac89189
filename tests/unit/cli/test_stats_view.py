"""How a history looks, on terminals of any width and where there is none."""

import io
import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from turnout.calls import CallType
from turnout.cli.stats import Question
from turnout.cli.stats_view import as_blocks_or_table, as_json
from turnout.decisions.history import ProviderHistory

FULL = ProviderHistory(
    provider_id="eu-1", provider_name="Zürich", attempts=12_345, successes=12_000, failures=340, ignored=5,
    success_rate=12_000 / 12_340, p50_ms=812.4, p95_ms=2_310.0, ttft_p50_ms=9.94, ttft_p95_ms=120.0,
    faults={"rate_limit": 300, "timeout": 40}, input_tokens=1_234_567, cached_tokens=0, output_tokens=99,
    cost_usd=12.345, unpriced=0, failovers_caused=310,
)  # fmt: skip
NEW = ProviderHistory(
    provider_id="new", provider_name="new", attempts=1, successes=0, failures=0, ignored=1, success_rate=None,
    p50_ms=None, p95_ms=None, ttft_p50_ms=None, ttft_p95_ms=None, faults={}, input_tokens=None,
    cached_tokens=None, output_tokens=None, cost_usd=None, unpriced=1, failovers_caused=0,
)  # fmt: skip


def shown(*told: ProviderHistory, width: int = 200, terminal: bool = False, **known: Any) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, **known)
    return as_blocks_or_table(list(told), console)


def test_a_table_has_a_line_for_each_provider() -> None:
    header, rule, full, more, new = shown(FULL, NEW).splitlines()[1:]
    assert " ".join(header.split()) == (
        "provider attempts success p50 p95 TTFT p50 TTFT p95 faults tokens in cached out cost failovers"
    )
    assert set(rule) == {" ", "─"}
    assert full.split("  ")[0] == " Zürich (eu-1)"
    assert " ".join(full.split()[2:]) == (
        "12,345 97.2 % 812 ms 2.31 s 9.9 ms 120 ms 300 rate_limit 1,234,567 0 99 $12.35 310"
    )
    assert more.split() == ["40", "timeout"]
    assert new.split() == ["new", "1", *"-" * 10, "0"]


def test_where_there_is_no_terminal_the_table_is_plain_and_never_cut() -> None:
    narrow = shown(FULL, NEW, width=20)
    assert narrow == shown(FULL, NEW, width=300)
    assert "\x1b" not in narrow


@pytest.mark.parametrize("width", [30, 80])
def test_a_narrow_terminal_shows_a_block_for_each_provider(width: int) -> None:
    lines = shown(FULL, NEW, width=width, terminal=True, color_system=None).splitlines()
    assert lines[0] == "Zürich (eu-1)"
    assert all(len(line) <= width for line in lines)
    whole = " ".join(" ".join(lines).split())
    assert "attempts 12,345: 12,000 ok, 340 failed, 5 ignored" in whole
    assert "faults 300 rate_limit, 40 timeout" in whole
    assert "tokens 1,234,567 in, 0 cached, 99 out" in whole
    assert "new attempts 1: 0 ok, 0 failed, 1 ignored success - latency p50 -, p95 -" in whole


def test_a_wide_terminal_shows_the_table() -> None:
    assert "tokens in" in shown(FULL, width=200, terminal=True)


def test_what_failed_once_in_very_many_times_is_not_100_percent() -> None:
    almost = replace(FULL, attempts=10**6, successes=10**6 - 1, failures=1, ignored=0)
    assert "99.9 %" in shown(almost)
    assert "100.0 %" in shown(replace(almost, successes=10**6, failures=0))


def test_a_cost_that_is_known_in_part_says_so() -> None:
    assert "$0.0123 (+4 unknown)" in shown(replace(FULL, cost_usd=0.0123, unpriced=4))


def test_names_cannot_speak_to_the_terminal() -> None:
    told = shown(replace(FULL, provider_name="\x1b[31mred[bold]", faults={"\x07": 1}), terminal=False)
    assert "?[31mred[bold] (eu-1)" in told
    assert "1 ?" in told
    assert "\x1b" not in told


def test_json_has_everything_by_name() -> None:
    question = Question(
        datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC), None, (), CallType.STREAMING
    )
    told = json.loads(as_json(question, [FULL, NEW]))
    assert list(told) == ["since", "until", "scope", "call_type", "providers"]
    assert told["since"] == "2026-03-01T00:00:00+00:00"
    assert told["scope"] is None
    assert told["call_type"] == "streaming"
    first, second = told["providers"]
    assert list(first) == [field.name for field in fields(ProviderHistory)]
    assert first["provider_name"] == "Zürich"
    assert first["faults"] == {"rate_limit": 300, "timeout": 40}
    assert second["success_rate"] is None
