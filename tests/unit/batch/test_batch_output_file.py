"""The output file: private, whole lines, one writer, and taken up again after any end."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnout import ConfigError
from turnout.batch import OutputFile


def output(custom_id: str | None, status: int | None = 200, error: Any = None) -> bytes:
    response: Any = None if status is None else {"status_code": status, "request_id": None, "body": {}}
    line = {"id": f"batch_req_{custom_id}", "custom_id": custom_id, "response": response, "error": error}
    return json.dumps(line).encode() + b"\n"


A, B = output("a"), output("b")
REFUSED = output("refused", 500)
FAILED = output("failed", None, {"code": "timeout", "message": ""})
BAD = output(None, None, {"code": "invalid_line", "message": ""})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def test_a_new_file_is_private_and_has_each_line_at_once(path: Path) -> None:
    with OutputFile.new(path) as file:
        assert file.answered == frozenset()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        file.write(A)
        assert path.read_bytes() == A
        file.write(B)
        assert path.read_bytes() == A + B


def test_a_file_that_is_there_is_never_begun_anew(path: Path) -> None:
    path.write_bytes(A)
    with pytest.raises(ConfigError, match=r"out.jsonl is there already; go on with it \(--resume\)"):
        OutputFile.new(path)
    assert path.read_bytes() == A


def test_a_folder_that_is_not_there_is_said(path: Path) -> None:
    problem = "cannot be made: No such file or directory; name a file in a folder that exists"
    with pytest.raises(ConfigError, match=problem):
        OutputFile.new(path / "deeper")


def test_a_resumed_file_that_is_not_there_is_made(path: Path) -> None:
    with OutputFile.resumed(path) as file:
        assert file.answered == frozenset()
    assert path.read_bytes() == b""


def test_a_resumed_file_is_appended_to(path: Path) -> None:
    path.write_bytes(A)
    with OutputFile.resumed(path) as file:
        assert file.answered == {"a"}
        file.write(B)
    assert path.read_bytes() == A + B


@pytest.mark.parametrize("cut", range(1, len(B)))
def test_a_line_cut_off_anywhere_is_taken_out(path: Path, cut: int) -> None:
    path.write_bytes(A + B[:cut])
    with OutputFile.resumed(path) as file:
        assert file.answered == {"a"}
        file.write(B)
    assert path.read_bytes() == A + B


def test_failures_are_taken_out_to_be_run_again(path: Path) -> None:
    path.write_bytes(FAILED + A + BAD + REFUSED + B + A + b'{"id": "batch_')
    with OutputFile.resumed(path) as file:
        assert file.answered == {"a", "b"}
        assert path.read_bytes() == A + B
        file.write(REFUSED)
    assert path.read_bytes() == A + B + REFUSED
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_link_is_followed(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_bytes(A + FAILED)
    path.symlink_to(real)
    OutputFile.resumed(path).close()
    assert path.is_symlink()
    assert real.read_bytes() == A


@pytest.mark.parametrize(
    "found",
    [
        b"my notes",
        b"my notes\n",
        A + b"my notes\n" + B,
        b'{"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": {}}\n',
        b'{"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": {}}',
        b"[]\n",
    ],
)
def test_a_file_that_is_no_batch_output_is_refused_and_left_alone(path: Path, found: bytes) -> None:
    path.write_bytes(found)
    with pytest.raises(ConfigError, match=r"out.jsonl, line \d is not a line of batch output"):
        OutputFile.resumed(path)
    assert path.read_bytes() == found


@pytest.mark.parametrize("earlier", [b"", A, A + FAILED])
def test_one_batch_at_a_time_has_the_file(path: Path, earlier: bytes) -> None:
    path.write_bytes(earlier)
    with (
        OutputFile.resumed(path),
        pytest.raises(ConfigError, match=r"another process is writing .*out.jsonl; wait for it, or stop it"),
    ):
        OutputFile.resumed(path)
    OutputFile.resumed(path).close()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_cannot_be_gone_on_with(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    with pytest.raises(ConfigError, match="no regular file"):
        OutputFile.resumed(path)
