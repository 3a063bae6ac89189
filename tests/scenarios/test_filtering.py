"""Hard filters: who is not tried, and how the caller is told."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    DeadlineExceededError,
    FilterReason,
    NoEligibleProvidersError,
    RouterExhaustedError,
)
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Status


def test_every_excluded_provider_is_told_of_with_its_own_reason(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    sim = rig.simulate(
        off=Answer(), keyless=Answer(), other=Answer(), limited=Status(429), locked=Status(401)
    )
    router = rig.router(
        [
            rig.provider(sim, "off", enabled=False),
            rig.provider(sim, "keyless", api_key_env="NO_SUCH_KEY"),
            rig.provider(sim, "other", protocol=ApiProtocol.OPENAI_RESPONSES),
            rig.provider(sim, "limited"),
            rig.provider(sim, "locked"),
        ],
        clock=ManualClock(),
    )
    with pytest.raises(RouterExhaustedError):
        router.invoke(rig.chat())

    with pytest.raises(NoEligibleProvidersError) as caught:
        router.invoke(rig.chat())

    error = caught.value
    assert [(e.provider_id, e.provider_name, e.reason) for e in error.exclusions] == [
        ("off", "off", FilterReason.DISABLED),
        ("keyless", "keyless", FilterReason.MISSING_API_KEY),
        ("other", "other", FilterReason.NO_MATCHING_VARIANT),
        ("limited", "limited", FilterReason.IN_COOLDOWN),
        ("locked", "locked", FilterReason.AUTH_DISABLED_THIS_RUN),
    ]
    for part in (
        "off: disabled by its configuration",
        "keyless: no API key: the environment variable NO_SUCH_KEY is not set, or empty",
        "other: the call has no variant for openai_responses; add one, or a provider that speaks openai_chat",
        "limited: is benched for 60.0 s after rate limit",
        "Rate limit reached for requests.",
        "locked: is disabled for this run: its credentials were refused",
        "Incorrect API key provided; check its api_key",
    ):
        assert part in str(error)
    assert [sim.total(name) for name in ("off", "keyless", "other", "limited", "locked")] == [0, 0, 0, 1, 1]


def test_a_protocol_without_an_adapter_is_unsupported(rig: Any) -> None:
    sim = rig.simulate(a=Answer(), b=Answer())
    router = rig.router(
        [rig.provider(sim, "a", protocol=ApiProtocol.OPENAI_RESPONSES), rig.provider(sim, "b")],
        supported_protocols=[ApiProtocol.OPENAI_CHAT],
    )

    with pytest.raises(NoEligibleProvidersError) as caught:
        router.invoke(rig.responses())

    assert [(e.provider_id, e.reason) for e in caught.value.exclusions] == [
        ("a", FilterReason.UNSUPPORTED_PROTOCOL),
        ("b", FilterReason.NO_MATCHING_VARIANT),
    ]


def test_a_key_that_appears_in_the_environment_makes_a_provider_eligible(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A_LATE_KEY", raising=False)
    sim = rig.simulate(a=Answer(text="here"))
    router = rig.router([rig.provider(sim, "a", api_key_env="A_LATE_KEY")])

    with pytest.raises(NoEligibleProvidersError):
        router.invoke(rig.chat())
    monkeypatch.setenv("A_LATE_KEY", "sk-late")

    assert router.invoke(rig.chat()).choices[0].message.content == "here"


def test_a_filtered_provider_is_passed_over_and_named_in_the_report(rig: Any) -> None:
    sim = rig.simulate(off=Answer(), on=Answer())
    router = rig.router([rig.provider(sim, "off", enabled=False), rig.provider(sim, "on")])

    future = router.submit(rig.chat())
    future.result(30)
    report = future.report()

    assert report.answered_by.provider_id == "on"
    assert [(e.provider_id, e.reason) for e in report.exclusions] == [("off", FilterReason.DISABLED)]
    assert not report.failed_over


def test_what_was_tried_and_what_was_not_stand_side_by_side_when_nothing_answered(rig: Any) -> None:
    sim = rig.simulate(off=Answer(), broken=Status(500))
    router = rig.router([rig.provider(sim, "off", enabled=False), rig.provider(sim, "broken")])

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())

    assert [attempt.provider_id for attempt in caught.value.attempts] == ["broken"]
    assert [exclusion.provider_id for exclusion in caught.value.exclusions] == ["off"]
    assert "not tried: off: disabled by its configuration" in str(caught.value)


def test_what_the_arguments_ask_for_is_never_inspected(rig: Any) -> None:
    """Tools, JSON mode, streaming: no capability is inferred; what a provider cannot do, it says itself."""
    adapters = ScriptedAdapters({"a": ["served"]})
    router = rig.scripted(adapters, "a")
    arguments = {"tools": [{"odd": object}], "response_format": object, "stream": "inconsistent"}
    call = CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, arguments)

    assert router.invoke(call) == "served"
    assert adapters.calls[0].arguments == {**arguments, "model": "model-a"}


class Picky:
    """A policy that tries only those it likes."""

    def __init__(self, *liked: str) -> None:
        self._liked = liked

    def order(self, eligible: Sequence[Any], context: Any) -> Sequence[Any]:
        return [one for one in eligible if one.provider_id in self._liked]


def test_providers_that_a_policy_leaves_out_are_named(rig: Any) -> None:
    def refuses(call: Any) -> str:
        raise OSError("no")

    router = rig.scripted(ScriptedAdapters({"a": [refuses], "b": ["b"]}), "ab", policy=Picky("a"))
    with pytest.raises(RouterExhaustedError, match="b: left out by the policy") as caught:
        router.invoke(rig.chat())
    assert [(one.provider_id, one.reason) for one in caught.value.exclusions] == [
        ("b", FilterReason.OMITTED_BY_POLICY)
    ]

    nobody = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", policy=Picky())
    with pytest.raises(NoEligibleProvidersError, match="a: left out by the policy"):
        nobody.invoke(rig.chat())


def test_a_deadline_that_passes_in_a_line_names_who_had_no_room(rig: Any) -> None:
    arrived, gate = threading.Event(), threading.Event()

    def held(call: Any) -> str:
        arrived.set()
        assert gate.wait(30)
        return "held"

    provider = {"provider_id": "a", "name": "A", "protocol": "openai_chat", "model": "m", "api_key": "k"}
    router = rig.router([{**provider, "max_concurrency": 1}], adapter_factory=ScriptedAdapters({"a": [held]}))
    first = router.submit(rig.chat())
    assert arrived.wait(30)

    with pytest.raises(DeadlineExceededError, match=r'room at A \(id="a"\), model m'):
        router.invoke(rig.chat(), timeout=0.05)
    gate.set()
    assert first.result(30) == "held"
