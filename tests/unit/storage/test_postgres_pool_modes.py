"""What the pool mode changes about a store in PostgreSQL, and what it does not."""

from contextlib import closing

import pytest

from tests.ledgers import NOON, Ledger, a_row
from turnout.errors import SchemaMismatchError
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.schema import StorageBackend


@pytest.mark.parametrize("pool_mode", ["direct", "session_pooler", "transaction_pooler"])
def test_a_ledger_of_this_version_and_another_shape_is_refused(postgres_url: str, pool_mode: str) -> None:
    ledger = Ledger(StorageBackend.POSTGRES, postgres_url)
    ledger.make(rows=[a_row()])
    ledger.script("DROP INDEX provider_attempts_history")
    with closing(PostgresMetricsStore(ledger.place, {"pool_mode": pool_mode})) as store:
        for use in (lambda: store.record_attempts([a_row(2)]), lambda: store.query_recent(since=NOON)):
            with pytest.raises(SchemaMismatchError, match=r"no INDEX btree \(started_at\); .*left untouched"):
                use()
    assert len(ledger.content().rows) == 1


@pytest.mark.parametrize(
    ("pool_mode", "prepares"), [("direct", True), ("session_pooler", True), ("transaction_pooler", False)]
)
def test_statements_are_prepared_only_where_the_next_one_finds_the_same_session(
    postgres_ledger: str, pool_mode: str, prepares: bool
) -> None:
    with closing(PostgresMetricsStore(postgres_ledger, {"pool_mode": pool_mode})) as store:
        threshold = store._pool.run(lambda connection: connection.prepare_threshold)
    assert (threshold is not None) is prepares
