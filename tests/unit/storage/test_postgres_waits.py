"""A store on a real PostgreSQL that keeps it waiting, goes away, or says nothing; and a store that goes away itself."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, Final

import psycopg
import pytest

from tests.postgres import PostgresServer
from turnout.calls import CallType
from turnout.decisions.aggregates import ScoreAggregateQuery
from turnout.errors import StorageError, StorageLockedError
from turnout.storage import schema
from turnout.storage.postgres import PostgresMetricsStore
from turnout.testing.store_conformance.histories import NOON, PARTITION, a_row

QUERY: Final = ScoreAggregateQuery((PARTITION,), CallType.STREAMING, NOON, NOON)


@pytest.fixture
def store(postgres_ledger: str) -> Iterator[PostgresMetricsStore]:
    with closing(PostgresMetricsStore(postgres_ledger)) as store:
        yield store


@pytest.fixture
def administrator(postgres_ledger: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_ledger, autocommit=True) as connection:
        yield connection


def backends(administrator: psycopg.Connection) -> set[int]:
    found = administrator.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'turnout'"
    )
    return {pid for (pid,) in found.fetchall()}


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.record_attempts([a_row()]),
        lambda store: store.query_recent(since=NOON),
        lambda store: store.query_score_aggregates(QUERY),
    ],
    ids=["write", "read", "scores"],
)
def test_a_connection_that_was_lost_while_unused_is_replaced_unseen(
    store: PostgresMetricsStore, administrator: psycopg.Connection, use: Callable[[PostgresMetricsStore], Any]
) -> None:
    use(store)
    for pid in backends(administrator):
        administrator.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    use(store)
    assert backends(administrator)


def test_a_server_that_is_gone_and_comes_back(postgres: PostgresServer, store: PostgresMetricsStore) -> None:
    first, second = a_row(), a_row(started_at=NOON.replace(hour=13))
    store.record_attempts([first])
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(
                StorageError, match=r"postgresql://postgres@/.*cannot be connected to.*whether it runs"
            ):
                store.record_attempts([second])
    finally:
        postgres.start()
    store.record_attempts([second])
    assert store.query_recent(since=NOON) == [first, second]


@pytest.mark.parametrize("pool_mode", ["direct", "session_pooler", "transaction_pooler"])
def test_a_statement_that_takes_too_long_is_given_up(postgres_url: str, pool_mode: str) -> None:
    config = {"statement_timeout_seconds": 0.05, "pool_mode": pool_mode}
    with (
        closing(PostgresMetricsStore(postgres_url, config)) as store,
        psycopg.connect(postgres_url, autocommit=True) as owner,
    ):
        owner.execute(schema.whole(schema.StorageBackend.POSTGRES).encode())
        owner.execute(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql "
            "AS 'BEGIN IF NEW.provider_id = ''slow'' THEN PERFORM pg_sleep(50); END IF; RETURN NEW; END'"
        )
        owner.execute(
            "CREATE TRIGGER slow BEFORE INSERT ON provider_attempts FOR EACH ROW EXECUTE FUNCTION dawdle()"
        )
        for _ in range(2):
            with pytest.raises(StorageError, match="raise statement_timeout_seconds"):
                store.record_attempts([a_row(), a_row(provider_id="slow")])
        store.record_attempts([a_row()])
        assert len(store.query_recent(since=NOON)) == 1


@pytest.mark.parametrize("pool_mode", ["direct", "transaction_pooler"])
def test_a_table_that_somebody_holds_is_not_waited_for(
    postgres_ledger: str, administrator: psycopg.Connection, pool_mode: str
) -> None:
    config = {"statement_timeout_seconds": 0.4, "pool_mode": pool_mode}
    with closing(PostgresMetricsStore(postgres_ledger, config)) as store:
        store.record_attempts([a_row()])
        with administrator.transaction():
            administrator.execute("LOCK TABLE provider_attempts")
            for use in (lambda: store.record_attempts([a_row()]), lambda: store.query_recent(since=NOON)):
                with pytest.raises(StorageLockedError, match="try again later"):
                    use()
        store.record_attempts([a_row()])
        assert len(store.query_recent(since=NOON)) == 2


def test_who_waits_too_long_for_a_connection_is_told_what_to_raise(
    postgres_ledger: str, administrator: psycopg.Connection
) -> None:
    config = {"max_pool_size": 1, "checkout_timeout_seconds": 0.05, "statement_timeout_seconds": 30}
    with (
        ThreadPoolExecutor(1, "writer") as writer,
        closing(PostgresMetricsStore(postgres_ledger, config)) as store,
    ):
        store.record_attempts([a_row()])
        with administrator.transaction():
            administrator.execute("LOCK TABLE provider_attempts")
            busy = writer.submit(store.record_attempts, [a_row()])
            while not waits_for_a_lock(administrator):
                pass
            with pytest.raises(StorageError, match="raise checkout_timeout_seconds or max_pool_size"):
                store.query_recent(since=NOON)
        busy.result(30)
        assert len(store.query_recent(since=NOON)) == 2


def waits_for_a_lock(administrator: psycopg.Connection) -> bool:
    # Within a transaction, the view would go on telling what it told first.
    administrator.execute("SELECT pg_stat_clear_snapshot()")
    waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'turnout' AND wait_event_type = 'Lock'"
    return administrator.execute(waiting).fetchone() is not None


def test_a_server_that_says_nothing_is_given_up(
    postgres_ledger: str, administrator: psycopg.Connection
) -> None:
    config = {"connect_timeout_seconds": 0.1, "statement_timeout_seconds": 0.1}
    with closing(PostgresMetricsStore(postgres_ledger, config)) as store:
        row = a_row()
        store.record_attempts([row])
        stopped = backends(administrator)
        with ExitStack() as goes_on:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
                goes_on.callback(os.kill, pid, signal.SIGCONT)
            with pytest.raises(StorageError, match="says nothing"):
                store.query_recent(since=NOON)
            assert store.query_recent(since=NOON) == [row]


def test_a_store_that_is_closed_leaves_no_thread_and_no_connection(
    store: PostgresMetricsStore, administrator: psycopg.Connection
) -> None:
    store.record_attempts([a_row()])
    mine = [thread for thread in threading.enumerate() if thread.name.startswith("turnout-postgres-")]
    assert mine
    assert all(thread.daemon for thread in mine)
    store.close()
    assert not any(thread.is_alive() for thread in mine)
    # The server ends them by itself, a moment after it was told so.
    while backends(administrator):
        pass


def test_a_store_that_is_closed_amid_use_ends_what_runs_and_refuses_the_rest(
    store: PostgresMetricsStore,
) -> None:
    stop = threading.Event()

    def use() -> int:
        done = 0
        while not stop.is_set():
            store.record_attempts([a_row()])
            done += 1
        return done

    with ThreadPoolExecutor(4, "writer") as writers:
        running = [writers.submit(use) for _ in range(4)]
        while len(store.query_recent(since=NOON)) < 40:
            pass
        store.close()
        for one in running:
            with pytest.raises(StorageError, match="is closed"):
                one.result(30)


def test_a_store_that_is_released_amid_use_goes_on(store: PostgresMetricsStore) -> None:
    with ThreadPoolExecutor(4, "writer") as writers:
        running = [writers.submit(store.record_attempts, [a_row()]) for _ in range(60)]
        for _ in range(5):
            store.release()
        for one in running:
            one.result(30)
    assert len(store.query_recent(since=NOON)) == 60
