"""The settings of a PostgreSQL as people read of them: their names and what holds without them."""

import re
from pathlib import Path
from typing import Final

import pytest

from turnout.postgres_config import PostgresConfig
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.postgres_target import target_of

HERE: Final = "postgresql://app@db.example.com/routing"
README: Final = Path(__file__).parents[3] / "README.md"
#: The mode is the URL's, else ``require``: there is none of its own.
DEFAULTS: Final = {
    "pool_mode": "direct",
    "connect_timeout_seconds": 5.0,
    "statement_timeout_seconds": 2.0,
    "checkout_timeout_seconds": 2.0,
    "min_pool_size": 1,
    "max_pool_size": 4,
    "sslmode": None,
    "sslrootcert": None,
    "allow_unencrypted": False,
}
DEFAULTS_IN_WORDS: Final = {
    "pool_mode": "`direct`",
    "connect_timeout_seconds": "5",
    "statement_timeout_seconds": "2",
    "checkout_timeout_seconds": "2",
    "min_pool_size": "1",
    "max_pool_size": "4",
    "sslmode": "the URL's, else `require`",
    "sslrootcert": "none",
    "allow_unencrypted": "false",
}


def test_a_store_that_is_told_nothing_has_the_defaults_that_were_promised() -> None:
    assert PostgresMetricsStore(HERE).config.model_dump() == DEFAULTS
    parameters = target_of(HERE, PostgresConfig()).parameters
    assert parameters["sslmode"] == "require"
    assert parameters["connect_timeout"] == 5
    assert "sslrootcert" not in parameters


@pytest.mark.skipif(not README.exists(), reason="the README is not beside the tests")
def test_the_readmes_table_has_every_setting_with_its_default() -> None:
    _, _, table = README.read_text().partition("\n| setting | default | |\n|---|---|---|\n")
    told: dict[str, str] = {}
    for line in table.partition("\n\n")[0].splitlines():
        names, default = (cell.strip() for cell in line.split("|")[1:3])
        settings = re.findall(r"`(\w+)`", names)
        told |= zip(settings, default.split(", ") if len(settings) > 1 else [default], strict=True)
    assert told == DEFAULTS_IN_WORDS
    assert {*told} == {*PostgresConfig.model_fields}
