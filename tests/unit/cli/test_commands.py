"""The command line itself: help, versions, and errors of usage, each with its exit code."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from turnout.cli.commands import app
from turnout.cli.simulate import _EVERYDAY
from turnout.toml import settings_from_toml

RUNNER = CliRunner()
PROVIDER = """
[[providers]]
provider_id = "p"
name = "P"
protocol = "openai_chat"
model = "m"
"""
NO_LEDGER = '[metrics_store]\nbackend = "none"\n'
Files = Callable[..., list[str]]


def run(*arguments: str, columns: int = 200) -> Result:
    return RUNNER.invoke(app, arguments, env={"COLUMNS": str(columns), "TERM": "dumb"})


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """The arguments of a batch over files that are there."""

    def make(config: str = PROVIDER + 'api_key = "k"\n' + NO_LEDGER, **named: str) -> list[str]:
        source, toml = tmp_path / "in.jsonl", tmp_path / "turnout.toml"
        source.write_text("")
        toml.write_text(config)
        paths = {"IN": str(source), "toml": str(toml), "out": str(tmp_path / "out.jsonl"), **named}
        return [paths["IN"], "--config", paths["toml"], "--out", paths["out"]]

    return make


@pytest.mark.parametrize(
    "command",
    [(), ("demo",), ("batch",), ("stats",), ("simulate",), ("storage",)]
    + [("storage", command) for command in ("inspect", "create", "migrate")],
)
def test_every_help_shows_examples(command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert f"turnout {' '.join(command) or 'demo'}" in result.stdout


def test_the_help_of_batch_says_what_a_user_must_know() -> None:
    shown = " ".join(run("batch", "--help").stdout.split())
    assert "The model in body is replaced" in shown
    assert '"stream": true is refused' in shown
    assert "Exit codes: 0 all answered, 1 some were not, 2 nothing was run, 130 Ctrl-C." in shown
    assert "[[providers]]" in shown


def test_the_configuration_that_the_help_shows_works_as_it_is_copied_from_80_columns(tmp_path: Path) -> None:
    shown = [line.rstrip() for line in run("batch", "--help", columns=80).stdout.splitlines()]
    sample = shown[shown.index(" A configuration, turnout.toml:") + 1 :]
    file = tmp_path / "turnout.toml"
    file.write_text("\n".join(sample[: sample.index("")]))
    settings = settings_from_toml(file)
    assert settings["metrics_scope"] == "my-batch"
    assert [config.api_key_env for config in settings["providers"]] == ["OPENAI_API_KEY"]


def test_the_help_of_simulate_names_its_providers_and_where_to_script_others() -> None:
    shown = " ".join(run("simulate", "--help").stdout.split())
    names = [provider.name for provider, _ in _EVERYDAY]
    assert f"{', '.join(names[:-1])} and {names[-1]};" in shown
    assert "turnout.testing.simulator" in shown


def test_the_help_says_with_what_a_command_ends_whose_output_nobody_reads() -> None:
    for command, code in (("demo", "1 some did not or"), ("simulate", "1 the port cannot be listened on or")):
        assert f"{code} nobody read" in " ".join(run(command, "--help").stdout.split())


def test_the_version_is_told() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("turnout ")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("batch",),
        ("batch", "in.jsonl"),
        ("demo", "--calls", "0"),
        ("demo", "--calls", "many"),
        ("simulate", "--port", "70000"),
        ("stats", "--backend", "oracle"),
        ("stats", "--call-type", "both"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def refused(result: Result) -> str:
    """The one line that says why nothing was run."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("turnout batch: ")
    return line


def test_a_ledger_that_is_no_file_is_refused() -> None:
    result = run("demo", "--database", ":memory:")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("turnout demo: ':memory:' is not a file path")


def test_a_batch_without_its_input_is_refused(files: Files) -> None:
    line = refused(run("batch", *files(IN="nowhere.jsonl")))
    assert "nowhere.jsonl cannot be read: No such file" in line
    assert line.endswith("; check the path, and that you may read it")


def test_a_batch_without_its_configuration_is_refused(files: Files) -> None:
    assert "nowhere.toml cannot be read" in refused(run("batch", *files(toml="nowhere.toml")))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("x = [", "is not TOML"),
        (PROVIDER + 'api_key = "k"\ntimeout = 3', "timeout is no known field"),
        ("", "providers: Field required"),
        (PROVIDER + 'api_key = "k"\n' + PROVIDER + NO_LEDGER, "given twice: p"),
        (PROVIDER, "no provider has an API key; give a provider an api_key_env"),
        (
            PROVIDER + 'api_key_env = "TURNOUT_TEST_NO_SUCH_KEY"\n' + NO_LEDGER,
            "no provider has an API key; set TURNOUT_TEST_NO_SUCH_KEY in the environment",
        ),
        (PROVIDER + 'api_key = "k"\nenabled = false\n' + NO_LEDGER, "every provider is disabled"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_output(
    files: Files, tmp_path: Path, config: str, problem: str
) -> None:
    assert problem in refused(run("batch", *files(config)))
    assert not (tmp_path / "out.jsonl").exists()


def test_an_output_that_is_there_is_refused(files: Files, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("precious")
    assert "is there already" in refused(run("batch", *files()))
    assert (tmp_path / "out.jsonl").read_text() == "precious"


def test_standard_output_cannot_be_resumed(files: Files) -> None:
    assert "--resume needs a file" in refused(run("batch", *files(out="-"), "--resume"))


def test_an_empty_batch_is_a_finished_one(files: Files, tmp_path: Path) -> None:
    result = run("batch", *files())
    assert result.exit_code == 0
    assert "0 answered, 0 failed" in result.stderr
    out = tmp_path / "out.jsonl"
    assert out.read_bytes() == b""
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_bad_lines_are_told_with_their_numbers_up_to_a_point(files: Files, tmp_path: Path) -> None:
    arguments = files()
    (tmp_path / "in.jsonl").write_text("nonsense\n" * 30)
    result = run("batch", *arguments)
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith("line 1: is not JSON: ")
    assert lines[19].startswith("line 20: is not JSON: ")
    assert lines[20] == "further failures are only in the output"
    assert lines[21].startswith("0 answered, 0 failed, 30 bad lines in ")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["error"]["message"].partition(":")[0] for line in written] == [
        f"line {n}" for n in range(1, 31)
    ]
