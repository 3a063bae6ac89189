"""The `turnout` command."""
