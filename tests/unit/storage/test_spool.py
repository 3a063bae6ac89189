"""Rows that wait in files: nothing that was taken is lost, and nothing is given twice."""

import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from loguru import logger

from turnout.errors import StorageError
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.rows import Row
from turnout.storage.spool import Spool, TakenIn
from turnout.testing import ManualClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_row(number: int, **known: Any) -> Row:
    identity = f"01900000-0000-7000-8000-{number:012x}"
    head = (identity, identity, 1, "primary", NOON, "scope", "a", "A", None, None, "regular", True, "ok")
    row = Row(*head, None, None, 1.0, 1.0, 0.0, None, None, None, None, "unknown", None, None)
    return row._replace(**known)


def rows_of(first: int, last: int) -> list[Row]:
    return [a_row(number) for number in range(first, last + 1)]


def nothing_with(_: Sequence[Row]) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "made" / "metrics.spool"


@pytest.fixture
def spool(folder: Path) -> Any:
    spool = Spool(folder)
    yield spool
    spool.close()


@pytest.fixture
def warnings() -> Any:
    told: list[str] = []
    sink = logger.add(lambda message: told.append(message.record["message"]), level="WARNING")
    yield told
    logger.remove(sink)


def taken(spool: Spool, **how: Any) -> list[Row]:
    rows: list[Row] = []
    spool.taken_in(rows.extend, **how)
    return rows


def test_a_spool_that_nobody_appends_to_touches_nothing(folder: Path, spool: Spool) -> None:
    assert spool.is_empty
    assert spool.taken_in(nothing_with) == TakenIn()
    spool.append([])
    spool.seal()
    assert not folder.parent.exists()


def test_rows_come_back_as_they_were_and_once(folder: Path, spool: Spool) -> None:
    rows = rows_of(1, 7)
    spool.append(rows[:4])
    spool.append(rows[4:], durable=True)
    assert not spool.is_empty

    store = MemoryMetricsStore()
    assert spool.taken_in(store.record_attempts) == TakenIn(rows=7, files=1)
    assert store.query_recent(since=NOON) == rows
    assert Spool(folder).is_empty
    assert list(folder.iterdir()) == []
    assert taken(spool) == []


def test_rows_are_given_oldest_file_first_and_in_bounded_batches(folder: Path) -> None:
    rows, clock = rows_of(1, 12_000), ManualClock()
    first, second = Spool(folder, clock=clock), Spool(folder, clock=clock)
    first.append(rows[:6_000])
    first.seal()
    clock.advance(0.001)
    second.append(rows[6_000:6_001])
    clock.advance(0.001)
    first.append(rows[6_001:])
    first.seal()
    second.seal()
    batches: list[Sequence[Row]] = []
    assert Spool(folder).taken_in(batches.append).files == 3
    assert [len(batch) for batch in batches] == [5_000, 1_000, 1, 5_000, 999]
    assert [row for batch in batches for row in batch] == rows


def test_a_new_file_begins_where_one_has_its_size(folder: Path) -> None:
    spool = Spool(folder, file_bytes=2_000)
    for row in rows_of(1, 20):
        spool.append([row])
    spool.seal()
    sizes = [path.stat().st_size for path in folder.iterdir()]
    assert len(sizes) > 2
    assert max(sizes) < 2_000 + 400
    assert taken(spool) == rows_of(1, 20)


def test_rows_of_an_earlier_run_are_taken_in_whether_sealed_or_left_behind(folder: Path) -> None:
    earlier = Spool(folder)
    earlier.append(rows_of(1, 2))
    earlier.close()
    earlier.append(rows_of(3, 3))
    # What becomes of an open file when its process is gone: the lock goes, the name stays.
    earlier.forget_parent()
    assert sorted(path.suffix for path in folder.iterdir()) == [".open", ".rows"]
    assert taken(Spool(folder)) == rows_of(1, 3)
    assert list(folder.iterdir()) == []


def test_the_file_of_a_spool_in_use_is_left_to_it(folder: Path, spool: Spool) -> None:
    spool.append(rows_of(1, 1))
    other = Spool(folder)
    assert not other.is_empty
    assert taken(other) == []
    spool.append(rows_of(2, 2))
    assert taken(spool) == rows_of(1, 2)


def test_a_spool_can_be_asked_for_its_own_files_alone(folder: Path, spool: Spool) -> None:
    other = Spool(folder)
    other.append(rows_of(1, 1))
    other.seal()
    spool.append(rows_of(2, 2))
    assert taken(spool, only=spool.mine) == rows_of(2, 2)
    assert taken(spool, only=spool.mine) == []
    assert taken(spool) == rows_of(1, 1)


