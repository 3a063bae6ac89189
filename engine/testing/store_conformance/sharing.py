"""One writes while others read, and closed is closed."""

import threading
from collections.abc import Callable
from typing import Final

import pytest

from turnout.calls import CallType
from turnout.decisions.aggregates import ScoreAggregateQuery
from turnout.errors import StorageError
from turnout.storage.contract import MetricsStore
from turnout.testing.store_conformance.fixtures import Made, OfOneStore
from turnout.testing.store_conformance.histories import NOON, PARTITION, SINCE, a_row, a_success

_BATCHES: Final = 12
_ROWS_A_BATCH: Final = 10
_PATIENCE_SECONDS: Final = 30.0
_QUERY: Final = ScoreAggregateQuery((PARTITION,), CallType.REGULAR, SINCE, NOON)


class Sharing(OfOneStore):
    """Tests of readers beside a writer, and of ``close``."""

    def test_readers_see_whole_batches_while_a_writer_writes(self, store: MetricsStore) -> None:
        written = threading.Event()
        readers = [
            _Reader(lambda: float(len(store.query_recent(since=NOON))), written),
            _Reader(lambda: float(len(store.query_recent(since=NOON))), written),
            _Reader(lambda: store.query_score_aggregates(_QUERY)[0].attempt_weight, written),
        ]
        for reader in readers:
            reader.start()
        try:
            for _ in range(_BATCHES):
                store.record_attempts([a_success() for _ in range(_ROWS_A_BATCH)])
        finally:
            written.set()
        for reader in readers:
            reader.join(_PATIENCE_SECONDS)
            assert not reader.is_alive(), f"a read took more than {_PATIENCE_SECONDS:g} s"
            if reader.failed is not None:
                raise reader.failed
            assert reader.seen == sorted(reader.seen)
            assert all(count % _ROWS_A_BATCH == 0 for count in reader.seen)
            assert reader.seen[-1] == _BATCHES * _ROWS_A_BATCH

    def test_a_closed_store_may_be_closed_again_and_refuses_every_use(self, make: Made) -> None:
        store = make()
        store.record_attempts([a_row()])
        store.close()
        store.close()
        with pytest.raises(StorageError):
            store.record_attempts([a_row()])
        with pytest.raises(StorageError):
            store.query_recent(since=NOON)
        with pytest.raises(StorageError):
            store.query_score_aggregates(_QUERY)

    def test_a_store_never_used_may_be_closed(self, make: Made) -> None:
        store = make()
        store.close()
        with pytest.raises(StorageError):
            store.record_attempts([a_row()])


class _Reader(threading.Thread):
    """Reads again and again, and once more after ``written``."""

    def __init__(self, read: Callable[[], float], written: threading.Event) -> None:
        super().__init__(name="store-conformance-reader", daemon=True)
        self.seen: list[float] = []
        self.failed: BaseException | None = None
        self._read = read
        self._written = written

    def run(self) -> None:
        try:
            last = False
            while not last:
                last = self._written.is_set()
                self.seen.append(self._read())
        except BaseException as error:
            self.failed = error
