"""The SDK that calls are made with, loaded at a time of our choosing."""

import importlib
from typing import Final

_MODULES: Final = ("openai", "openai.resources.chat.completions", "openai.resources.responses")


def load_sdk() -> None:
    """Import what the first calls would import, which takes a second or more: so that it is not taken for the latency
    of a provider, and Ctrl-C finds no worker in the middle of it."""
    for module in _MODULES:
        importlib.import_module(module)