def test_a_store_that_fails_leaves_the_file_whole(spool: Spool) -> None:
    spool.append(rows_of(1, 6_000))
    given: list[Row] = []

    def write(rows: Sequence[Row]) -> None:
        if given:
            raise OSError("gone again")
        given.extend(rows)

    with pytest.raises(OSError, match="gone again"):
        spool.taken_in(write)
    assert len(given) == 5_000
    assert not spool.is_empty
    assert taken(spool) == rows_of(1, 6_000)


def test_rows_may_be_spooled_while_others_are_taken_in(spool: Spool) -> None:
    spool.append(rows_of(1, 2))
    assert spool.taken_in(lambda _: spool.append(rows_of(3, 4))) == TakenIn(rows=2, files=1)
    assert taken(spool) == rows_of(3, 4)


def test_two_that_take_in_at_once_share_the_files(folder: Path) -> None:
    spool = Spool(folder, file_bytes=1)
    rows = rows_of(1, 60)
    for row in rows:
        spool.append([row])
    given: list[list[Row]] = [[], []]
    store, start = MemoryMetricsStore(), threading.Barrier(2)

    def take(mine: list[Row]) -> None:
        def write(batch: Sequence[Row]) -> None:
            store.record_attempts(batch)
            mine.extend(batch)

        start.wait(30)
        Spool(folder).taken_in(write)

    threads = [threading.Thread(target=take, args=(mine,)) for mine in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(given[0] + given[1]) == rows
    assert store.query_recent(since=NOON) == rows
    assert spool.is_empty


def test_what_is_being_taken_in_is_left_to_who_does(folder: Path, spool: Spool) -> None:
    spool.append(rows_of(1, 1))
    meanwhile: list[Row] = []
    spool.taken_in(lambda _: meanwhile.extend(taken(Spool(folder))))
    assert meanwhile == []
    assert spool.is_empty


def test_files_and_folders_are_private_from_their_first_moment(folder: Path) -> None:
    before = os.umask(0)
    try:
        spool = Spool(folder)
        spool.append(rows_of(1, 1), durable=True)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder)}
        assert modes == {"made": 0o700, "metrics.spool": 0o700}
        (file,) = folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        spool.seal()
        (file,) = folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        lines = file.read_bytes()
        file.write_bytes(lines.replace(b'"primary"', b'"Primary"') + lines)
        spool.taken_in(nothing_with)
        (file,) = folder.iterdir()
        assert file.suffix == ".damaged"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_a_file_in_the_folders_place_is_refused_with_what_to_do(tmp_path: Path) -> None:
    in_the_way = tmp_path / "spool"
    in_the_way.write_text("mine")
    for folder in (in_the_way, in_the_way / "below"):
        spool = Spool(folder)
        assert spool.is_empty
        with pytest.raises(StorageError, match="another spool_dir") as refused:
            spool.append(rows_of(1, 1))
        assert str(folder) in str(refused.value)
    assert in_the_way.read_text() == "mine"

    in_the_way.unlink()
    spool.append(rows_of(1, 1))
    assert taken(spool) == rows_of(1, 1)


def test_rows_go_on_being_kept_where_somebody_deleted_the_folder(folder: Path, spool: Spool) -> None:
    spool.append(rows_of(1, 1))
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    spool.append(rows_of(2, 2))
    assert taken(spool) == rows_of(2, 2)


def test_what_is_not_a_spool_file_is_left_alone(
    folder: Path, spool: Spool, tmp_path: Path, warnings: list[str]
) -> None:
    spool.append(rows_of(1, 1))
    spool.seal()
    (real,) = folder.iterdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = real.rename(elsewhere / real.name)
    (folder / f"{'0' * 32}-1.rows").symlink_to(target)
    (folder / f"{'1' * 32}-1.rows").mkdir()
    os.mkfifo(folder / f"{'2' * 32}-1.rows")
    (folder / "notes.rows").write_text("mine")
    (folder / f"{'3' * 32}-1.damaged").write_text("kept")
    assert spool.is_empty
    assert taken(spool) == []
    assert len(list(folder.iterdir())) == 5
    assert target.exists()
    assert warnings == []


