"""Whoever reads gets the rows asked for, and no others."""

from datetime import timedelta
from itertools import product

from turnout.storage.contract import MetricsStore
from turnout.testing.store_conformance.fixtures import OfOneStore
from turnout.testing.store_conformance.histories import NOON, a_row

_FILTERS = ("metrics_scope", "provider_id", "model", "protocol", "call_type")


class Reading(OfOneStore):
    """Tests of ``query_recent``."""

    def test_rows_come_back_oldest_first(self, store: MetricsStore) -> None:
        store.record_attempts([a_row(started_at=NOON + timedelta(seconds=second)) for second in (3, 1, 2)])
        found = store.query_recent(since=NOON)
        assert [row.started_at - NOON for row in found] == [timedelta(seconds=second) for second in (1, 2, 3)]

    def test_a_filter_lets_only_its_own_value_through(self, store: MetricsStore) -> None:
        others = {name: a_row(**{name: "' OR 1=1 --"}) for name in _FILTERS}
        store.record_attempts([a_row(), a_row(model=None, protocol=None), *others.values()])
        for name, other in others.items():
            assert store.query_recent(since=NOON, **{name: "' OR 1=1 --"}) == [other], name
            assert store.query_recent(since=NOON, **{name: "nowhere"}) == [], name

    def test_filters_given_together_must_all_match(self, store: MetricsStore) -> None:
        rows = [
            a_row(provider_id=provider, model=model, started_at=NOON + timedelta(seconds=second))
            for second, (provider, model) in enumerate(product("ab", "xy"))
        ]
        store.record_attempts(rows)
        assert store.query_recent(since=NOON, provider_id="b", model="x") == [rows[2]]
        assert store.query_recent(since=rows[3].started_at, provider_id="b") == [rows[3]]
