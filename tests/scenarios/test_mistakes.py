"""Callers' mistakes: found before any provider is contacted, and told as turnout's own."""

import asyncio
import copy
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    ConfigError,
    Fault,
    NoEligibleProvidersError,
    ProviderConfig,
    ProviderRouter,
    ReentrantCallError,
    RoundRobinPolicy,
    RouterExhaustedError,
    TurnoutError,
)
from turnout.actors.health import Returned
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import ManualClock, ScriptedAdapters

#: Not checked by types: these are the mistakes that types would find.
Unchecked: Any = CallVariant
PLAIN = ProviderConfig(
    provider_id="p", name="p", protocol=ApiProtocol.OPENAI_CHAT, model="m", api_key=SecretStr("k")
)
CALL = CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, {"messages": []})


@pytest.mark.parametrize(
    "mistake",
    [
        lambda router: Unchecked("bogus", "chat.completions.create", CallType.REGULAR, {}),
        lambda router: Unchecked(ApiProtocol.OPENAI_CHAT, "chat.completions.create", "bogus", {}),
        lambda router: Unchecked(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, None),
        lambda router: Unchecked(ApiProtocol.OPENAI_CHAT, 5, CallType.REGULAR, {}),
        lambda router: Unchecked(ApiProtocol.OPENAI_CHAT, None, CallType.REGULAR, {}),
        lambda router: Unchecked(ApiProtocol.OPENAI_CHAT, b"chat.completions.create", CallType.REGULAR, {}),
        lambda router: router.submit(None),
        lambda router: router.invoke(7),
        lambda router: router.invoke([], stream_failure_policy="bogus"),
        lambda router: type(router)(router.providers, policy=object(), metrics_store=None),
        lambda router: type(router)(router.providers, policy="best", metrics_store=None),
        lambda router: type(router)(router.providers, None, metrics_store=None),
        lambda router: type(router)(router.providers, "a\ud800", metrics_store=None),
        lambda router: type(router)(router.providers, stream_failure_policy="bogus", metrics_store=None),
    ],
)
def test_every_mistake_of_the_caller_is_told_as_turnouts_own_and_leaves_no_thread(
    mistake: Callable[[Any], object],
) -> None:
    with ProviderRouter([PLAIN], metrics_store=None) as router, pytest.raises(TurnoutError):
        mistake(router)


@pytest.mark.parametrize(
    "settings",
    [
        {"rng": 5},
        {"rng": random},
        {"clock": 5},
        {"clock": ManualClock},
        {"supported_protocols": 5},
        {"supported_protocols": "openai_chat"},
        {"supported_protocols": [5]},
        {"supported_protocols": ["smoke_signals"]},
        {"on_restart": 3},
        {"classify": 3},
        {"adapter_factory": 3},
    ],
)
def test_a_part_that_is_none_is_refused_at_construction_by_its_name(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(ConfigError, match=name):
        ProviderRouter([PLAIN], metrics_store=None, **settings)


def test_protocols_may_be_given_by_their_words() -> None:
    adapters = ScriptedAdapters({"p": ["answer"]})
    words: Any = ["openai_chat"]
    with ProviderRouter(
        [PLAIN], metrics_store=None, adapter_factory=adapters, supported_protocols=words
    ) as router:
        assert router.invoke(CALL) == "answer"


@pytest.mark.parametrize("method", ["submit", "invoke", "ainvoke"])
def test_an_on_restart_that_cannot_be_called_is_refused_before_any_provider_is_asked(method: str) -> None:
    adapters = ScriptedAdapters({"p": ["answer"]})
    with ProviderRouter([PLAIN], metrics_store=None, adapter_factory=adapters) as router:

        async def ask() -> Any:
            asked: Any = getattr(router, method)(CALL, on_restart=3)
            return await asked if method == "ainvoke" else asked

        with pytest.raises(ConfigError, match="on_restart must be callable, not int"):
            asyncio.run(ask())
        assert router.stats().pending == 0
    assert not adapters.calls


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("embeddings", "client.embeddings"),
        ("with_options", "client.with_options"),
        ("chat.completions.parse", "client.chat.completions.parse"),
        ("responses.retrieve", "client.responses.retrieve"),
    ],
)
def test_what_the_client_has_not_is_told_with_what_there_is(path: str, told: str) -> None:
    with ProviderRouter([PLAIN], metrics_store=None) as router:
        client = router.client()
        assert not hasattr(client, "embeddings")
        assert copy.copy(client).chat is client.chat
        with pytest.raises(
            AttributeError,
            match=rf"{told} is not there: .* chat.completions.create and responses.create. .* CallVariant",
        ):
            attrgetter(path)(client)


def named(word: str, error: Exception) -> Any:
    return word


