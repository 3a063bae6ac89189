"""The console script. It starts without typer and rich, so that it can say that they are missing."""

from turnout.cli.exits import end_orderly_at_ctrl_c, ending_at_ctrl_c
from turnout.cli.extras import require


def main() -> None:
    """Run ``turnout`` with the process's own arguments."""
    end_orderly_at_ctrl_c()
    with ending_at_ctrl_c():
        require("the turnout command", ("typer", "rich"))
        from turnout.cli.commands import app

        app(prog_name="turnout")
