"""Round robin, fallback, and what each failure does next."""

from typing import Any

import pytest

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    Fault,
    InvalidOperationArgumentsError,
    PreferencePolicy,
    ProviderConnectionError,
    ProviderHTTPError,
    ProviderTimeoutError,
    RoundRobinPolicy,
    RouterExhaustedError,
    UnsupportedOperationError,
)
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Reset, Silence, Status


def who(answer: Any) -> str:
    return str(answer.choices[0].message.content)


@pytest.mark.parametrize("settings", [{}, {"policy": RoundRobinPolicy()}])
def test_calls_go_to_the_eligible_providers_in_turn(rig: Any, settings: dict[str, Any]) -> None:
    sim = rig.simulate(a=Answer(text="a"), b=Answer(text="b"), c=Answer(text="c"))
    router = rig.router(rig.providers(sim), **settings)

    assert [who(router.invoke(rig.chat())) for _ in range(5)] == ["a", "b", "c", "a", "b"]


def test_preference_takes_the_configured_order_each_time(rig: Any) -> None:
    sim = rig.simulate(a=[Status(500), Answer(text="a")], b=Answer(text="b"))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy())

    assert [who(router.invoke(rig.chat())) for _ in range(3)] == ["b", "a", "a"]


# What a provider does, as what, and whether it counts towards its bench.
NEXT = {
    "a timeout": (Silence(), ProviderTimeoutError, Fault.TIMEOUT, 1),
    "408": (Status(408), ProviderHTTPError, Fault.TIMEOUT, 1),
    "429": (Status(429), ProviderHTTPError, Fault.RATE_LIMIT, 0),
    "a reset": (Reset(), ProviderConnectionError, Fault.CONNECTION, 1),
    "500": (Status(500), ProviderHTTPError, Fault.SERVER_ERROR, 1),
    "503": (Status(503), ProviderHTTPError, Fault.SERVER_ERROR, 1),
    "404": (Status(404), ProviderHTTPError, Fault.UNKNOWN, 1),
    "401": (Status(401), ProviderHTTPError, Fault.AUTH, 0),
    "403": (Status(403), ProviderHTTPError, Fault.AUTH, 0),
    "402": (Status(402), ProviderHTTPError, Fault.QUOTA, 0),
}


@pytest.mark.parametrize("name", NEXT)
def test_a_failure_of_the_provider_falls_back_to_the_next(rig: Any, name: str) -> None:
    behaviour, kind, fault, counted = NEXT[name]
    sim = rig.simulate(a=behaviour, b=Answer(text="b"))
    # Half a second only for the provider that is silent: the others answer at once.
    router = rig.router(
        [rig.provider(sim, "a", timeout_seconds=0.5 if name == "a timeout" else 30), rig.provider(sim, "b")]
    )

    future = router.submit(rig.chat())
    assert who(future.result(30)) == "b"

    report = future.report()
    assert [(attempt.provider_id, attempt.fault) for attempt in report.attempts] == [
        ("a", fault),
        ("b", None),
    ]
    assert report.failed_over
    assert router.health_report()["a"].consecutive_failures == counted

    sim.script("b", Status(500))
    router.reset_health()
    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())
    assert {type(attempt.error) for attempt in caught.value.attempts} == {kind, ProviderHTTPError}


def test_a_refused_connection_falls_back_too(rig: Any) -> None:
    sim = rig.simulate(b=Answer(text="b"))
    gone = rig.simulate(a=Answer())
    nowhere = gone.base_url("a")
    gone.stop()
    router = rig.router([rig.provider(sim, "b", provider_id="a", base_url=nowhere), rig.provider(sim, "b")])

    assert who(router.invoke(rig.chat())) == "b"
    assert router.health_report()["a"].consecutive_failures == 1


def test_refused_credentials_bench_a_provider_for_the_rest_of_the_run(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(a=[Status(401), Answer(text="a")], b=Answer(text="b"))
    router = rig.router(rig.providers(sim), clock=clock)

    answers = []
    for _ in range(3):
        answers.append(who(router.invoke(rig.chat())))
        clock.advance(100_000.0)

    assert answers == ["b", "b", "b"]
    assert sim.total("a") == 1


def test_a_key_that_no_header_can_hold_is_refused_like_one_that_its_provider_refuses(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="a"), b=Answer(text="b"))
    router = rig.router([rig.provider(sim, "a", api_key="sk-two\nlines"), rig.provider(sim, "b")])

    future = router.submit(rig.chat())
    assert who(future.result(30)) == "b"

    assert future.report().attempts[0].fault is Fault.AUTH
    assert router.health_report()["a"].state == "disabled"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OPENAI_BASE_URL", "http://[bad/v1"),
        ("https_proxy", "http://proxy:port"),
        ("SSL_CERT_FILE", "/no/such/file"),
    ],
)
def test_a_provider_whose_client_cannot_be_built_is_passed_over_and_keeps_its_health(
    rig: Any, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    sim = rig.simulate(b=Answer(text="b"))
    router = rig.router(
        [rig.provider(sim, "b", provider_id="a", base_url=None), rig.provider(sim, "b")],
        policy=PreferencePolicy(),
    )
    monkeypatch.setenv(variable, value)

    future = router.submit(rig.chat())
    assert who(future.result(30)) == "b"

    first = future.report().attempts[0]
    assert (first.provider_id, first.fault) == ("a", Fault.TERMINAL)
    assert router.health_report()["a"].consecutive_failures == 0
    with pytest.raises(RouterExhaustedError, match=r"could not be built: .*; check its base_url") as caught:
        rig.router(router.providers[:1]).invoke(rig.chat())
    assert caught.value.attempts[0].error.__cause__ is not None


@pytest.mark.parametrize("status", [400, 422])
def test_a_bad_request_stops_at_once_and_benches_nobody(rig: Any, status: int) -> None:
    sim = rig.simulate(a=Status(status), b=Answer())
    router = rig.router(rig.providers(sim))

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())

    (attempt,) = caught.value.attempts
    assert isinstance(attempt.error, ProviderHTTPError)
    assert (attempt.error.status_code, attempt.fault) == (status, Fault.BAD_REQUEST)
    assert sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 0


