"""What became of the attempts at each provider, for people: counts, rates, percentiles, tokens and cost."""

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from turnout.calls import Attempt, CallType, Outcome
from turnout.decisions.failovers import Failovers
from turnout.decisions.percentiles import nearest_rank, sort_by_runs


@dataclass(frozen=True, slots=True)
class ProviderHistory:
    """One provider's attempts, by the name that it had last.

    ``success_rate`` is of those that succeeded or failed: ``ignored`` ones (cancelled, closed early, lost a hedge)
    count in ``attempts``, ``unpriced``, tokens and cost alone. The percentiles are of successful attempts, in
    milliseconds, by the nearest-rank method: ``p50_ms`` and ``p95_ms`` of whole regular calls, ``ttft_p50_ms`` and
    ``ttft_p95_ms`` of streams to their first chunk. ``faults`` counts failures by their kind, most frequent first; one
    without a fault goes by its outcome. Tokens and ``cost_usd`` are sums over the attempts of which they are known,
    None where that is none; ``unpriced`` attempts are those whose cost is unknown.

    ``failovers_caused`` are attempts at another provider that were made because one here failed (as failover, restart
    of a stream, or hedge), whatever became of them.
    """

    provider_id: str
    provider_name: str
    attempts: int
    successes: int
    failures: int
    ignored: int
    success_rate: float | None
    p50_ms: float | None
    p95_ms: float | None
    ttft_p50_ms: float | None
    ttft_p95_ms: float | None
    faults: Mapping[str, int]
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    unpriced: int
    failovers_caused: int


