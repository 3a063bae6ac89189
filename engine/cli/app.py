"""The console script. It starts without typer and rich, so that it can say that they are missing."""

from turnout.cli.exits import ending_at_ctrl_c, ending_orderly
from turnout.cli.extras import require


def main() -> None:
    """Run ``turnout`` with the process's own arguments."""
    with ending_orderly(), ending_at_ctrl_c():
        require("the turnout command", ("typer", "rich"))
        from turnout.cli.commands import app

        app(prog_name="turnout")
