"""`turnout batch`: a file of calls through the providers of a configuration."""

import errno
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final

from rich.console import Console

from turnout.batch import OutputFile, run_batch
from turnout.cli.batch_view import BatchView
from turnout.cli.exits import FAILED, INTERRUPTED, UNREAD, comes_of_ctrl_c, stop_if_pressed
from turnout.cli.log import log_to
from turnout.cli.sdk import load_sdk
from turnout.config import PoolConfig, ProviderConfig
from turnout.errors import ConfigError, ThreadsStillRunningError
from turnout.router import ProviderRouter
from turnout.toml import settings_from_toml

_STANDARD: Final = Path("-")
#: How long calls that were cut may take to let go, after Ctrl-C.
_LET_GO_SECONDS: Final = 1.0


def run_batch_command(source: Path, config: Path, out: Path, workers: int | None, *, resume: bool) -> int:
    """Run it, show it on stderr, and give back the exit code. Raises ``ConfigError`` where nothing can be run."""
    console = Console(stderr=True)
    load_sdk()
    stop_if_pressed()
    with _input(source) as (lines, total):
        live = console.is_interactive and not (out == _STANDARD and sys.stdout.isatty())
        view = BatchView(console, total, live=live)
        try:
            with (
                log_to(lambda level, text: view.say(f"{level.lower()}: {text}")),
                _router(_settings(config, workers), view) as router,
                _output(out, resume=resume) as output,
                view,
            ):
                counts = run_batch(
                    router,
                    _until_pressed(lines),
                    output.write,
                    answered_before=output.answered,
                    on_line=view.line_ended,
                )
        except BaseException as error:
            done = f"{view.summary()}; what is done is kept{_how_to_go_on(out)}."
            if comes_of_ctrl_c(error):
                view.say(f"Stopped: {done}")
                return INTERRUPTED
            if isinstance(error, OSError):
                view.say(f"Stopped: {_trouble(error)}; {done}")
                return FAILED
            raise
    where = "" if out == _STANDARD else f"; the lines are in {out}"
    view.say(f"{view.summary()}{where}")
    return FAILED if counts.failed or counts.invalid else 0


def _how_to_go_on(out: Path) -> str:
    return "" if out == _STANDARD else ", and --resume goes on"


def _trouble(error: OSError) -> str:
    if error.errno == errno.EPIPE:
        return UNREAD
    return f"reading or writing failed: {error.strerror or error}"


@contextmanager
def _input(source: Path) -> Iterator[tuple[BinaryIO, int | None]]:
    """The lines, and how many there are where that can be counted."""
    if source == _STANDARD:
        if sys.stdin is None:
            raise ConfigError("standard input is closed; name a file")
        yield sys.stdin.buffer, None
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(source.open("rb"))
            total = _count_lines(file) if stat.S_ISREG(source.stat().st_mode) else None
        except OSError as error:
            raise ConfigError(
                f"{source} cannot be read: {error.strerror}; check the path, and that you may read it"
            ) from error
        yield file, total


def _until_pressed(lines: BinaryIO) -> Iterator[bytes]:
    """Each line, while nobody has pressed Ctrl-C."""
    for line in lines:
        stop_if_pressed()
        yield line


def _count_lines(file: BinaryIO) -> int:
    count = sum(1 for line in file if line.strip())
    file.seek(0)
    return count


def _settings(config: Path, workers: int | None) -> dict[str, Any]:
    settings = settings_from_toml(config)
    if workers is not None:
        settings["pool"] = PoolConfig(**{**settings["pool"].model_dump(), "max_workers": workers})
    _refuse_without_key(config, settings["providers"])
    return settings


def _refuse_without_key(config: Path, providers: Iterable[ProviderConfig]) -> None:
    """Every line would fail, each for the same reason."""
    enabled = [provider for provider in providers if provider.enabled]
    if not enabled:
        raise ConfigError(f"{config}: every provider is disabled; set enabled = true")
    if not any(provider.has_key() for provider in enabled):
        wanted = sorted({provider.api_key_env for provider in enabled if provider.api_key_env})
        step = f"set {' or '.join(wanted)} in the environment" if wanted else "give a provider an api_key_env"
        raise ConfigError(f"{config}: no provider has an API key; {step}")


def _output(out: Path, *, resume: bool) -> OutputFile:
    if out != _STANDARD:
        return OutputFile.resumed(out) if resume else OutputFile.new(out)
    if resume:
        raise ConfigError("--resume needs a file: standard output cannot be read again")
    if sys.stdout is None:
        raise ConfigError("standard output is closed; name a file")
    # Past Python's own buffer, which would try again at exit what the reader of a pipe no longer takes.
    return OutputFile(FileIO(sys.stdout.fileno(), "wb", closefd=False))


@contextmanager
def _router(settings: dict[str, Any], view: BatchView) -> Iterator[ProviderRouter]:
    router = ProviderRouter(**settings)
    patience: float | None = _LET_GO_SECONDS
    try:
        yield router
        patience = None
    finally:
        try:
            router.close(patience)
        except ThreadsStillRunningError as error:
            view.say(f"warning: {error}")
