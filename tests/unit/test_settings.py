"""What settings take, as objects, as dicts and from a file: the same, and nothing that only looks right."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import (
    ApiProtocol,
    BudgetConfig,
    ConfigError,
    HealthConfig,
    LedgerConfig,
    PoolConfig,
    ProviderConfig,
    ProviderRouter,
)

PROVIDER: dict[str, Any] = {
    "provider_id": "p",
    "name": "P",
    "protocol": "openai_chat",
    "model": "m",
    "api_key": "k",
}
FILE = """
{top}
[[providers]]
provider_id = "p"
name = "P"
protocol = "openai_chat"
model = "m"
api_key = "k"
{own}
[metrics_store]
backend = "none"
{tables}
"""


@pytest.mark.parametrize("kind", [HealthConfig, BudgetConfig, PoolConfig, LedgerConfig])
@pytest.mark.parametrize("wrong", [True, "60"])
def test_a_number_is_neither_a_flag_nor_a_text(kind: type[Any], wrong: object) -> None:
    for name in kind.model_fields:
        if name not in ("when_all_benched", "honor_retry_after", "durability", "spool_dir"):
            with pytest.raises(ConfigError, match=f"{name}: Input should be a valid"):
                kind(**{name: wrong})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("timeout_seconds", True),
        ("timeout_seconds", "60"),
        ("first_token_timeout_seconds", True),
        ("idle_timeout_seconds", "1"),
        ("max_concurrency", True),
        ("max_concurrency", "8"),
        ("max_concurrency", 8.0),
        ("min_interval_seconds", False),
        ("context_window", "128000"),
        ("enabled", "no"),
        ("enabled", 1),
        ("health", {"honor_retry_after": "yes"}),
    ],
)
def test_a_providers_settings_are_of_the_type_that_is_meant(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        ProviderConfig(**(PROVIDER | {name: wrong}))


def test_whole_numbers_do_for_seconds_and_plain_texts_for_keys_and_protocols() -> None:
    config = ProviderConfig(**PROVIDER, timeout_seconds=60)
    assert (config.timeout_seconds, config.protocol) == (60.0, ApiProtocol.OPENAI_CHAT)
    assert config.api_key == SecretStr("k")


@pytest.mark.parametrize("wrong", [{"pool": {"max_workers": True}}, {"default_timeout_seconds": True}])
def test_the_constructor_is_as_strict(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ProviderRouter([PROVIDER], metrics_store=None, **wrong)


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("top", "default_timeout_seconds = true"),
        ("top", 'default_timeout_seconds = "60"'),
        ("own", "timeout_seconds = true"),
        ("own", 'timeout_seconds = "60"'),
        ("own", 'enabled = "no"'),
        ("tables", "[pool]\nmax_workers = true"),
    ],
)
def test_a_file_is_as_strict(tmp_path: Path, place: str, line: str) -> None:
    file = tmp_path / "turnout.toml"
    file.write_text(FILE.format(**({"top": "", "own": "", "tables": ""} | {place: line})))
    name = line.splitlines()[-1].partition(" ")[0]
    with pytest.raises(ConfigError, match=rf"turnout\.toml: .*{name}: Input should be a valid"):
        ProviderRouter.from_toml(file)
