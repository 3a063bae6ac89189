"""`turnout storage`: its commands, their options and their help."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnout.cli import texts
from turnout.cli.exits import ending_at_ctrl_c, ending_unread
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
Unencrypted = Annotated[
    bool,
    typer.Option("--allow-unencrypted", help="Let the PostgreSQL URL's sslmode be one that may not encrypt."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Backup = Annotated[
    Path | None,
    typer.Option("--backup", help="Where to put a copy first; nothing may be there.", show_default=False),
]


@storage.command(help=texts.STORAGE_INSPECT)
def inspect(
    backend: Backend,
    default: Default = False,
    path: File = None,
    url: Url = None,
    allow_unencrypted: Unencrypted = False,
    json: Json = False,
) -> None:
    def run(place: "Place") -> int:
        from turnout.cli.storage import run_inspect

        return run_inspect(place, json=json)

    _run("inspect", backend, default, path, url, allow_unencrypted, run)


@storage.command(help=texts.STORAGE_CREATE)
def create(
    backend: Backend,
    default: Default = False,
    path: File = None,
    url: Url = None,
    allow_unencrypted: Unencrypted = False,
    json: Json = False,
) -> None:
    def run(place: "Place") -> int:
        from turnout.cli.storage import run_create

        return run_create(place, json=json)

    _run("create", backend, default, path, url, allow_unencrypted, run)


@storage.command(help=texts.STORAGE_MIGRATE)
def migrate(
    backend: Backend,
    default: Default = False,
    path: File = None,
    url: Url = None,
    allow_unencrypted: Unencrypted = False,
    backup: Backup = None,
    json: Json = False,
) -> None:
    def run(place: "Place") -> int:
        from turnout.cli.storage import run_migrate

        return run_migrate(place, backup, json=json)

    _run("migrate", backend, default, path, url, allow_unencrypted, run)


def _run(
    command: str,
    backend: StorageBackend,
    default: bool,
    path: Path | None,
    url: str | None,
    allow_unencrypted: bool,
    run: "Callable[[Place], int]",
) -> None:
    with ending_unread(), refusing(f"turnout storage {command}"), ending_at_ctrl_c():
        from turnout.cli.storage import place_of

        code = run(place_of(backend, path, url, default=default, allow_unencrypted=allow_unencrypted))
    raise typer.Exit(code)
