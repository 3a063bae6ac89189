"""The SDK that calls are made with, and the ledger's driver, loaded at a time of our choosing."""

import importlib
from contextlib import suppress
from typing import Final

from turnout.cli.exits import holding_ctrl_c

_MODULES: Final = ("openai", "openai.resources.chat.completions", "openai.resources.responses")


def load_sdk() -> None:
    """Import what the first calls would import, which takes a second or more: so that it is not taken for the latency
    of a provider, and Ctrl-C finds no worker in the middle of it."""
    for module in _MODULES:
        importlib.import_module(module)


def load_duckdb() -> None:
    """Import DuckDB, whose C++ aborts the process where an exception comes into the middle of it."""
    # One that cannot be imported is told of by who uses it.
    with holding_ctrl_c(), suppress(ImportError):
        importlib.import_module("duckdb")
