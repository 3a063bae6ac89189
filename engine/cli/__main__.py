"""``python -m turnout.cli``: the command, where it is not on the path."""

from turnout.cli.app import main

main()