def test_a_classifier_may_name_a_fault_by_its_word_and_one_that_is_no_fault_costs_its_provider_only() -> None:
    adapters = ScriptedAdapters({"p": [OSError("first"), OSError("second")]})
    for word, fault in (("rate_limit", Fault.RATE_LIMIT), ("nonsense", Fault.TERMINAL)):
        router = ProviderRouter(
            [PLAIN], metrics_store=None, adapter_factory=adapters, classify=partial(named, word)
        )
        with router, pytest.raises(RouterExhaustedError) as caught:
            router.invoke(CALL)
        assert caught.value.attempts[0].fault is fault


@pytest.mark.parametrize("exit_", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("way", ["invoke", "submit"])
def test_an_exit_out_of_a_classifier_leaves_no_permit_out_and_every_attempt_recorded(
    rig: Any, exit_: type[BaseException], way: str
) -> None:
    clock, store = ManualClock(), MemoryMetricsStore()
    raised: list[type[BaseException]] = []

    def classify(error: Exception) -> None:
        if raised:
            raise raised.pop()

    router = rig.scripted(
        ScriptedAdapters({"a": [OSError("down"), OSError("still down"), "answer"]}),
        "a",
        classify=classify,
        clock=clock,
        metrics_store=store,
        health={"failure_threshold": 1},
    )
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())
    clock.advance(60.0)
    raised.append(exit_)
    with pytest.raises(exit_):
        router.invoke(rig.chat()) if way == "invoke" else router.submit(rig.chat()).result(30)

    # That the permit came back was told; what is asked after it is answered after it.
    router._engine.plant.health.actor.ask(Returned("a", 0))
    assert router.health_report()["a"].probes_out == 0
    assert router.invoke(rig.chat()) == "answer"
    router.close()
    rows = store.query_recent(since=datetime.fromtimestamp(0, UTC))
    assert sorted(row.outcome for row in rows) == ["failed", "ignored", "ok"]


def test_a_report_shows_a_failure_only_once_its_providers_health_has_it() -> None:
    seen: list[tuple[int, Any]] = []
    adapters = ScriptedAdapters({"p": [TimeoutError("slow")]})
    router = ProviderRouter(
        [PLAIN], metrics_store=None, adapter_factory=adapters, health={"failure_threshold": 1}
    )
    health = router._engine.plant.health
    ask = health.actor.ask

    submitted = threading.Event()

    def watched(*args: Any, **options: Any) -> Any:
        # A worker may come here before submit() has given the future back.
        assert submitted.wait(20)
        seen.append((len(future.report().attempts), router.health_report()["p"].cooldown_remaining_seconds))
        return ask(*args, **options)

    health.actor.ask = watched  # type: ignore[method-assign]
    with router:
        future = router.submit(CALL)
        submitted.set()
        with pytest.raises(RouterExhaustedError):
            future.result()
        assert len(future.report().attempts) == 1
    assert [attempts for attempts, _ in seen] == [0]


def test_waiting_at_the_door_on_a_worker_is_refused_at_once() -> None:
    told: list[BaseException] = []
    started, go = threading.Event(), threading.Event()

    class Slow:
        def invoke(self, operation: str, arguments: Any) -> str:
            started.set()
            assert go.wait(20)
            return "answer"

    router = ProviderRouter(
        [PLAIN],
        metrics_store=None,
        adapter_factory=lambda config: Slow(),
        pool={"max_workers": 1, "max_queue": 1},
    )

    def again(future: Any) -> None:
        try:
            router.submit(CALL, block=True)
        except ReentrantCallError as error:
            told.append(error)

    with router:
        first = router.submit(CALL)
        assert started.wait(20)
        first.add_done_callback(again)
        second = router.submit(CALL)
        go.set()
        first.result(20)
        second.result(20)
    assert len(told) == 1


def test_a_provider_whose_supports_raises_is_excluded_and_the_route_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The key of one that has it from the environment is looked for at each call.
    unkeyed = ProviderConfig(
        provider_id="q", name="q", protocol=ApiProtocol.OPENAI_CHAT, model="m", api_key_env="NOT_SET"
    )
    router = ProviderRouter([unkeyed], metrics_store=None)
    monkeypatch.setattr(ProviderConfig, "has_key", lambda config: 1 / 0)
    with router, pytest.raises(NoEligibleProvidersError, match="supports raised ZeroDivisionError"):
        router.invoke(CALL)


def test_a_policy_given_as_a_class_is_refused_with_what_to_write(rig: Any) -> None:
    with pytest.raises(ConfigError, match=r"give RoundRobinPolicy\(\.\.\.\), not the class"):
        rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", policy=RoundRobinPolicy)
