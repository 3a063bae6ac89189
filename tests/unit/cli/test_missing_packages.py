"""Without its packages the command says so in one line; the library does not need them."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = "from turnout.cli.app import main; main()"


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=50
    )


@pytest.mark.parametrize(
    ("missing", "arguments", "what"),
    [
        ("typer", (), "the turnout command needs typer, which is not installed"),
        ("rich", ("demo",), "the turnout command needs rich, which is not installed"),
        ("openai", ("demo",), "turnout demo needs openai, which is not installed"),
        ("duckdb", ("demo",), "turnout demo needs duckdb, which is not installed"),
        ("h11", ("simulate",), "turnout simulate needs h11, which is not installed"),
        (
            "openai",
            ("batch", "a", "--config", "b", "--out", "c"),
            "turnout batch needs openai, which is not installed",
        ),
    ],
)
def test_a_missing_package_is_one_line_that_names_the_extra(
    missing: str, arguments: tuple[str, ...], what: str
) -> None:
    ended = python(f"import sys; sys.modules[{missing!r}] = None; {RUN}", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f'{what}: pip install "turnout[all]"\n'


@pytest.mark.parametrize(("missing", "backend"), [("duckdb", "duckdb"), ("psycopg", "postgres")])
def test_a_ledger_whose_driver_is_missing_says_so_in_one_line(
    missing: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNOUT_POSTGRES_URL", "postgresql://nobody@127.0.0.1/nothing")
    (tmp_path / "ledger").touch()
    place = ["--path", str(tmp_path / "ledger")] if backend == "duckdb" else []
    without = f"import sys; sys.modules[{missing!r}] = None; {RUN}"
    ended = python(without, "stats", "--backend", backend, *place)
    assert (ended.returncode, ended.stdout) == (6, "")
    assert ended.stderr == (
        f"turnout stats: the driver that a {backend} ledger needs is not installed: "
        f'pip install "turnout[{backend}]"\n'
    )


def test_several_missing_packages_are_one_line() -> None:
    ended = python(f"import sys; sys.modules['openai'] = sys.modules['duckdb'] = None; {RUN}", "demo")
    assert ended.returncode == 2
    assert ended.stderr == (
        'turnout demo needs openai and duckdb, which are not installed: pip install "turnout[all]"\n'
    )


def test_the_library_loads_nothing_of_the_command() -> None:
    ended = python(
        "import sys, turnout, turnout.batch; "
        "print([name for name in ('typer', 'rich', 'h11', 'openai', 'duckdb') if name in sys.modules])"
    )
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr
