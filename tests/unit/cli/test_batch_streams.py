"""What a batch reads from and writes to, before it runs."""

import sys
from pathlib import Path

import pytest

from turnout import ConfigError
from turnout.cli.batch import _input, _output


def test_lines_are_counted_as_they_will_be_run(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"{}\n\n  \r\n{}\n{}")
    with _input(source) as (lines, total):
        assert total == 3
        assert len(lines.readlines()) == 5


def test_a_standard_stream_that_is_closed_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(ConfigError, match="standard input is closed; name a file"), _input(Path("-")):
        pass
    with pytest.raises(ConfigError, match="standard output is closed; name a file"):
        _output(Path("-"), resume=False)
