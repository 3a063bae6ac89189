"""Without its packages the command says so in one line; the library does not need them."""

import subprocess
import sys

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
        ("duckdb", ("stats",), "a DuckDB ledger needs duckdb, which is not installed"),
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
