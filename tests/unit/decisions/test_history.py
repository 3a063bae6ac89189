"""What a history says of each provider, beside a plain reckoning of the same rows."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.calls import Attempt, CallType, Identity, Outcome, Reason, Usage
from turnout.decisions import failovers
from turnout.decisions.history import HistoryTotals, ProviderHistory, live_history
from turnout.faults import Fault
from turnout.storage.rows import Row, row_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_row(**known: Any) -> Row:
    """A regular call that was answered in 100 ms."""
    full = Row(
        "", "one", 1, "primary", NOON, "scope", "a", "A", "m", "openai_chat", "regular", True, "ok", None, None,
        100.0, 100.0, 0.0, None, None, None, None, "unknown", None, None,
    )  # fmt: skip
    return full._replace(**known)


def failed(**known: Any) -> Row:
    return a_row(**{"success": False, "outcome": "failed", "fault": "server_error", **known})


def history(*rows: Row) -> dict[str, ProviderHistory]:
    totals = HistoryTotals()
    for row in rows:
        totals.add(row)
    return totals.by_provider()


def of_one(*rows: Row) -> ProviderHistory:
    (only,) = history(*rows).values()
    return only


def test_no_rows_are_no_history() -> None:
    assert history() == {}


def test_a_single_success_says_this_much_and_leaves_the_rest_unknown() -> None:
    assert of_one(a_row()) == ProviderHistory(
        provider_id="a", provider_name="A", attempts=1, successes=1, failures=0, ignored=0, success_rate=1.0,
        p50_ms=100.0, p95_ms=100.0, ttft_p50_ms=None, ttft_p95_ms=None, faults={}, input_tokens=None,
        cached_tokens=None, output_tokens=None, cost_usd=None, unpriced=1, failovers_caused=0,
    )  # fmt: skip


def test_what_was_ignored_enters_no_rate_and_no_percentile() -> None:
    told = of_one(
        a_row(), failed(), a_row(success=None, outcome="ignored", fault="cancelled", latency_ms=9e9)
    )
    assert (told.attempts, told.successes, told.failures, told.ignored) == (3, 1, 1, 1)
    assert told.success_rate == 0.5
    assert told.p95_ms == 100.0
    assert told.faults == {"server_error": 1}


def test_where_nothing_succeeded_or_failed_there_is_no_rate() -> None:
    assert of_one(a_row(success=None, outcome="ignored")).success_rate is None


def test_regular_calls_and_first_chunks_are_told_apart_and_failures_are_in_neither() -> None:
    told = of_one(
        a_row(latency_ms=300.0),
        a_row(call_type="streaming", stream_opened=True, latency_ms=7.0),
        a_row(call_type="streaming", stream_opened=True, latency_ms=None),
        failed(latency_ms=1.0),
        failed(call_type="streaming", stream_opened=True, latency_ms=1.0),
    )
    assert (told.p50_ms, told.p95_ms) == (300.0, 300.0)
    assert (told.ttft_p50_ms, told.ttft_p95_ms) == (7.0, 7.0)


def test_percentiles_are_of_the_nearest_rank() -> None:
    told = of_one(*[a_row(latency_ms=float(n)) for n in range(1, 101)])
    assert (told.p50_ms, told.p95_ms) == (50.0, 95.0)


def test_faults_are_counted_by_kind_the_most_frequent_first() -> None:
    told = of_one(failed(fault="timeout"), failed(), failed(), failed(fault=None, outcome="invalid"))
    assert list(told.faults.items()) == [("server_error", 2), ("invalid", 1), ("timeout", 1)]


def test_tokens_and_cost_are_sums_of_what_is_known() -> None:
    told = of_one(
        a_row(input_tokens=5, output_tokens=0, cost_usd=0.25),
        a_row(input_tokens=7),
        failed(cost_usd=0.5),
        a_row(),
    )
    assert (told.input_tokens, told.cached_tokens, told.output_tokens) == (12, None, 0)
    assert (told.cost_usd, told.unpriced) == (0.75, 2)


@pytest.mark.parametrize("impossible", [-1.0, math.nan, math.inf, -math.inf])
def test_numbers_that_cannot_be_are_unknown(impossible: float) -> None:
    told = of_one(a_row(latency_ms=impossible, cost_usd=impossible, input_tokens=-1))
    assert (told.p50_ms, told.cost_usd, told.unpriced, told.input_tokens) == (None, None, 1, None)


def test_the_newest_name_is_shown() -> None:
    assert of_one(a_row(provider_name="old"), a_row(provider_name="new")).provider_name == "new"


def test_the_busiest_provider_comes_first() -> None:
    rows = [a_row(provider_id=who) for who in ("c", "b", "a", "b")]
    assert list(history(*rows)) == ["b", "a", "c"]


def followed(reason: str, by: str = "b", number: int = 2, **known: Any) -> Row:
    return a_row(reason=reason, provider_id=by, attempt_number=number, **known)


@pytest.mark.parametrize("reason", ["failover", "stream_restart", "hedge"])
def test_what_another_provider_had_to_do_in_its_stead_is_a_failover_that_it_caused(reason: str) -> None:
    told = history(failed(), followed(reason))
    assert (told["a"].failovers_caused, told["b"].failovers_caused) == (1, 0)


def test_each_failure_of_a_chain_caused_the_next_attempt() -> None:
    told = history(
        failed(),
        failed(provider_id="b", attempt_number=2, reason="failover"),
        failed(provider_id="c", attempt_number=3, reason="failover"),
    )
    assert {who: one.failovers_caused for who, one in told.items()} == {"a": 1, "b": 1, "c": 0}


def test_after_a_retry_the_failover_is_caused_once() -> None:
    told = history(failed(), failed(attempt_number=2, reason="retry"), followed("failover", number=3))
    assert told["a"].failovers_caused == 1


@pytest.mark.parametrize(
    "rows",
    [
        [failed(), followed("failover", by="a")],
        [failed(), followed("retry")],
        [failed(), followed("failover", number=3)],
        [failed(invocation_id="other"), followed("failover")],
        [a_row(), followed("hedge", success=None, outcome="ignored")],
        [a_row(success=None, outcome="ignored"), followed("hedge")],
        [a_row(outcome="degraded"), followed("failover")],
    ],
    ids=[
        "at the same provider",
        "a retry",
        "not the next",
        "of another call",
        "a hedge that was not needed",
        "a hedge of what was slow",
        "after an answer that will do",
    ],
)
def test_what_is_no_failover_is_not_counted(rows: list[Row]) -> None:
    assert sum(one.failovers_caused for one in history(*rows).values()) == 0


def test_a_hedge_that_ended_before_the_attempt_it_stands_in_for_is_counted() -> None:
    assert history(followed("hedge"), failed())["a"].failovers_caused == 1


def test_of_attempts_that_wait_for_their_other_half_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failovers, "MOST_OPEN", 2)
    ends = [failed(invocation_id=call) for call in ("oldest", "middle", "newest")]
    followers = [followed("failover", invocation_id=row.invocation_id) for row in ends]
    for told_first, told_then in ((ends, followers), (followers, ends)):
        caused = [history(*told_first, then)["a"].failovers_caused for then in told_then]
        assert caused == [0, 1, 1]


names = st.sampled_from(["a", "b", "c"])
counts = st.none() | st.integers(0, 10**6)
times = st.none() | st.floats(0, 1e9, allow_nan=False)
row_kinds = st.builds(
    a_row,
    provider_id=names,
    provider_name=st.sampled_from(["A", "B"]),
    call_type=st.sampled_from(["regular", "streaming"]),
    success=st.sampled_from([True, False, None]),
    outcome=st.sampled_from(["ok", "failed", "degraded", "ignored"]),
    fault=st.none() | st.sampled_from(["timeout", "auth"]),
    reason=st.sampled_from(list(Reason)).map(str),
    latency_ms=times,
    input_tokens=counts,
    cached_tokens=counts,
    output_tokens=counts,
    cost_usd=times,
)


@st.composite
def some_rows(draw: st.DrawFn) -> list[Row]:
    """Invocations of a few attempts each, interleaved."""
    rows = []
    for call in range(draw(st.integers(0, 8))):
        for number in range(1, draw(st.integers(1, 4)) + 1):
            at = NOON + timedelta(seconds=draw(st.integers(0, 5)))
            row = draw(row_kinds)
            rows.append(row._replace(invocation_id=str(call), attempt_number=number, started_at=at))
    return sorted(rows, key=lambda row: row.started_at)


def plainly(rows: list[Row]) -> dict[str, ProviderHistory]:
    """The same, with everything in memory and each number by itself."""
    by_id = sorted(rows, key=lambda row: row.provider_id)
    return {who: plainly_of(who, list(own), rows) for who, own in groupby(by_id, lambda row: row.provider_id)}


def plainly_of(who: str, own: list[Row], rows: list[Row]) -> ProviderHistory:
    successes = [row for row in own if row.success]
    failures = [row for row in own if row.success is False]
    followers = {(row.invocation_id, row.attempt_number): row for row in rows}
    caused = 0
    for row in own:
        after = followers.get((row.invocation_id, row.attempt_number + 1))
        if row.success is False and after is not None and after.provider_id != who:
            caused += after.reason in ("failover", "stream_restart", "hedge")
    regular = [row.latency_ms for row in successes if row.call_type == "regular"]
    streams = [row.latency_ms for row in successes if row.call_type == "streaming"]
    kinds = Counter(row.fault or row.outcome for row in failures)
    return ProviderHistory(
        provider_id=who,
        provider_name=own[-1].provider_name,
        attempts=len(own),
        successes=len(successes),
        failures=len(failures),
        ignored=len(own) - len(successes) - len(failures),
        success_rate=len(successes) / (len(successes) + len(failures)) if successes or failures else None,
        p50_ms=percentile(regular, 50),
        p95_ms=percentile(regular, 95),
        ttft_p50_ms=percentile(streams, 50),
        ttft_p95_ms=percentile(streams, 95),
        faults=dict(kinds),
        input_tokens=summed(row.input_tokens for row in own),
        cached_tokens=summed(row.cached_tokens for row in own),
        output_tokens=summed(row.output_tokens for row in own),
        cost_usd=summed(row.cost_usd for row in own),
        unpriced=sum(row.cost_usd is None for row in own),
        failovers_caused=caused,
    )


def percentile(values: list[float | None], percent: int) -> float | None:
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(percent * len(known) / 100) - 1] if known else None


def summed(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@settings(max_examples=40)
@given(some_rows())
def test_of_any_rows_it_says_what_a_plain_reckoning_says(rows: list[Row]) -> None:
    told, expected = history(*rows), plainly(rows)
    assert [one.cost_usd for one in told.values()] == [pytest.approx(expected[who].cost_usd) for who in told]
    assert {who: replace(one, cost_usd=None) for who, one in told.items()} == {
        who: replace(one, cost_usd=None) for who, one in expected.items()
    }


attempts = st.builds(
    Attempt,
    key=st.integers(0, 2**128 - 1),
    invocation_key=st.integers(1, 4),
    number=st.integers(1, 4),
    reason=st.sampled_from(Reason),
    by=st.sampled_from([Identity("a", "A", "m", "openai_chat"), Identity("b", "B")]),
    call_type=st.sampled_from(CallType),
    began=st.floats(0, 2e9),
    elapsed_seconds=st.floats(0, 1e6),
    queue_seconds=st.just(0.0),
    outcome=st.sampled_from(Outcome),
    epoch=st.just(0),
    fault=st.none() | st.sampled_from(Fault),
    first_seconds=st.none() | st.floats(0, 1e6),
    stream_opened=st.sampled_from([None, True, False]),
    usage=st.none() | st.builds(Usage, *[st.none() | st.integers(-5, 10**6)] * 3),
)


@settings(max_examples=30)
@given(st.lists(attempts, max_size=12))
def test_attempts_make_the_history_that_their_rows_make(given: list[Attempt]) -> None:
    rows = [row_of(attempt, "scope") for attempt in given]
    assert live_history(iter(given)) == history(*rows)


def test_a_history_is_made_of_plain_values() -> None:
    attempt = Attempt(
        1, 1, 1, Reason.PRIMARY, Identity("a", "A"), CallType.REGULAR, 0.0, 1.0, 0.0, Outcome.FAILED, 0,
        fault=Fault.TIMEOUT,
    )  # fmt: skip
    told = asdict(live_history([attempt])["a"])
    assert told["faults"] == {"timeout": 1}
    assert [type(kind) for kind in told["faults"]] == [str]
