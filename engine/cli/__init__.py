"""The command ``turnout``."""
