"""What custom adapters put in their errors costs no row but its own fields."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnout import DuckDBMetricsStore, Fault, ProviderError, RouterExhaustedError, SQLiteMetricsStore
from turnout.testing import ScriptedAdapters

LONG_AGO = datetime.fromtimestamp(0, UTC)

POISON: dict[str, Any] = {
    "a status that no column holds": {"status_code": 10**30, "error_code": "ok"},
    "a status that is no number": {"status_code": "500", "error_code": "ok"},
    "a code that is no text": {"status_code": 500, "error_code": {"a": 1}},
    "a code that is not encodable": {"status_code": 500, "error_code": "bad\ud800code"},
}


@pytest.mark.parametrize("store_of", [DuckDBMetricsStore, SQLiteMetricsStore], ids=["duckdb", "sqlite"])
@pytest.mark.parametrize("name", POISON)
def test_a_row_with_an_impossible_status_or_code_costs_no_other_row(
    rig: Any, tmp_path: Path, store_of: Callable[[str], Any], name: str
) -> None:
    poison = ProviderError("x", provider_id="a", fault=Fault.SERVER_ERROR, **POISON[name])
    store = store_of(str(tmp_path / "metrics"))
    router = rig.scripted(ScriptedAdapters({"a": ["a", poison, "a"]}), "a", metrics_store=store)

    router.invoke(rig.chat())
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    router.invoke(rig.chat())

    assert router.flush(10.0)
    rows = store.query_recent(since=LONG_AGO)
    assert sorted(row.outcome for row in rows) == ["failed", "ok", "ok"]
    router.close()
    store.close()


@pytest.mark.parametrize(("fault", "kept"), [("server_error", "server_error"), ("no such fault", "unknown")])
def test_an_error_that_names_its_fault_as_text_is_kept_as_that_fault(
    rig: Any, tmp_path: Path, fault: Any, kept: str
) -> None:
    def refuses(call: object) -> Any:
        raise ProviderError("x", provider_id="a", fault=fault)

    store = DuckDBMetricsStore(str(tmp_path / "metrics"))
    router = rig.scripted(ScriptedAdapters({"a": [refuses, "a"]}), "a", metrics_store=store)

    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    router.invoke(rig.chat())

    assert router.flush(10.0)
    assert sorted(str(row.fault) for row in store.query_recent(since=LONG_AGO)) == ["None", kept]
    router.close()
    store.close()


def test_a_fault_that_somebody_put_into_an_error_and_that_is_none_costs_no_row(
    rig: Any, tmp_path: Path
) -> None:
    class Odd(ProviderError):
        fault: Any = object()

    store = DuckDBMetricsStore(str(tmp_path / "metrics"))
    router = rig.scripted(ScriptedAdapters({"a": [Odd("x"), "a"]}), "a", metrics_store=store)

    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    router.invoke(rig.chat())

    assert router.flush(10.0)
    assert sorted(str(row.fault) for row in store.query_recent(since=LONG_AGO)) == ["None", "terminal"]
    router.close()
    store.close()
