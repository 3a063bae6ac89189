"""What does an order by score cost, beside taking turns, and with a long history beside a short one?

A plan alone is a sort by scores that are ready. A whole call may not notice how many rows the scores were made from
either: the store reads them on a thread of its own.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from turnout import (
    Attempt,
    CallType,
    DuckDBMetricsStore,
    Identity,
    Outcome,
    Reason,
    RoundRobinPolicy,
    RoutingContext,
    ScoreBasedPolicy,
)
from turnout.policies.contract import Policy, Ranking
from turnout.storage import schema
from turnout.storage.schema import StorageBackend

pytestmark = pytest.mark.benchmark(group="Orders by score")

PROVIDERS: Final = [Identity(f"p{n}", f"Provider {n}", "model", "openai_chat") for n in range(10)]
CONTEXT: Final = RoutingContext(CallType.REGULAR)
PLANS: Final = 20_000
CALLS: Final = 10_000
FEW, MANY = 1_000, 5_000_000
#: Both providers of the benchmarks' routers, over the last week.
_HISTORY: Final = """
INSERT INTO provider_attempts BY NAME
SELECT
    format('01900000-0000-7000-8000-{:012x}', number)::UUID AS attempt_id,
    attempt_id AS invocation_id,
    1 AS attempt_number,
    'primary' AS reason,
    now() - to_seconds(604800.0 * (number + 1) / ?) AS started_at,
    'elsewhere' AS metrics_scope,
    CASE number % 2 WHEN 0 THEN 'one' ELSE 'two' END AS provider_id,
    provider_id AS provider_name,
    'model' AS model,
    'openai_chat' AS protocol,
    CASE number % 3 WHEN 0 THEN 'streaming' ELSE 'regular' END AS call_type,
    number % 20 != 0 AS success,
    CASE WHEN success THEN 'ok' ELSE 'failed' END AS outcome,
    CASE WHEN NOT success THEN 'server_error' END AS fault,
    hash(number) % 900.0 AS latency_ms,
    latency_ms AS total_duration_ms,
    0.0 AS queue_ms,
    'unknown' AS billing_state
FROM range(?) AS numbers(number)
"""


def ranking_of(policy: Policy) -> Ranking:
    """The ranking after each provider was heard of, each at a speed of its own."""
    ranking = policy.ranking(PROVIDERS)
    for place, provider in enumerate(PROVIDERS):
        latency = 0.1 * (place * 7 % 10 + 1)
        one = Attempt(
            place, 1, 1, Reason.PRIMARY, provider, CONTEXT.call_type, time.time(), latency, 0.0, Outcome.OK, 0
        )
        ranking = policy.observe([one]) or ranking
    return ranking


def test_plan(side_by_side: Any) -> None:
    in_turn, by_score = ranking_of(RoundRobinPolicy()), ranking_of(ScoreBasedPolicy())
    side_by_side.compare(
        "a plan for 10 providers, beside round robin",
        side_by_side.calls(partial(in_turn.plan, PROVIDERS, CONTEXT, 7), PLANS, tell=("p50", "mean")),
        side_by_side.calls(partial(by_score.plan, PROVIDERS, CONTEXT, 7), PLANS, tell=("p50", "mean")),
        asked={"p50, us": "ours at most 100"},
    )


def test_invoke_beside_round_robin(side_by_side: Any, routers: Any) -> None:
    in_turn, by_score = routers(), routers(policy=ScoreBasedPolicy())
    side_by_side.compare(
        "invoke(), DuckDB ledger, beside round robin",
        side_by_side.calls(partial(in_turn.invoke, routers.chat()), CALLS, then=in_turn.flush),
        side_by_side.calls(partial(by_score.invoke, routers.chat()), CALLS, then=by_score.flush),
    )


@contextmanager
def store_with(rows: int, folder: Path) -> Iterator[DuckDBMetricsStore]:
    path = folder / f"{rows}.duckdb"
    with closing(duckdb.connect(path)) as connection:
        connection.execute(schema.whole(StorageBackend.DUCKDB))
        connection.execute(_HISTORY, [rows, rows])
    with closing(DuckDBMetricsStore(path)) as store:
        yield store


@pytest.mark.parametrize("rows", [FEW, MANY], ids=["like against like", "5 million rows"])
def test_length_of_history(side_by_side: Any, routers: Any, tmp_path: Path, rows: int) -> None:
    (tmp_path / "short").mkdir()
    with store_with(FEW, tmp_path / "short") as short, store_with(rows, tmp_path) as long:
        # The scopes of the routers are others.
        floor, ours = (
            routers.lent(store=store, policy=ScoreBasedPolicy(history_scope="all")) for store in (short, long)
        )
        with floor as few, ours as many:
            side_by_side.compare(
                f"invoke(), {rows:,} rows of history, beside {FEW:,}",
                side_by_side.calls(partial(few.invoke, routers.chat()), CALLS, then=few.flush),
                side_by_side.calls(partial(many.invoke, routers.chat()), CALLS, then=many.flush),
                asked={"p50, us": "at most 1.2", "drained, us": "at most 1.2"},
            )
