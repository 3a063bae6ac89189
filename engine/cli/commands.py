"""The commands, their options and their help."""

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from turnout.calls import CallType
from turnout.cli import texts
from turnout.cli.exits import ending_at_ctrl_c, ending_unread
from turnout.cli.extras import require
from turnout.cli.ledgers import Backend
from turnout.cli.options import Json, Unencrypted
from turnout.cli.refusing import refusing
from turnout.cli.storage_commands import storage
from turnout.config import MOST_WORKERS

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False
)
app.add_typer(storage, name="storage", help=texts.STORAGE)


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"turnout {version('turnout')}")
    except PackageNotFoundError:
        typer.echo("turnout (not installed as a package)")
    raise typer.Exit


@app.callback(help=texts.ROOT)
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


@app.command(help=texts.DEMO)
def demo(
    calls: Annotated[int, typer.Option(min=1, help="How many calls to make.")] = 200,
    database: Annotated[
        Path | None,
        typer.Option(
            help="The ledger's DuckDB file.", show_default="~/.turnout/metrics.duckdb", dir_okay=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides which calls the providers fail.")] = 1,
) -> None:
    require("turnout demo", ("openai", "duckdb", "h11"))
    with ending_unread(), refusing("turnout demo"), ending_at_ctrl_c():
        from turnout.cli.demo import run_demo

        code = run_demo(calls, database, seed)
    raise typer.Exit(code)


@app.command(help=texts.BATCH)
def batch(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The input file; - is standard input.")],
    config: Annotated[Path, typer.Option(help="The router's TOML file.")],
    out: Annotated[Path, typer.Option(help="The output file; - is standard output.")],
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_WORKERS,
            help="How many calls run at once, and how many connections to a provider are kept.",
            show_default="pool.max_workers of the configuration, or 32",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an OUT that an earlier run has begun.")
    ] = False,
) -> None:
    require("turnout batch", ("openai",))
    with refusing("turnout batch"), ending_at_ctrl_c():
        from turnout.cli.batch import run_batch_command

        code = run_batch_command(source, config, out, workers, resume=resume)
    raise typer.Exit(code)


@app.command(help=texts.STATS)
def stats(
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="From when on: 90s, 15m, 24h or 7d ago, or an ISO date or time.",
            show_default="24h before --until",
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Up to when.", show_default="now")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A router's TOML file: the ledger is its metrics_store.")
    ] = None,
    backend: Annotated[
        Backend | None, typer.Option(help="What the ledger is.", show_default="duckdb")
    ] = None,
    path: Annotated[
        Path | None, typer.Option(help="Its file.", show_default="~/.turnout/metrics.duckdb")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Rows of this metrics_scope alone.")] = None,
    provider: Annotated[
        list[str] | None, typer.Option(help="This provider alone, by id or name; may be given again.")
    ] = None,
    call_type: Annotated[CallType | None, typer.Option(help="Calls of this kind alone.")] = None,
    allow_unencrypted: Unencrypted = False,
    json: Json = False,
) -> None:
    with ending_unread(), refusing("turnout stats"), ending_at_ctrl_c():
        from turnout.cli.ledgers import place_of
        from turnout.cli.moments import span_of
        from turnout.cli.stats import Question, run_stats

        start, end = span_of(since, until, datetime.now(UTC))
        place = place_of(config, backend, path, allow_unencrypted=allow_unencrypted)
        question = Question(start, end, scope, tuple(provider or ()), call_type)
        code = run_stats(place, question, json=json)
    raise typer.Exit(code)


@app.command(help=texts.SIMULATE)
def simulate(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8808,
) -> None:
    require("turnout simulate", ("h11",))
    with ending_unread(), ending_at_ctrl_c():
        from turnout.cli.simulate import run_simulator

        run_simulator(port)
