"""First use: a Chat call, a Responses call, and the SDK behind them."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    Fault,
    ModelArgumentConflictError,
    Outcome,
    ProviderConfig,
    ProviderResponsesError,
    ProviderRouter,
    RouterExhaustedError,
    UnsupportedOperationError,
)
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing.simulator import Answer, Background, ErrorEvent, Failed, Incomplete, key_mark


def test_a_minimal_chat_call_gives_back_the_sdks_own_answer(
    rig: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sim = rig.simulate(a=Answer(text="Hello to you"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PROVIDER_A_API_KEY", "sk-from-the-environment")

    router = ProviderRouter(
        providers=[
            ProviderConfig(
                provider_id="provider-a-production",
                name="provider_a",
                protocol=ApiProtocol.OPENAI_CHAT,
                model="my-model",
                base_url=sim.base_url("a"),
                api_key_env="PROVIDER_A_API_KEY",
            )
        ],
        metrics_scope="my-application:production",
    )
    with router:
        response = router.invoke(
            [
                CallVariant(
                    protocol=ApiProtocol.OPENAI_CHAT,
                    operation="chat.completions.create",
                    call_type=CallType.REGULAR,
                    arguments={"messages": [{"role": "user", "content": "Hello"}]},
                )
            ]
        )

    assert type(response) is ChatCompletion
    assert response.choices[0].message.content == "Hello to you"
    (request,) = sim.requests("a")
    assert request.body == {"messages": [{"role": "user", "content": "Hello"}], "model": "my-model"}
    assert request.headers["authorization"] == f"Bearer {key_mark('sk-from-the-environment')}"
    assert (tmp_path / ".turnout" / "metrics.duckdb").is_file()


def test_a_model_among_the_arguments_is_refused_before_any_provider_is_contacted(rig: Any) -> None:
    sim = rig.simulate(a=Answer())
    router = rig.router(rig.providers(sim))

    for call in (router.invoke, router.submit):
        with pytest.raises(ModelArgumentConflictError, match='hold "model"'):
            call(rig.chat(model="gpt-x"))
    assert sim.total("a") == 0


def responses_provider(rig: Any, sim: Any, at: str = "a") -> ProviderConfig:
    config: ProviderConfig = rig.provider(
        sim,
        at,
        provider_id=f"provider-{at}-responses-production",
        name=f"provider_{at}",
        protocol=ApiProtocol.OPENAI_RESPONSES,
        model="my-model",
    )
    return config


def test_a_responses_call_gives_back_the_sdks_own_response(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="Light scatters. Blue scatters most."))
    router = rig.router([responses_provider(rig, sim)])

    response = router.invoke(
        [
            CallVariant(
                protocol=ApiProtocol.OPENAI_RESPONSES,
                operation="responses.create",
                call_type=CallType.REGULAR,
                arguments={
                    "input": "Explain why the sky appears blue.",
                    "instructions": "Answer in two sentences.",
                },
            )
        ]
    )

    assert type(response) is Response
    assert response.output_text == "Light scatters. Blue scatters most."
    assert response.usage is not None
    assert sim.requests("a")[0].body == {
        "input": "Explain why the sky appears blue.",
        "instructions": "Answer in two sentences.",
        "model": "my-model",
    }


def test_a_responses_stream_yields_the_sdks_typed_events_and_its_usage(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="one two three", prompt_tokens=5, completion_tokens=3))
    router = rig.router([responses_provider(rig, sim)])

    stream = router.invoke(
        [
            CallVariant(
                protocol=ApiProtocol.OPENAI_RESPONSES,
                operation="responses.create",
                call_type=CallType.STREAMING,
                arguments={"input": "Count from one to three.", "stream": True},
            )
        ]
    )
    early = stream.usage
    text, kinds = "", []
    for event in stream:
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta

    assert text == "one two three"
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert early is None
    assert stream.usage.total_tokens == 8


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
def test_an_incomplete_response_is_served_as_a_success_with_one_warning(
    rig: Any, logged: Any, reason: Any, stream: bool
) -> None:
    sim = rig.simulate(a=Incomplete(reason), b=Answer())
    store = MemoryMetricsStore()
    router = rig.router([responses_provider(rig, sim, at) for at in "ab"], metrics_store=store)

    answer = router.invoke(rig.responses(**({"stream": True} if stream else {})))
    response = list(answer)[-1].response if stream else answer

    assert response.status == "incomplete"
    assert response.incomplete_details.reason == reason
    (warning,) = logged.at("WARNING")
    for part in ("provider_a", "provider-a-responses-production", "my-model", response.id, reason):
        assert part in warning
    assert sim.total("b") == 0
    assert router.health_report()["provider-a-responses-production"].consecutive_failures == 0
    assert router.flush()
    (row,) = store.query_recent(since=datetime.fromtimestamp(0, UTC))
    assert (row.success, row.outcome) == (True, Outcome.OK)


def test_a_response_declared_failed_keeps_its_typed_event_and_falls_over(rig: Any) -> None:
    sim = rig.simulate(a=Failed("server_error", "the model fell over"))
    router = rig.router([responses_provider(rig, sim)])

    stream = router.invoke(rig.responses(stream=True))
    with pytest.raises(RouterExhaustedError) as caught:
        list(stream)

    error: Any = caught.value.attempts[0].error
    assert type(error) is ProviderResponsesError
    assert error.event.type == "response.failed"
    assert error.response is error.event.response
    assert (error.error_code, error.message) == ("server_error", "the model fell over")
    assert error.fault is Fault.SERVER_ERROR

    sim.script("a", ErrorEvent("invalid_prompt", "not this"))
    stream = router.invoke(rig.responses(stream=True))
    with pytest.raises(ProviderResponsesError) as declared:
        list(stream)
    assert declared.value.event.type == "error"
    assert declared.value.fault is Fault.BAD_REQUEST


def test_a_retryable_failed_response_falls_back_and_an_invalid_input_stops(rig: Any) -> None:
    sim = rig.simulate(a=[Failed("rate_limit_exceeded"), Failed("invalid_prompt")], b=Answer(text="b here"))
    router = rig.router([responses_provider(rig, sim, at) for at in "ab"])

    assert router.invoke(rig.responses()).output_text == "b here"
    assert router.health_report()["provider-a-responses-production"].cooldown_remaining_seconds > 0

    router.reset_health()
    router.invoke(rig.responses())
    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.responses())
    (attempt,) = caught.value.attempts
    assert isinstance(attempt.error, ProviderResponsesError)
    assert attempt.fault is Fault.BAD_REQUEST
    assert router.health_report()["provider-a-responses-production"].consecutive_failures == 0


def test_a_background_response_passes_as_it_is(rig: Any) -> None:
    sim = rig.simulate(a=[Background("queued"), Background("in_progress")])
    router = rig.router([responses_provider(rig, sim)])

    statuses = [router.invoke(rig.responses(background=True)).status for _ in range(2)]

    assert statuses == ["queued", "in_progress"]


@pytest.mark.parametrize(
    "operation", ["responses.retrieve", "responses.delete", "responses.cancel", "responses.input_items.list"]
)
def test_of_the_responses_api_only_create_is_routed(rig: Any, operation: str) -> None:
    sim = rig.simulate(a=Answer(), b=Answer())
    router = rig.router([responses_provider(rig, sim, at) for at in "ab"])
    call = CallVariant(ApiProtocol.OPENAI_RESPONSES, operation, CallType.REGULAR, {"response_id": "resp_1"})

    with pytest.raises(RouterExhaustedError, match=r"only responses\.create is routed") as caught:
        router.invoke(call)

    (attempt,) = caught.value.attempts
    assert isinstance(attempt.error, UnsupportedOperationError)
    assert sim.total("a") == sim.total("b") == 0


def test_one_sdk_client_and_its_connection_serve_all_calls_of_a_provider(rig: Any) -> None:
    sim = rig.simulate(a=Answer())
    router = rig.router(rig.providers(sim))

    for _ in range(3):
        router.invoke(rig.chat())

    assert len({request.connection for request in sim.requests("a")}) == 1


def test_a_key_corrected_while_running_takes_effect_on_the_next_call(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = rig.simulate(a=Answer())
    monkeypatch.setenv("PROVIDER_A_API_KEY", "sk-old")
    router = rig.router([rig.provider(sim, "a", api_key_env="PROVIDER_A_API_KEY")])

    router.invoke(rig.chat())
    monkeypatch.setenv("PROVIDER_A_API_KEY", "sk-new")
    router.invoke(rig.chat())

    assert [request.headers["authorization"] for request in sim.requests("a")] == [
        f"Bearer {key_mark('sk-old')}",
        f"Bearer {key_mark('sk-new')}",
    ]


def run(code: str) -> str:
    """What a fresh interpreter prints for ``code``."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_importing_turnout_brings_no_sdk_and_no_driver() -> None:
    loaded = run(
        "import sys, turnout; print(sorted({'openai', 'duckdb', 'httpx', 'httpx2'} & set(sys.modules)))"
    )

    assert loaded == "[]\n"


WITHOUT_SDK = """
import sys
sys.modules["openai"] = None
from turnout import *
provider = dict(name="a", protocol="openai_chat", model="m", base_url="http://127.0.0.1:9/v1", api_key="k")
router = ProviderRouter([dict(provider, provider_id=one) for one in "ab"], metrics_store=None)
call = CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, {"messages": []})
with router:
    try:
        router.invoke(call)
    except RouterExhaustedError as error:
        (attempt,) = error.attempts
        print(type(attempt.error).__name__, "turnout[openai]" in str(error))
    print([health.consecutive_failures for health in router.health_report().values()])
"""


def test_a_missing_sdk_stops_the_call_and_names_the_extra_that_brings_it() -> None:
    assert run(WITHOUT_SDK) == "ProviderSDKNotInstalledError True\n[0, 0]\n"
