"""kill -9 amid administration: a database is of one version or of the other, whole, or is not there."""

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ledgers import Ledger, a_row
from tests.postgres import PostgresServer
from turnout.storage import schema
from turnout.storage.schema import StorageBackend
from turnout.storage.schema.admin import create_database, inspect_database, migrate_database
from turnout.storage.schema.facts import SchemaState

POINTS = 16
ROWS = [a_row(number) for number in range(1, 200)]
#: Does the same at each place in a process of its own, which ends at the first: of all that it calls and that returns,
#: Python's and C's, it counts at the first place; at the others it is killed so far on. Every other one is killed from
#: outside as it goes on, so that it may be in the middle of what the driver does.
ADMINISTER = """
import json, os, sys
from turnout.storage.schema.admin import create_database, migrate_database

act, backend, places = json.loads(sys.argv[1])
if backend == "duckdb":
    import duckdb
if backend == "postgres":
    import turnout.storage.postgres_connection
import turnout.storage.schema.admin_duckdb, turnout.storage.schema.admin_sqlite, turnout.storage.schema.admin_postgres

def administer(place, end):
    count = 0
    def step(*_):
        nonlocal count
        count += 1
        if count == end:
            sys.setprofile(None)
            at_end()
    def at_end():
        if number % 2:
            os.kill(os.getpid(), 9)
        os.write(told, b"now")
    sys.setprofile(step)
    try:
        create_database(backend, place) if act == "create" else migrate_database(
            backend, place, backup_path=place + ".old" if act == "back up" else None
        )
    finally:
        sys.setprofile(None)
    return count

whole = None
for number, place in enumerate(places):
    hear, told = os.pipe()
    child = os.fork()
    if not child:
        end = whole and whole * number // len(places)
        count = administer(place, end)
        if not whole:
            os.write(told, str(count).encode())
        os._exit(0)
    os.close(told)
    heard = os.read(hear, 20)
    os.close(hear)
    if whole and heard:
        os.kill(child, 9)
    _, status = os.waitpid(child, 0)
    whole = whole or int(heard)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
BOTH = pytest.mark.parametrize("backend", [StorageBackend.DUCKDB, StorageBackend.SQLITE])
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def administer(act: str, backend: StorageBackend, places: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ADMINISTER, json.dumps([act, backend, places])],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ended.stderr == ""
    codes = [int(line) for line in ended.stdout.split()]
    assert len(codes) == len(places)
    assert codes[0] == 0
    # From outside the kill may come too late.
    assert all(code == -9 for code in codes[1::2])
    assert set(codes) <= {0, -9}


@BOTH
@pytest.mark.parametrize("act", ["migrate", "back up"])
def test_a_file_is_of_one_version_or_the_other(backend: StorageBackend, act: str, tmp_path: Path) -> None:
    first = Ledger(backend, str(tmp_path / "first"))
    first.make(1, ROWS)
    old = first.content()
    places = [str(tmp_path / str(number) / "ledger") for number in range(POINTS)]
    for place in places:
        Path(place).parent.mkdir()
        shutil.copy(first.place, place)
    migrate_database(backend, first.place)
    new = first.content()
    administer(act, backend, places)
    found = []
    for place in places:
        ledger = Ledger(backend, place)
        state = inspect_database(backend, place).state
        assert state in (SchemaState.OUTDATED, SchemaState.CURRENT)
        content = ledger.content()
        assert content == (old if state is SchemaState.OUTDATED else new)
        found.append(state)
        backup = Path(f"{place}.old")
        if backup.exists():
            assert Ledger(backend, str(backup)).content() == old
        assert act == "migrate" or backup.exists() or state is SchemaState.OUTDATED
        # Nothing that the killed one left is in the way.
        assert migrate_database(backend, place).changed is (state is SchemaState.OUTDATED)
        assert ledger.content() == new
    assert {*found} == {SchemaState.OUTDATED, SchemaState.CURRENT}


@BOTH
def test_a_new_file_is_whole_or_not_there(backend: StorageBackend, tmp_path: Path) -> None:
    places = [str(tmp_path / str(number) / "ledger") for number in range(POINTS)]
    administer("create", backend, places)
    there = []
    for place in places:
        state = inspect_database(backend, place).state
        assert state in (SchemaState.ABSENT, SchemaState.CURRENT)
        there.append(state is SchemaState.CURRENT)
        if state is SchemaState.ABSENT:
            create_database(backend, place)
        assert Ledger(backend, place).content().versions == {"metrics": schema.VERSION}
    assert {*there} == {True, False}


@pytest.mark.parametrize("act", ["create", "migrate"])
def test_a_postgresql_is_of_one_version_or_the_other(act: str, postgres: PostgresServer) -> None:
    with ExitStack() as stack:
        ledgers = [
            Ledger(StorageBackend.POSTGRES, stack.enter_context(postgres.database())) for _ in range(POINTS)
        ]
        if act == "migrate":
            for ledger in ledgers:
                ledger.make(1, ROWS[:3])
        administer(act, StorageBackend.POSTGRES, [ledger.place for ledger in ledgers])
        before = SchemaState.ABSENT if act == "create" else SchemaState.OUTDATED
        new = ledgers[0].content()
        found = []
        for ledger in ledgers:
            found.append(inspect_database(ledger.backend, ledger.place).state)
            if found[-1] is SchemaState.OUTDATED:
                assert ledger.content().rows == new.rows
                migrate_database(ledger.backend, ledger.place)
            elif found[-1] is SchemaState.ABSENT:
                create_database(ledger.backend, ledger.place)
            assert ledger.content() == new
        assert {*found} == {before, SchemaState.CURRENT}
