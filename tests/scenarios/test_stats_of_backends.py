"""`turnout stats` says the same of the same rows, wherever they are kept."""

import json
import random
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnout.calls import CallType
from turnout.cli.commands import app
from turnout.cli.stats import Question
from turnout.cli.stats_view import as_json
from turnout.decisions.history import HistoryTotals
from turnout.storage.contract import MetricsStore
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row
from turnout.storage.sqlite import SQLiteMetricsStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNTIL = NOON + timedelta(hours=2)


def rows() -> list[Row]:
    """Three hundred calls of up to three attempts, some at the same moment, some in another scope, some too late."""
    rng, made = random.Random(5), []
    for call in range(300):
        began = NOON + timedelta(seconds=rng.randrange(9_000))
        for number in range(1, rng.randint(1, 3) + 1):
            success = rng.choice([True, True, False, None])
            who = rng.choice("abc")
            made.append(
                Row(
                    f"01900000-0001-7000-8000-{rng.getrandbits(48):012x}",
                    f"01900000-0002-7000-8000-{call:012x}",
                    number,
                    "primary" if number == 1 else rng.choice(["retry", "failover"]),
                    began + timedelta(seconds=number - 1),
                    rng.choice(["scope", "scope", "other"]),
                    who,
                    f"Zürich 東京 {who}",
                    "m",
                    None,
                    rng.choice(["regular", "streaming"]),
                    success,
                    "ok" if success else "ignored" if success is None else "failed",
                    rng.choice(["timeout", "auth"]) if success is False else None,
                    None,
                    rng.choice([None, rng.random() * 1000, 1 / 3]),
                    1.0,
                    0.0,
                    rng.choice([None, rng.randrange(5000)]),
                    None,
                    rng.randrange(100),
                    rng.choice([None, rng.random()]),
                    "calculated",
                    None,
                    None,
                )
            )
    return made


def expected(kept: list[Row], scope: str | None, call_type: CallType | None) -> Any:
    totals = HistoryTotals()
    for row in sorted(kept, key=lambda row: (row.started_at, row.attempt_id)):
        if (
            row.started_at < UNTIL
            and scope in (None, row.metrics_scope)
            and call_type in (None, row.call_type)
        ):
            totals.add(row)
    question = Question(NOON, UNTIL, scope, (), call_type)
    return json.loads(as_json(question, list(totals.by_provider().values())))


@pytest.mark.parametrize("backend", ["duckdb", "sqlite", "postgres"])
def test_the_same_rows_make_the_same_history_from_every_backend(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, path = rows(), tmp_path / "ledger"
    store: MetricsStore
    place = ["--path", str(path)]
    match backend:
        case "duckdb":
            store = DuckDBMetricsStore(path)
        case "sqlite":
            store = SQLiteMetricsStore(path)
        case _:
            url = request.getfixturevalue("postgres_ledger")
            monkeypatch.setenv("TURNOUT_POSTGRES_URL", url)
            store, place = PostgresMetricsStore(url), []
    with closing(store):
        store.record_attempts(kept)
    span = ["--since", NOON.isoformat(), "--until", UNTIL.isoformat()]
    for scope, call_type in ((None, None), ("other", None), ("scope", CallType.STREAMING)):
        filters = [*(["--scope", scope] if scope else []), *(["--call-type", call_type] if call_type else [])]
        told = CliRunner().invoke(app, ["stats", "--json", "--backend", backend, *place, *span, *filters])
        assert (told.exit_code, told.stderr) == (0, "")
        assert json.loads(told.stdout) == expected(kept, scope, call_type)
