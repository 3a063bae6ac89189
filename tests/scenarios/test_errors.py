"""Errors: one base, the provider's own words, originals within reach, and no secrets."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

import turnout
from turnout import (
    ApiProtocol,
    CallError,
    ConfigError,
    Fault,
    MissingApiKeyError,
    NoEligibleProvidersError,
    NoProvidersConfiguredError,
    ProviderConfig,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderRouter,
    ProviderTimeoutError,
    RouteError,
    RouterExhaustedError,
    StorageError,
    TurnoutError,
    UnsupportedProtocolError,
)
from turnout.testing.simulator import Answer, Reset, Silence, Status


def only_attempt(router: Any, calls: Any) -> Any:
    """The single failed attempt of a call that finds no answer."""
    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(calls)
    (attempt,) = caught.value.attempts
    return attempt


def test_every_error_that_is_exported_has_the_one_base() -> None:
    exported = [getattr(turnout, name) for name in turnout.__all__]
    errors = [each for each in exported if isinstance(each, type) and issubclass(each, BaseException)]

    assert len(errors) > 25
    assert [error for error in errors if not issubclass(error, TurnoutError)] == []


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        (MissingApiKeyError, ConfigError),
        (NoProvidersConfiguredError, ConfigError),
        (UnsupportedProtocolError, ConfigError),
        (turnout.ModelArgumentConflictError, CallError),
        (turnout.DuplicateCallVariantProtocolError, CallError),
        (turnout.MixedCallTypeError, CallError),
        (turnout.NoCallVariantError, CallError),
        (NoEligibleProvidersError, RouteError),
        (RouterExhaustedError, RouteError),
        (turnout.DeadlineExceededError, TimeoutError),
        (ProviderTimeoutError, ProviderError),
        (ProviderConnectionError, ProviderError),
        (ProviderHTTPError, ProviderError),
        (turnout.ProviderResponsesError, ProviderError),
        (turnout.ProviderStreamInterruptedError, ProviderError),
        (turnout.UnsupportedOperationError, ProviderError),
        (turnout.InvalidOperationArgumentsError, ProviderError),
        (turnout.ProviderSDKNotInstalledError, ProviderError),
        (turnout.SchemaMismatchError, StorageError),
    ],
)
def test_the_type_of_an_error_names_its_stage(kind: type[Exception], stage: type[Exception]) -> None:
    assert issubclass(kind, stage)


def test_an_http_error_keeps_the_providers_words_its_payload_and_the_sdks_exception(rig: Any) -> None:
    sim = rig.simulate(
        a=Status(
            429,
            error_type="requests",
            error_code="rate_limit_exceeded",
            message="Limit: 3 / min",
            retry_after=7,
        )
    )
    router = rig.router([rig.provider(sim, "a", provider_id="provider-a-production", name="provider_a")])

    try:
        router.invoke(rig.chat())
    except RouterExhaustedError as exhausted:
        error = exhausted.attempts[0].error
    assert isinstance(error, ProviderHTTPError)

    for part in (
        "provider_a",
        "provider-a-production",
        "model-a",
        "HTTP 429 Too Many Requests",
        "Limit: 3 / min",
    ):
        assert part in str(error)
    assert error.status_code == 429
    assert (error.error_type, error.error_code) == ("requests", "rate_limit_exceeded")
    assert error.message == "Limit: 3 / min"
    assert error.body == {
        "message": "Limit: 3 / min",
        "type": "requests",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    assert error.response.status_code == 429
    assert error.retry_after_seconds == 7.0
    assert isinstance(error.__cause__, openai.RateLimitError)
    assert error.original is error.__cause__


def test_what_is_caught_by_the_base_type_says_all_of_it(rig: Any) -> None:
    sim = rig.simulate(a=Status(500, message="a broke"), b=Reset())
    router = rig.router(rig.providers(sim))

    with pytest.raises(TurnoutError) as caught:
        router.invoke(rig.chat())

    assert isinstance(caught.value, RouterExhaustedError)
    for part in ("after 2 attempts", "a broke", "b, model model-b, could not be reached, or hung up"):
        assert part in str(caught.value)
    assert isinstance(caught.value.__cause__, ProviderConnectionError)
    assert isinstance(caught.value.__cause__.__cause__, openai.APIConnectionError)


@pytest.mark.parametrize(
    ("behaviour", "kind", "cause"),
    [
        (Reset(), ProviderConnectionError, openai.APIConnectionError),
        (Silence(), ProviderTimeoutError, Exception),
        (Status(404, message="no such model"), ProviderHTTPError, openai.NotFoundError),
        (Status(500, body="<html>bad gateway</html>"), ProviderHTTPError, openai.InternalServerError),
    ],
    ids=["reset", "silence", "404", "html"],
)
def test_transport_and_sdk_failures_are_chained_and_name_provider_and_model(
    rig: Any, behaviour: Any, kind: type[ProviderError], cause: type[Exception]
) -> None:
    sim = rig.simulate(a=behaviour)
    router = rig.router([rig.provider(sim, "a", timeout_seconds=0.3 if behaviour == Silence() else 30.0)])

    error = only_attempt(router, rig.chat()).error

    assert type(error) is kind
    assert (error.provider_id, error.provider_name, error.model) == ("a", "a", "model-a")
    assert isinstance(error.__cause__, cause)
    assert error.original is error.__cause__
    assert "a, model model-a" in str(error)


def test_an_error_page_is_not_poured_into_the_message(rig: Any) -> None:
    sim = rig.simulate(a=Status(502, body="<html>" + "x" * 5000 + "</html>"))
    attempt = only_attempt(rig.router(rig.providers(sim)), rig.chat())

    assert "HTTP 502 Bad Gateway" in attempt.message
    assert "<html>" not in attempt.message
    assert len(attempt.message) < 1000


SECRET = "sk-very-secret-0123456789"


@pytest.mark.parametrize(
    "behaviour",
    [
        Status(401, message=f"Incorrect API key provided: {SECRET}."),
        Status(500, message=f"upstream refused Bearer {SECRET}"),
        Status(400, message=f"echo: {SECRET}"),
        Reset(),
        Status(403, body=f"{SECRET}"),
    ],
    ids=["401", "500", "400", "reset", "plain"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_neither_key_nor_header_nor_request_body_is_in_errors_reports_or_logs(
    rig: Any, logged: Any, monkeypatch: pytest.MonkeyPatch, behaviour: Any, stream: bool
) -> None:
    monkeypatch.setenv("SECRET_KEY", SECRET)
    sim = rig.simulate(a=behaviour)
    router = rig.router([rig.provider(sim, "a", api_key_env="SECRET_KEY")], health={"failure_threshold": 1})
    body = "the words of my diary"

    with pytest.raises(TurnoutError) as caught:
        router.invoke(rig.chat(body, **({"stream": True} if stream else {})))
    with pytest.raises(TurnoutError) as again:
        router.invoke(rig.chat(body))

    texts = [str(caught.value), repr(caught.value), str(again.value), repr(router), repr(router.providers)]
    texts += [str(attempt) + repr(attempt.error) for attempt in caught.value.attempts]  # type: ignore[attr-defined]
    texts += [repr(router.health_report()), *(text for _, text in logged.records)]
    for text in texts:
        assert SECRET not in text
        assert body not in text
        assert "authorization" not in text.lower()


def test_a_key_that_a_provider_echoes_is_in_no_traceback(rig: Any) -> None:
    sim = rig.simulate(a=Status(401, message=f"Incorrect API key provided: {SECRET}."))
    router = rig.router([rig.provider(sim, "a", api_key=SECRET)])

    error = only_attempt(router, rig.chat()).error

    printed = "".join(traceback.format_exception(error))
    assert "openai.AuthenticationError" in printed
    assert SECRET not in printed
    assert SECRET not in error.message
    assert SECRET not in repr(rig.provider(sim, "a", api_key=SECRET))


def test_what_the_caller_has_caught_is_left_as_it_is(rig: Any) -> None:
    class ReadOnly(ValueError):
        @property
        def message(self) -> str:
            return f"{SECRET} is mine"

    sim = rig.simulate(a=Status(400, message=f"no such key: {SECRET}"))
    router = rig.router([rig.provider(sim, "a", api_key=SECRET)])
    caught = ReadOnly(f"{SECRET} is mine", "second")
    try:
        raise caught
    except ReadOnly:
        failure = only_attempt(router, rig.chat())

    assert failure.fault is Fault.BAD_REQUEST
    assert caught.args == (f"{SECRET} is mine", "second")


def test_a_header_that_cannot_be_sent_is_in_no_traceback(rig: Any) -> None:
    router = rig.router(rig.providers(rig.simulate(a=Status(500))))
    call = rig.chat(extra_headers={"authorization": f"Bearer {SECRET}\n"})

    error = only_attempt(router, call).error

    assert SECRET not in "".join(traceback.format_exception(error))


def test_a_password_in_a_base_url_is_not_shown(rig: Any) -> None:
    config = rig.provider(rig.simulate(a=Status(500)), "a", base_url="http://user:hush@example.com/v1")
    assert "http://user:***@example.com/v1" in repr(config)
    assert "hush" not in repr(config) + repr([config]) + str(config)


def test_a_router_without_providers_is_refused(rig: Any) -> None:
    with pytest.raises(NoProvidersConfiguredError):
        ProviderRouter([], metrics_store=None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"provider_id": ""}, "provider_id"),
        ({"name": "  "}, "name"),
        ({"model": None}, "model"),
        ({"protocol": "smoke_signals"}, "protocol"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": float("inf")}, "timeout_seconds"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"bas_url": "x"}, "bas_url"),
        ({"base_url": "api.example.com/v1"}, "base_url"),
        ({"base_url": "http://[bad/v1"}, "base_url"),
        ({"base_url": "https:///v1"}, "base_url"),
        ({"base_url": "http://example.com:port/v1"}, "base_url"),
        ({"base_url": "http://example.com/v1\n"}, "base_url"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_with_the_fields_name(
    change: dict[str, Any], words: str
) -> None:
    good = {
        "provider_id": "a",
        "name": "a",
        "protocol": ApiProtocol.OPENAI_CHAT,
        "model": "m",
        "api_key": SECRET,
    }

    with pytest.raises(ConfigError, match=f"ProviderConfig: .*{words}") as caught:
        ProviderRouter([{**good, **change}], metrics_store=None)

    assert SECRET not in str(caught.value)


def test_a_protocol_that_nobody_speaks_is_named_as_such_wherever_it_is_configured(
    rig: Any, tmp_path: Path
) -> None:
    words = "protocol: must be one of openai_chat, openai_responses"
    known = {"provider_id": "a", "name": "a", "model": "m", "protocol": "smoke_signals", "api_key": SECRET}
    file = tmp_path / "turnout.toml"
    table = "".join(f'{name} = "{value}"\n' for name, value in known.items())
    file.write_text(f"[[providers]]\n{table}")

    doors: list[Callable[[], object]] = [
        lambda: ProviderConfig(**known),  # type: ignore[arg-type]
        lambda: ProviderRouter([known], metrics_store=None),
        lambda: ProviderRouter.from_toml(file),
    ]
    for door in doors:
        with pytest.raises(UnsupportedProtocolError, match=words) as caught:
            door()
        assert SECRET not in str(caught.value)


def test_two_providers_of_one_id_are_refused_and_two_of_one_name_are_told_apart(rig: Any) -> None:
    sim = rig.simulate(a=Status(500), b=Status(500))
    with pytest.raises(ConfigError, match="given twice: a"):
        ProviderRouter([rig.provider(sim, "a"), rig.provider(sim, "b", provider_id="a")], metrics_store=None)

    router = rig.router([rig.provider(sim, "a", name="same"), rig.provider(sim, "b", name="same")])
    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())
    assert 'same (id="a")' in str(caught.value)
    assert 'same (id="b")' in str(caught.value)


def test_a_blank_scope_and_a_timeout_that_is_none_are_refused(rig: Any) -> None:
    sim = rig.simulate(a=Answer())
    with pytest.raises(ConfigError, match="metrics_scope"):
        ProviderRouter(rig.providers(sim), "  ", metrics_store=None)
    router = rig.router(rig.providers(sim))

    for wrong in (0, -1.0, float("inf"), float("nan"), True, "5"):
        with pytest.raises(ConfigError, match="timeout"):
            router.invoke(rig.chat(), timeout=wrong)


def test_a_provider_that_asks_for_an_unreachable_host_says_so(rig: Any) -> None:
    sim = rig.simulate(a=Answer())
    config = rig.provider(sim, "a", base_url="http://127.0.0.1:1/v1")
    error = only_attempt(rig.router([config]), rig.chat()).error

    assert type(error) is ProviderConnectionError
    assert "check its base_url and the network" in str(error)
