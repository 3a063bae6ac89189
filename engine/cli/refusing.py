"""What must be put right before a command can run, in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from turnout.cli.exits import USAGE
from turnout.errors import ConfigError


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """End ``what`` with the line of a ``ConfigError``."""
    try:
        yield
    except ConfigError as error:
        typer.echo(f"{what}: {error}", err=True)
        raise typer.Exit(USAGE) from None