@pytest.mark.parametrize(
    ("operation", "arguments", "kind"),
    [
        ("chat.completions.crate", {"messages": []}, UnsupportedOperationError),
        ("chat.completions._post", {"messages": []}, UnsupportedOperationError),
        ("chat.completions.create", {"messages": [], "no_such": 1}, InvalidOperationArgumentsError),
        ("chat.completions.create", {}, InvalidOperationArgumentsError),
        (
            "chat.completions.create",
            {"messages": [], "extra_headers": {"x-auth": "two\nlines"}},
            InvalidOperationArgumentsError,
        ),
    ],
)
def test_a_bad_operation_or_bad_arguments_stop_before_anything_is_sent(
    rig: Any, operation: str, arguments: dict[str, Any], kind: type[Exception]
) -> None:
    sim = rig.simulate(a=Answer(), b=Answer())
    router = rig.router(rig.providers(sim))

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(CallVariant(ApiProtocol.OPENAI_CHAT, operation, CallType.REGULAR, arguments))

    (attempt,) = caught.value.attempts
    assert type(attempt.error) is kind
    assert sim.total("a") == sim.total("b") == 0
    assert router.health_report()["a"].consecutive_failures == 0


def test_when_everyone_fails_each_attempt_stays_with_its_own_error(rig: Any) -> None:
    sim = rig.simulate(a=Status(500, message="a is down"), b=Status(429, message="b is busy"))
    router = rig.router(rig.providers(sim))

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())

    error = caught.value
    assert [(attempt.provider_id, attempt.error.status_code) for attempt in error.attempts] == [  # type: ignore[attr-defined]
        ("a", 500),
        ("b", 429),
    ]
    assert "a is down" in str(error)
    assert "b is busy" in str(error)
    assert error.__cause__ is error.attempts[-1].error


class Backwards:
    """A policy of one's own: stateful, and never asked by two threads at once."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def order(self, eligible: Any, context: Any) -> Any:
        self.asked.append([provider.provider_id for provider in eligible])
        return list(reversed(eligible))


def test_a_policy_of_ones_own_gives_the_order(rig: Any) -> None:
    policy = Backwards()
    sim = rig.simulate(a=Answer(text="a"), b=Answer(text="b"), c=Status(500))
    router = rig.router(
        [*rig.providers(sim), rig.provider(sim, "a", provider_id="off", enabled=False)], policy=policy
    )

    assert who(router.invoke(rig.chat())) == "b"
    assert policy.asked == [["a", "b", "c"]]


class Fixed:
    """Answers with the same names, whoever is eligible."""

    def __init__(self, *providers: Any) -> None:
        self._providers = providers

    def order(self, eligible: Any, context: Any) -> Any:
        return self._providers


class Named:
    def __init__(self, provider_id: str) -> None:
        self.provider_id = provider_id


def test_a_policys_omissions_and_repetitions_are_kept_but_it_brings_in_nobody(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [ConnectionError("a")], "b": ["b"], "c": [TimeoutError("c")]})
    order = Fixed(*map(Named, ["unknown", "a", "c", "c", "a"]))
    router = rig.scripted(adapters, "abc", policy=order)

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())
    assert [attempt.provider_id for attempt in caught.value.attempts] == ["a", "c", "c", "a"]

    # The third failure benches a: from then on it is passed over, wherever the policy puts it.
    adapters = ScriptedAdapters({"a": [ConnectionError("a")], "b": ["b"]})
    router = rig.scripted(
        adapters, "ab", policy=Fixed(Named("a"), Named("a"), Named("a"), Named("a"), Named("b"))
    )
    assert router.invoke(rig.chat()) == "b"
    assert [call.provider_id for call in adapters.calls] == ["a", "a", "a", "b"]
    assert router.invoke(rig.chat()) == "b"
    assert [call.provider_id for call in adapters.calls[4:]] == ["b"]


class Broken:
    def order(self, eligible: Any, context: Any) -> Any:
        raise ZeroDivisionError("a policy's own bug")


def test_a_policy_that_raises_falls_back_to_the_configured_order_with_one_warning(
    rig: Any, logged: Any
) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"], "b": ["b"]}), "ab", policy=Broken())

    assert [router.invoke(rig.chat()) for _ in range(3)] == ["a", "a", "a"]
    (warning,) = logged.at("WARNING")
    assert "providers are tried in configured order" in warning
    assert logged.at("ERROR") == []


def test_a_callers_classifier_is_asked_before_the_table(rig: Any) -> None:
    def classify(error: Exception) -> Fault | None:
        if isinstance(error, ProviderHTTPError) and "model is loading" in str(error):
            return Fault.TRANSIENT
        return None

    sim = rig.simulate(a=Status(400, message="model is loading"), b=Answer(text="b"))
    router = rig.router(rig.providers(sim), classify=classify)

    assert who(router.invoke(rig.chat())) == "b"
    assert router.health_report()["a"].consecutive_failures == 1
