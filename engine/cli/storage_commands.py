"""`turnout storage`: its commands, their options and their help."""

import inspect as inspecting
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnout.cli import texts
from turnout.cli.exits import ending_at_ctrl_c, ending_unread
from turnout.cli.options import Json, Unencrypted
from turnout.cli.refusing import refusing
from turnout.storage.schema.facts import StorageBackend

if TYPE_CHECKING:
    from turnout.cli.storage import Place

storage = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")

Backend = Annotated[StorageBackend, typer.Option(metavar="BACKEND", help="duckdb, sqlite or postgres.")]
Default = Annotated[
    bool, typer.Option("--default", help="DuckDB's default file, or the PostgreSQL of TURNOUT_POSTGRES_URL.")
]
File = Annotated[
    Path | None, typer.Option("--path", help="The file of a DuckDB or SQLite.", show_default=False)
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="The URL of a PostgreSQL; better in TURNOUT_POSTGRES_URL.", show_default=False
    ),
]
Backup = Annotated[
    Path | None,
    typer.Option("--backup", help="Where to put a copy first; nothing may be there.", show_default=False),
]


def _place(
    backend: Backend,
    default: Default = False,
    path: File = None,
    url: Url = None,
    allow_unencrypted: Unencrypted = False,
) -> "Place":
    from turnout.cli.storage import place_of

    return place_of(backend, path, url, default=default, allow_unencrypted=allow_unencrypted)


def _command(help_text: str) -> Callable[[Callable[..., int]], Callable[..., None]]:
    """Makes a command of a function that is given a place and gives back an exit code: it has the options that name the
    place, and those that the function has beside."""
    naming = inspecting.signature(_place).parameters

    def made(run: Callable[..., int]) -> Callable[..., None]:
        _, *own = inspecting.signature(run).parameters.values()

        def command(**given: Any) -> None:
            named = {name: given.pop(name) for name in naming}
            with ending_unread(), refusing(f"turnout storage {run.__name__}"), ending_at_ctrl_c():
                code = run(_place(**named), **given)
            raise typer.Exit(code)

        options = [*naming.values(), *own]
        command.__signature__ = inspecting.Signature(options)  # type: ignore[attr-defined]
        command.__annotations__ = {option.name: option.annotation for option in options}
        return storage.command(run.__name__, help=help_text)(command)

    return made


@_command(texts.STORAGE_INSPECT)
def inspect(place: "Place", json: Json = False) -> int:
    from turnout.cli.storage import run_inspect

    return run_inspect(place, json=json)


@_command(texts.STORAGE_CREATE)
def create(place: "Place", json: Json = False) -> int:
    from turnout.cli.storage import run_create

    return run_create(place, json=json)


@_command(texts.STORAGE_MIGRATE)
def migrate(place: "Place", backup: Backup = None, json: Json = False) -> int:
    from turnout.cli.storage import run_migrate

    return run_migrate(place, backup, json=json)
