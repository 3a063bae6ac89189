"""A router whose ledger has no driver: calls go on, and one warning and the counts say that nothing is kept."""

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnout.storage
from turnout import DuckDBMetricsStore, PostgresMetricsStore
from turnout.testing import ScriptedAdapters

STORES: dict[str, Callable[[Path], Any]] = {
    "duckdb": lambda folder: DuckDBMetricsStore(folder / "ledger"),
    "postgres": lambda folder: PostgresMetricsStore("postgresql://app:hidden-word@db.example.com/routing"),
}


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    # As at first use: what is imported with the driver is not there yet.
    for name in ("postgres_connection", "postgres_errors"):
        monkeypatch.delitem(sys.modules, f"turnout.storage.{name}", raising=False)
        monkeypatch.delattr(turnout.storage, name, raising=False)
    for name in ("duckdb", "psycopg", "psycopg_pool"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("durability", ["batched", "committed"])
@pytest.mark.parametrize("backend", STORES)
def test_a_router_without_its_ledgers_driver_answers_warns_once_and_says_so(
    backend: str, durability: str, rig: Any, logged: Any, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    with closing(STORES[backend](tmp_path)) as store:
        router = rig.scripted(
            ScriptedAdapters({"a": ["answer"]}),
            "a",
            metrics_store=store,
            ledger={"durability": durability, "spool_dir": str(spool)},
        )
        for _ in range(3):
            assert router.invoke(rig.chat()) == router.submit(rig.chat()).result(20) == "answer"
            router.flush()

        ledger = router.stats().ledger
        assert (ledger.written, ledger.waiting, ledger.spooled, ledger.dropped) == (0, 0, 0, 6)
        assert ledger.failing is not None
        assert f'pip install "turnout[{backend}]"' in ledger.failing
        (warning,) = logged.at("WARNING")
        assert warning.startswith("the ledger keeps nothing: ")
        assert f'pip install "turnout[{backend}]"' in warning
        # Nobody could ever take in what waits there.
        assert list(tmp_path.iterdir()) == []