def test_a_file_of_another_user_is_told_of_once_and_left_alone(
    folder: Path, spool: Spool, warnings: list[str]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    spool.append(rows_of(1, 1))
    spool.seal()
    (file,) = folder.iterdir()
    os.chown(file, 12_345, -1)
    assert taken(spool) == taken(spool) == []
    assert file.exists()
    assert spool.is_empty
    (warning,) = warnings
    assert str(file) in warning
    assert "12345" in warning


def test_a_file_that_a_newer_turnout_wrote_is_told_of_once_and_left_for_it(
    folder: Path, spool: Spool, warnings: list[str]
) -> None:
    spool.append(rows_of(1, 1))
    spool.seal()
    (file,) = folder.iterdir()
    text = file.read_text().splitlines(keepends=True)[0][9:-1].replace('"version": 1', '"version": 2')
    written = f"{crc32(text.encode()):08x} {text}\n"
    file.write_text(written)
    spool.append(rows_of(2, 2))
    assert taken(spool) == rows_of(2, 2)
    assert spool.taken_in(nothing_with) == TakenIn()
    assert spool.is_empty
    assert file.read_text() == written
    (warning,) = warnings
    assert f"{file} is of format 'turnout-spool' 2" in warning


def test_a_damaged_file_gives_its_good_rows_and_is_kept_for_people(
    folder: Path, spool: Spool, warnings: list[str]
) -> None:
    spool.append(rows_of(1, 5))
    spool.seal()
    (file,) = folder.iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    text = lines[2][9:-1].replace(b"1.0", b"true")
    lines[2] = b"%08x %s\n" % (crc32(text), text)
    lines[4] = b"junk\n"
    file.write_bytes(b"".join(lines))
    found: list[Row] = []
    assert spool.taken_in(found.extend) == TakenIn(rows=3, files=1, damaged_lines=2)
    assert found == [a_row(1), a_row(3), a_row(5)]
    aside = file.with_suffix(".damaged")
    assert aside.read_bytes() == b"".join(lines)
    assert spool.is_empty
    assert spool.taken_in(nothing_with) == TakenIn()
    (warning,) = warnings
    for part in (str(file), "line 3: latency_ms must be a number", "skipped: 2", aside.name):
        assert part in warning


def test_a_file_that_cannot_be_opened_for_the_moment_is_told_of_once_and_tried_again(
    folder: Path, spool: Spool, warnings: list[str]
) -> None:
    spool.append(rows_of(1, 1))
    file, program = folder / f"{'0' * 32}-1.rows", shutil.which("sleep")
    assert program is not None
    shutil.copy(program, file)
    # A program that runs is not opened for writing by anyone.
    with subprocess.Popen(["sleep", "50"], executable=file) as running:
        assert taken(spool) == rows_of(1, 1)
        assert spool.taken_in(nothing_with) == TakenIn()
        assert not spool.is_empty
        (warning,) = warnings
        assert f"{file} cannot be opened" in warning
        running.kill()
    assert spool.taken_in(nothing_with).files == 1


@pytest.mark.parametrize(
    ("known", "named"),
    [
        ({"attempt_id": "x"}, "attempt_id"),
        ({"provider_name": "a\0b"}, "provider_name"),
        ({"error_code": "\ud800"}, "error_code"),
        ({"total_duration_ms": float("nan")}, "total_duration_ms"),
        ({"total_duration_ms": None}, "total_duration_ms"),
        ({"latency_ms": True}, "latency_ms"),
        ({"cost_usd": "1"}, "cost_usd"),
        ({"input_tokens": 2**63}, "input_tokens"),
        ({"http_status": 2**31}, "http_status"),
        ({"attempt_number": "1"}, "attempt_number"),
        ({"attempt_number": 1.5}, "attempt_number"),
        ({"started_at": NOON.replace(tzinfo=None)}, "started_at"),
        ({"started_at": datetime.min.replace(tzinfo=UTC)}, "started_at"),
        ({"metrics_scope": ["a"]}, "spooled"),
        ({"success": 2}, "success"),
    ],
    ids=str,
)
def test_a_row_that_no_store_would_take_costs_itself_alone(
    spool: Spool, warnings: list[str], known: dict[str, Any], named: str
) -> None:
    bad = a_row(3, **known)
    assert spool.append([a_row(1), a_row(2), bad, a_row(4)]) == 3
    assert spool.append([bad]) == 0
    assert spool.left_out == 2
    assert taken(spool) == [a_row(1), a_row(2), a_row(4)]
    (warning,) = warnings
    assert named in warning
    assert "left out" in warning


def test_rows_that_are_left_out_are_counted_once_they_would_have_been_kept(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    spool = Spool(tmp_path / "spool")
    rows = [*rows_of(1, 5_100), a_row(5_101, attempt_id="x"), a_row(5_102)]
    with pytest.raises(StorageError):
        spool.append(rows)
    assert spool.left_out == 0
    (tmp_path / "spool").unlink()
    assert spool.append(rows) == 5_101
    assert taken(spool) == [*rows_of(1, 5_100), a_row(5_102)]
