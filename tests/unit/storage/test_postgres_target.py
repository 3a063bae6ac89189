"""Where a PostgreSQL URL leads, what is shown of it, and which ways there are refused."""

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from turnout import PostgresConfig, PostgresMetricsStore, StoreConfig
from turnout.checks import store_of
from turnout.errors import ConfigError
from turnout.storage.postgres_target import target_of

HERE = "postgresql://app:hidden-word@db.example.com:5432/routing"
SAFE = PostgresConfig()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (HERE, "postgresql://app:***@db.example.com:5432/routing"),
        ("postgres://db/routing", "postgresql://db/routing"),
        ("postgresql://app@[::1]:5433/routing", "postgresql://app@[::1]:5433/routing"),
        ("postgresql://app:hidden@a:1,b:2/routing", "postgresql://app:***@a:1,b:2/routing"),
        ("postgresql://app:a:b@db/routing", "postgresql://app:***@db/routing"),
        (
            "postgresql:///routing?host=/run/pg&user=app&password=hidden&port=7",
            "postgresql://app:***@/routing?host=/run/pg&port=7",
        ),
        ("postgresql://db?dbname=routing&password=hidden", "postgresql://:***@db/routing"),
        ("postgresql:///?service=mine", "postgresql:///?service=mine"),
    ],
)
def test_a_database_is_named_without_its_password(url: str, name: str) -> None:
    assert str(target_of(url, SAFE)) == name
    assert repr(PostgresMetricsStore(SecretStr(url))) == f"PostgresMetricsStore({name!r})"


passwords = st.text(st.characters(min_codepoint=33, max_codepoint=0x17F), min_size=6, max_size=12)


@given(password=passwords, in_query=st.booleans())
def test_no_password_is_shown(password: str, in_query: bool) -> None:
    shown = quote(password, safe="")
    url = f"postgresql://u@h/d?password={shown}" if in_query else f"postgresql://u:{shown}@h/d"
    target = target_of(url, SAFE)
    expected = "postgresql://u:***@h/d"
    assert (target.name, str(target)) == (expected, expected)
    # What is shown elsewhere may hold the same letters by chance.
    elsewhere = repr(target).replace(expected, "").replace(repr(target.parameters), "")
    assert password not in elsewhere
    assert shown not in elsewhere
    assert target.without_password(f"<{password}>") == "<***>"
    assert conninfo_to_dict(target.url.get_secret_value())["password"] == password


BARE = [
    "u:pa/ss@h/d",
    "u:p#ss@h/d",
    "u:p?ss@h/d",
    "u:12?a=3@h/d",
    "u:12/3@h/d",
    "u:p@ss@h/d",
    "u:p%ss@h/d",
    "u:p\nss@h/d",
]


@pytest.mark.parametrize("rest", [*BARE, "u:[pass@h/d", "h:port/d", "h/d?sslmode", "h/d#e", "u:p%00ss@h/d"])
def test_a_url_that_cannot_be_read_is_refused_and_nothing_of_it_is_shown(rest: str) -> None:
    with pytest.raises(ConfigError, match="percent-encoded") as refused:
        PostgresMetricsStore(f"postgresql://{rest}")
    assert rest not in str(refused.value)
    assert "ss" not in str(refused.value).replace("password", "").replace("besides", "")
    assert refused.value.__cause__ is None


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("@:/?#[]%&=\\+ \0"), max_size=12))
def test_a_password_as_it_is_is_read_as_the_driver_reads_it_or_refused(password: str) -> None:
    url = f"postgresql://u:{password}@h/d"
    with suppress(ConfigError):
        assert str(target_of(url, SAFE)) == f"postgresql://u{':***' if password else ''}@h/d"
        read = conninfo_to_dict(url)
        assert (read["user"], read["host"], read["dbname"]) == ("u", "h", "d")


@pytest.mark.parametrize("url", ["mysql://h/d", "h/d", "host=h dbname=d", "http://h"])
def test_another_kind_of_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="postgresql://"):
        PostgresMetricsStore(url)


