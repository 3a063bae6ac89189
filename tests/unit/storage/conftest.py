"""A ledger of each backend."""

from pathlib import Path

import pytest

from tests.ledgers import Ledger
from turnout.storage.schema import StorageBackend


@pytest.fixture(params=list(StorageBackend))
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """Of every backend in turn; nothing is there yet, and in PostgreSQL no table."""
    return ledger_of(request.param, request, tmp_path)


@pytest.fixture(params=[StorageBackend.DUCKDB, StorageBackend.SQLITE])
def file_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """Of the backends that keep a file."""
    return ledger_of(request.param, request, tmp_path)


def ledger_of(backend: StorageBackend, request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    if backend is StorageBackend.POSTGRES:
        return Ledger(backend, request.getfixturevalue("postgres_url"))
    return Ledger(backend, str(tmp_path / "ledger"))
