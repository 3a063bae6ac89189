"""The life of a provider's one SDK client."""

import threading
from typing import Any

import pytest

from turnout.adapters import openai_client
from turnout.adapters.openai_client import ClientSource, SdkClient
from turnout.adapters.transport import _proxy_for
from turnout.adapters.wire import Here
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig


class Sdk:
    """Counts how often it is closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def client_of(key: str = "k") -> SdkClient:
    return SdkClient(key, Sdk(), Here(), object)


def config_of(**settings: Any) -> ProviderConfig:
    known = {"api_key": "sk-1", "base_url": "http://127.0.0.1:9/v1"}
    return ProviderConfig(
        provider_id="a", name="a", protocol=ApiProtocol.OPENAI_CHAT, model="m", **{**known, **settings}
    )


def test_a_retired_client_closes_with_its_last_user() -> None:
    client = client_of()
    assert client.enter()
    assert client.enter()
    client.retire()
    client.leave()
    assert client.sdk.closed == 0
    client.leave()
    assert client.sdk.closed == 1


def test_an_unused_client_closes_when_it_is_retired_and_only_once() -> None:
    client = client_of()
    client.retire()
    client.retire()
    assert not client.enter()
    assert client.sdk.closed == 1


def test_a_client_that_a_fork_brought_is_never_closed() -> None:
    client = client_of()
    client.pid += 1
    client.retire()
    assert client.sdk.closed == 0


def test_of_builders_that_race_one_wins_and_the_others_close(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[SdkClient] = []
    together = threading.Barrier(4, timeout=20)

    def build(config: ProviderConfig, key: str) -> SdkClient:
        client = client_of(key)
        built.append(client)
        together.wait()
        return client

    monkeypatch.setattr(openai_client, "build_client", build)
    source = ClientSource(config_of())
    taken: list[SdkClient] = []
    threads = [threading.Thread(target=lambda: taken.append(source.take())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(built) == 4
    assert len({id(client) for client in taken}) == 1
    assert sorted(client.sdk.closed for client in built) == [0, 1, 1, 1]


def test_a_client_retired_between_the_look_and_the_entry_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_client, "build_client", lambda config, key: client_of(key))
    source = ClientSource(config_of())
    first = source.take()
    first.leave()
    # What another thread does when it has seen another key.
    source._published.clear()
    first.retire()
    second = source.take()
    assert second is not first
    assert not second.retired


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "http://p:1"}, "http://p:1"),
        ({"http_proxy": "http://p:1"}, None),
        ({"all_proxy": "socks5://p:1"}, "socks5://p:1"),
        ({"https_proxy": "http://p:1", "no_proxy": "api.example.com"}, None),
        ({"https_proxy": "http://p:1", "no_proxy": "*"}, None),
    ],
)
def test_the_proxy_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], proxy: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert _proxy_for("https", "api.example.com") == proxy