def test_what_is_no_text_is_refused() -> None:
    wrong: Any = 7
    with pytest.raises(ConfigError, match="int"):
        PostgresMetricsStore(wrong)


@pytest.mark.parametrize(
    ("stated", "config", "mode"),
    [
        (None, {}, "require"),
        (None, {"sslmode": "verify-full"}, "verify-full"),
        ("verify-ca", {}, "verify-ca"),
        ("verify-full", {"sslmode": "require"}, "verify-full"),
        ("require", {"sslmode": "verify-full"}, "verify-full"),
        (None, {"allow_unencrypted": True}, "require"),
        ("disable", {"allow_unencrypted": True}, "disable"),
        (None, {"sslmode": "prefer", "allow_unencrypted": True}, "prefer"),
        ("prefer", {"sslmode": "require"}, "require"),
    ],
)
def test_connections_are_encrypted_unless_stated_and_confirmed(
    stated: str | None, config: dict[str, Any], mode: str
) -> None:
    url = HERE + (f"?sslmode={stated}" if stated else "")
    assert target_of(url, PostgresConfig(**config)).parameters["sslmode"] == mode


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_a_mode_that_may_go_unencrypted_is_refused_without_confirmation(mode: str) -> None:
    for url, config in ((f"{HERE}?sslmode={mode}", {}), (HERE, {"sslmode": mode})):
        with pytest.raises(ConfigError, match=f"sslmode={mode}.*allow_unencrypted=True"):
            PostgresMetricsStore(url, config)


def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="verify-full"):
        PostgresMetricsStore(f"{HERE}?sslmode=off")


def test_what_the_settings_say_reaches_the_driver() -> None:
    config = PostgresConfig(sslrootcert="/etc/ca.pem", connect_timeout_seconds=2.5)
    parameters = target_of(HERE, config).parameters
    assert parameters["sslrootcert"] == "/etc/ca.pem"
    assert parameters["connect_timeout"] == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"pool_mode": "pooled"},
        {"min_pool_size": 5},
        {"max_pool_size": 0},
        {"statement_timeout_seconds": 0},
        {"checkout_timeout_seconds": "2"},
        {"sslmode": "off"},
        {"pool_size": 4},
    ],
)
def test_a_setting_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        PostgresMetricsStore(HERE, wrong)


def test_the_url_comes_from_the_environment_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNOUT_POSTGRES_URL", raising=False)
    with pytest.raises(ConfigError, match="TURNOUT_POSTGRES_URL"):
        PostgresMetricsStore()
    monkeypatch.setenv("TURNOUT_POSTGRES_URL", HERE)
    store = PostgresMetricsStore()
    monkeypatch.delenv("TURNOUT_POSTGRES_URL")
    assert "db.example.com" in repr(store)


def test_a_router_builds_its_own_from_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"backend": "postgres", "url_env": "LEDGER_URL", "postgres": {"max_pool_size": 9}}
    monkeypatch.delenv("LEDGER_URL", raising=False)
    with pytest.raises(ConfigError, match="LEDGER_URL"):
        store_of(settings)
    monkeypatch.setenv("LEDGER_URL", HERE)
    store, owned = store_of(settings)
    assert isinstance(store, PostgresMetricsStore)
    assert (owned, store.config.max_pool_size) == (True, 9)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"backend": "postgres", "path": "m.db"}, "path is for duckdb and sqlite"),
        ({"backend": "sqlite", "path": "m.db", "url_env": "X"}, 'not "sqlite"'),
        ({"postgres": {}}, 'not "duckdb"'),
        ({"backend": "postgres", "url_env": HERE}, "name of an environment variable"),
        ({"backend": "postgres", "postgres": {"pool": 4}}, "postgres"),
    ],
)
def test_settings_for_another_backend_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        StoreConfig(**settings)
    assert "hidden-word" not in str(refused.value)