class Recorded(Protocol):
    """What counts of an attempt; a row of the ledger is one. ``success`` is None where it is to enter no rate."""

    @property
    def invocation_id(self) -> Hashable: ...
    @property
    def attempt_number(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def provider_id(self) -> str: ...
    @property
    def provider_name(self) -> str: ...
    @property
    def call_type(self) -> str: ...
    @property
    def success(self) -> bool | None: ...
    @property
    def outcome(self) -> str: ...
    @property
    def fault(self) -> str | None: ...
    @property
    def latency_ms(self) -> float | None: ...
    @property
    def input_tokens(self) -> int | None: ...
    @property
    def cached_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def cost_usd(self) -> float | None: ...


class HistoryTotals:
    """Takes attempts one by one, oldest first, and keeps a few numbers for each provider and at most nine bytes for
    each attempt: its latency, if it has one that counts. What cannot be (a latency or a cost that is negative or not
    finite, tokens that are no count) is unknown."""

    def __init__(self) -> None:
        self._providers: dict[str, _Totals] = {}
        self._failovers = Failovers()

    def add(self, recorded: Recorded) -> None:
        provider_id = recorded.provider_id
        totals = self._providers.get(provider_id)
        if totals is None:
            totals = self._providers[provider_id] = _Totals()
        totals.add(recorded)
        number, failed = recorded.attempt_number, recorded.success is False
        if failed or number > 1:
            for cause in self._failovers.told(
                recorded.invocation_id, number, recorded.reason, provider_id, failed=failed
            ):
                self._providers[cause].failovers_caused += 1

    def by_provider(self) -> dict[str, ProviderHistory]:
        """By provider id, those with the most attempts first."""
        told = [totals.told(provider_id) for provider_id, totals in self._providers.items()]
        told.sort(key=lambda history: (-history.attempts, history.provider_id))
        return {history.provider_id: history for history in told}


def live_history(attempts: Iterable[Attempt]) -> dict[str, ProviderHistory]:
    """The history that these attempts make, as their rows would; of those still running nothing is known."""
    totals = HistoryTotals()
    for attempt in attempts:
        totals.add(_recorded(attempt))
    return totals.by_provider()


class _Totals:
    __slots__ = (
        "cost_usd", "failovers_caused", "failures", "faults", "first_chunks_ms", "ignored", "name", "priced",
        "successes", "tokens", "wholes_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.name = ""
        self.successes = self.failures = self.ignored = self.priced = self.failovers_caused = 0
        self.cost_usd = 0.0
        self.faults: Counter[str] = Counter()
        self.tokens: dict[str, int] = {}
        self.wholes_ms = array("d")
        self.first_chunks_ms = array("d")

    def add(self, recorded: Recorded) -> None:
        self.name = recorded.provider_name
        success = recorded.success
        if success:
            self.successes += 1
            latency = recorded.latency_ms
            if latency is not None and 0.0 <= latency < inf:
                streams = recorded.call_type == CallType.STREAMING
                (self.first_chunks_ms if streams else self.wholes_ms).append(latency)
        elif success is None:
            self.ignored += 1
        else:
            self.failures += 1
            self.faults[recorded.fault or recorded.outcome] += 1
        if (count := recorded.input_tokens) is not None:
            self._count("input_tokens", count)
        if (count := recorded.cached_tokens) is not None:
            self._count("cached_tokens", count)
        if (count := recorded.output_tokens) is not None:
            self._count("output_tokens", count)
        cost = recorded.cost_usd
        if cost is not None and 0.0 <= cost < inf:
            self.priced += 1
            self.cost_usd += cost

    def _count(self, kind: str, count: int) -> None:
        if isinstance(count, int) and count >= 0:
            self.tokens[kind] = self.tokens.get(kind, 0) + count

    def told(self, provider_id: str) -> ProviderHistory:
        sort_by_runs(self.wholes_ms)
        sort_by_runs(self.first_chunks_ms)
        ended = self.successes + self.failures
        attempts = ended + self.ignored
        return ProviderHistory(
            provider_id=provider_id,
            provider_name=self.name,
            attempts=attempts,
            successes=self.successes,
            failures=self.failures,
            ignored=self.ignored,
            success_rate=self.successes / ended if ended else None,
            p50_ms=nearest_rank(self.wholes_ms, 50),
            p95_ms=nearest_rank(self.wholes_ms, 95),
            ttft_p50_ms=nearest_rank(self.first_chunks_ms, 50),
            ttft_p95_ms=nearest_rank(self.first_chunks_ms, 95),
            faults=dict(sorted(self.faults.items(), key=lambda fault: (-fault[1], fault[0]))),
            input_tokens=self.tokens.get("input_tokens"),
            cached_tokens=self.tokens.get("cached_tokens"),
            output_tokens=self.tokens.get("output_tokens"),
            cost_usd=self.cost_usd if self.priced else None,
            unpriced=attempts - self.priced,
            failovers_caused=self.failovers_caused,
        )


class _Ended(NamedTuple):
    """An attempt, as its row would tell it."""

    invocation_id: int
    attempt_number: int
    reason: str
    provider_id: str
    provider_name: str
    call_type: str
    success: bool | None
    outcome: str
    fault: str | None
    latency_ms: float | None
    input_tokens: Any
    cached_tokens: Any
    output_tokens: Any
    cost_usd: float | None


_SUCCESS: Final = {
    Outcome.OK: True,
    Outcome.DEGRADED: True,
    Outcome.INVALID: False,
    Outcome.FAILED: False,
    Outcome.IGNORED: None,
}


def _recorded(attempt: Attempt) -> _Ended:
    by, usage = attempt.by, attempt.usage
    latency = attempt.elapsed_seconds if attempt.stream_opened is None else attempt.first_seconds
    # `_value_` is what `value` gives by way of a descriptor in Python.
    return _Ended(
        attempt.invocation_key,
        attempt.number,
        attempt.reason._value_,
        by.provider_id,
        by.name,
        attempt.call_type._value_,
        _SUCCESS[attempt.outcome],
        attempt.outcome._value_,
        None if attempt.fault is None else attempt.fault._value_,
        None if latency is None else latency * 1000.0,
        None if usage is None else usage.input_tokens,
        None if usage is None else usage.cached_tokens,
        None if usage is None else usage.output_tokens,
        None,
    )
