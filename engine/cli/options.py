"""Options that several commands have."""

from typing import Annotated

import typer

Unencrypted = Annotated[
    bool,
    typer.Option("--allow-unencrypted", help="Let the PostgreSQL URL's sslmode be one that may not encrypt."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
