"""No key reaches an error, a report or a log, whoever echoes it and wherever it is read."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import Fault, ProviderConfig, ProviderRouter, RouteError, TurnoutError
from turnout.adapters.native import NativeProvider
from turnout.testing import ManualClock
from turnout.testing.simulator import Status

KEY = "sk-secret-key-123456"


class Echo:
    """An adapter whose error holds the key."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self._before = before

    def invoke(self, operation: str, arguments: Any) -> Any:
        self._before()
        raise RuntimeError(f"refused {KEY}")


def provider() -> ProviderConfig:
    return ProviderConfig.model_validate(
        {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": KEY}
    )


def told_by(router: ProviderRouter, call: Any, **options: Any) -> str:
    """Everything that the router says of a call that fails."""
    with router, pytest.raises(TurnoutError) as caught:
        router.invoke(call, **options)
    attempts = caught.value.attempts if isinstance(caught.value, RouteError) else ()
    return f"{caught.value} {[str(one) for one in attempts]} {router.health_report()}"


def raising(error: Exception) -> Fault:
    raise ValueError("a classifier may fail")


@pytest.mark.parametrize("classify", [None, raising, lambda error: "no fault"])
def test_a_key_in_an_adapters_error_is_hidden_whatever_classify_does(
    rig: Any, logged: Any, classify: Any
) -> None:
    router = rig.router([provider()], adapter_factory=lambda config: Echo(), classify=classify)

    told = told_by(router, rig.chat())

    assert "refused" in told
    assert KEY not in told + str(logged.records)


def test_a_key_in_an_error_past_the_deadline_is_hidden(rig: Any, logged: Any) -> None:
    clock = ManualClock()
    echo = Echo(lambda: clock.advance(60.0))
    router = rig.router([provider()], adapter_factory=lambda config: echo, clock=clock)

    told = told_by(router, rig.chat(), timeout=10.0)

    assert "refused" in told
    assert KEY not in told + str(logged.records)


@pytest.mark.parametrize("asked", ["assess", "supports"])
def test_a_key_in_what_a_providers_own_judgement_raises_is_hidden(
    rig: Any, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    def refuses(*_: Any) -> Any:
        raise RuntimeError(f"refused {KEY}")

    class Answering:
        def invoke(self, operation: str, arguments: Any) -> str:
            return "answer"

    monkeypatch.setattr(NativeProvider, asked, refuses)
    router = rig.router([provider()], adapter_factory=lambda config: Answering())

    told = told_by(router, rig.chat())

    assert "refused" in told
    assert KEY not in told


def test_a_key_that_a_provider_echoes_is_not_in_the_trace_of_a_callback_that_raises(
    rig: Any, logged: Any
) -> None:
    sim = rig.simulate(P=Status(401, message=f"no such key: {KEY}"))
    router = rig.router([rig.provider(sim, "P", api_key=SecretStr(KEY))])
    future = router.submit(rig.chat())
    future.add_done_callback(lambda future: future.result())
    with pytest.raises(TurnoutError):
        future.result(30)
    router.close()

    (told,) = logged.at("ERROR")
    assert KEY not in told
    # Where it came from, and what it was, is told.
    assert "openai.AuthenticationError\n" in told
    assert "RouterExhaustedError: " in told
    assert "Traceback (most recent call last):" in told
