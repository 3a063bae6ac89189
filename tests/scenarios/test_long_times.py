"""Times longer than the clocks of the system hold are refused where they are given."""

from collections.abc import Callable
from typing import Any

import pytest

from turnout import ConfigError, ProviderRouter
from turnout.testing import ScriptedAdapters

PLAIN = {"provider_id": "p", "name": "p", "protocol": "openai_chat", "model": "m", "api_key": "k"}
LONG = 1e10


@pytest.mark.parametrize(
    ("provider", "settings"),
    [
        ({"timeout_seconds": LONG}, {}),
        ({}, {"pool": {"idle_seconds": LONG}}),
        ({}, {"ledger": {"flush_seconds": LONG}}),
        ({}, {"health": {"failure_cooldown_seconds": LONG}}),
        ({}, {"default_timeout_seconds": LONG}),
    ],
)
def test_a_setting_longer_than_a_year_is_refused(provider: dict[str, Any], settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ProviderRouter([PLAIN | provider], metrics_store=None, **settings)


def test_a_timeout_of_a_call_or_a_flush_longer_than_a_year_is_refused(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")

    asks: list[Callable[[], object]] = [
        lambda: router.invoke(rig.chat(), timeout=LONG),
        lambda: router.submit(rig.chat(), timeout=LONG),
        lambda: router.flush(LONG),
    ]
    for ask in asks:
        with pytest.raises(ConfigError):
            ask()
    assert router.invoke(rig.chat()) == "a"
