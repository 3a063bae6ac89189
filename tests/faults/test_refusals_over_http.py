"""A provider P refuses, and a fallback F stands by: what each of them is asked, and what the caller is told."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    NoEligibleProvidersError,
    ProviderConfig,
    ProviderError,
    ProviderHTTPError,
    ProviderRouter,
    RouteError,
    RouterExhaustedError,
)
from turnout.decisions.circuit import State
from turnout.faults import Fault
from turnout.testing import ManualClock
from turnout.testing.simulator import (
    Answer,
    InStreamError,
    ScriptLike,
    Silence,
    SimulatedProvider,
    Simulator,
    Status,
)

TOO_LONG = Status(
    400, error_code="context_length_exceeded", message="This model's maximum context length is 8192 tokens."
)
REFUSED = Status(400, error_code="content_policy_violation", message="Rejected by our safety system.")


@dataclass
class Pair:
    """Providers over HTTP, tried in the order of their names, and a clock that only the test moves."""

    sim: Simulator
    clock: ManualClock
    router: ProviderRouter

    def call(self, *, stream: bool = False) -> str:
        """Who answered; a stream is read to its end."""
        answer = self.router.invoke(chat(stream=stream))
        if not stream:
            return str(answer.choices[0].message.content)
        return "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)

    def calls_together(self, count: int) -> list[str]:
        """Who answered each of so many calls, made by the pool's threads at once."""
        futures = [self.router.submit(chat()) for _ in range(count)]
        return [str(future.result(30).choices[0].message.content) for future in futures]

    def asked(self, name: str) -> int:
        return self.sim.total(name)

    def state(self, name: str) -> State:
        return self.router.health_report()[name].state


def chat(*, stream: bool = False) -> CallVariant:
    arguments: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
    return CallVariant(
        ApiProtocol.OPENAI_CHAT,
        "chat.completions.create",
        CallType.STREAMING if stream else CallType.REGULAR,
        {**arguments, "stream": True} if stream else arguments,
    )


Stand = Callable[..., Pair]


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """Providers by name: a script, or a script with settings of its own. Each answers with its name."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with ExitStack() as stack:

        def built(
            health: dict[str, Any] | None = None, **given: ScriptLike | tuple[ScriptLike, dict[str, Any]]
        ) -> Pair:
            scripts = {
                name: value if isinstance(value, tuple) else (value, {}) for name, value in given.items()
            }
            sim = stack.enter_context(
                Simulator(
                    [SimulatedProvider(name, script, text=name) for name, (script, _) in scripts.items()]
                )
            )
            clock = ManualClock()
            configs = [
                ProviderConfig(
                    **{
                        "provider_id": name,
                        "name": name,
                        "protocol": ApiProtocol.OPENAI_CHAT,
                        "model": f"model-{name}",
                        "base_url": sim.base_url(name),
                        "api_key": SecretStr("sk-any"),
                        **settings,
                    }
                )
                for name, (_, settings) in scripts.items()
            ]
            router = ProviderRouter(
                configs, policy="preference", metrics_store=None, clock=clock, health=health
            )
            return Pair(sim, clock, stack.enter_context(router))

        yield built


def refusal(pair: Pair, *, stream: bool = False) -> ProviderHTTPError:
    """The one error that a call ends in, where it was not routed on."""
    with pytest.raises(RouterExhaustedError) as caught:
        pair.call(stream=stream)
    (attempt,) = caught.value.attempts
    assert isinstance(attempt.error, ProviderHTTPError)
    assert str(attempt.error) in str(caught.value)
    return attempt.error


@pytest.mark.parametrize("stream", [False, True], ids=["regular", "streamed"])
def test_a_request_that_is_too_long_goes_to_a_larger_window_and_to_no_other(
    stand: Stand, stream: bool
) -> None:
    pair = stand(
        P=(TOO_LONG, {"context_window": 8_192}),
        Same=(Answer(), {"context_window": 8_192}),
        Smaller=(Answer(), {"context_window": 4_096}),
        F=(Answer(), {"context_window": 131_072}),
    )

    assert pair.call(stream=stream) == "F"
    assert [pair.asked(name) for name in ("P", "Same", "Smaller", "F")] == [1, 0, 0, 1]
    health = pair.router.health_report()["P"]
    assert (health.state, health.consecutive_failures) == (State.CLOSED, 0)


@pytest.mark.parametrize(
    ("window", "model", "answered"),
    [(None, "another", True), (8_192, "another", True), (None, "model-P", False), (8_192, "model-P", False)],
)
def test_where_a_window_is_unknown_another_model_may_hold_more(
    stand: Stand, window: int | None, model: str, answered: bool
) -> None:
    pair = stand(P=TOO_LONG, F=(Answer(), {"model": model, "context_window": window}))

    if answered:
        assert pair.call() == "F"
    else:
        assert refusal(pair).fault is Fault.CONTEXT_LENGTH
    assert (pair.asked("P"), pair.asked("F")) == (1, int(answered))


def test_a_request_too_long_for_everyone_is_told_with_who_was_spared_it(stand: Stand) -> None:
    pair = stand(
        P=(TOO_LONG, {"context_window": 8_192}),
        Q=(TOO_LONG, {"context_window": 16_384}),
        F=(Answer(), {"context_window": 16_384}),
    )

    with pytest.raises(RouterExhaustedError) as caught:
        pair.call()

    error = caught.value
    assert [(attempt.provider_id, attempt.fault) for attempt in error.attempts] == [
        ("P", Fault.CONTEXT_LENGTH),
        ("Q", Fault.CONTEXT_LENGTH),
    ]
    assert [(one.provider_id, one.reason) for one in error.exclusions] == [("F", "context_too_small")]
    for words in ("maximum context length is 8192", "larger context_window", "16384 tokens, no more than Q"):
        assert words in str(error)
    assert error.retry_after_seconds is None
    assert (pair.asked("P"), pair.asked("Q"), pair.asked("F")) == (1, 1, 0)
    assert {pair.state(name) for name in "PQF"} == {State.CLOSED}


def test_a_request_found_too_long_in_a_stream_starts_over_on_a_larger_window(stand: Stand) -> None:
    too_long = InStreamError("prompt is too long: 9000 tokens > 8192 maximum", "invalid_request_error")
    pair = stand(P=too_long, Same=(Answer(), {"model": "model-P"}), F=Answer())

    assert pair.call(stream=True) == "F"
    assert [pair.asked(name) for name in ("P", "Same", "F")] == [1, 0, 1]


@pytest.mark.parametrize("stream", [False, True], ids=["regular", "streamed"])
def test_a_refusal_by_a_content_policy_is_told_and_not_routed_around(stand: Stand, stream: bool) -> None:
    pair = stand(P=REFUSED, F=Answer())

    told = refusal(pair, stream=stream)

    assert (told.fault, told.error_code) == (Fault.CONTENT_FILTER, "content_policy_violation")
    assert told.message == "Rejected by our safety system."
    assert (pair.asked("P"), pair.asked("F")) == (1, 0)
    assert pair.state("P") is State.CLOSED


def test_a_refusal_in_a_stream_is_told_as_the_providers_own_error(stand: Stand) -> None:
    pair = stand(P=InStreamError("No.", "invalid_request_error", "content_filter"), F=Answer())

    with pytest.raises(ProviderError) as caught:
        pair.call(stream=True)

    assert caught.value.fault is Fault.CONTENT_FILTER
    assert pair.asked("F") == 0


@pytest.mark.slow
@pytest.mark.parametrize("bound", [{"max_concurrency": 32}, {}], ids=["room for all", "the default share"])
def test_a_thousand_mistakes_of_the_caller_move_no_circuit(stand: Stand, bound: dict[str, Any]) -> None:
    mistakes = [Status(400), Status(422), REFUSED, TOO_LONG, Status(413)]

    def refuses(number: int) -> Status:
        return mistakes[number % len(mistakes)]

    pair = stand(P=(refuses, bound), F=(refuses, {"model": "model-P"}))

    futures = [pair.router.submit(chat()) for _ in range(1_000)]

    assert {type(future.exception(50)) for future in futures} == {RouterExhaustedError}
    # By default some calls find P's share of the workers taken, and go to F. None goes to both.
    assert pair.asked("P") + pair.asked("F") == 1_000
    assert (pair.asked("F") == 0) is bool(bound)
    for health in pair.router.health_report().values():
        assert (health.state, health.consecutive_failures, health.why) == (State.CLOSED, 0, None)


@pytest.mark.parametrize("status", [Status(429, retry_after=2), Status(429, retry_after_ms=2000)])
def test_a_provider_is_left_alone_for_as_long_as_it_asked(stand: Stand, status: Status) -> None:
    pair = stand(P=[status, Answer()], F=Answer())

    assert pair.call() == "F"
    assert pair.router.health_report()["P"].cooldown_remaining_seconds == 2.0
    pair.clock.advance(1.9)
    assert set(pair.calls_together(20)) == {"F"}
    assert pair.asked("P") == 1
    pair.clock.advance(0.1)
    assert pair.call() == "P"
    assert pair.state("P") is State.CLOSED


@pytest.mark.parametrize(
    ("status", "before_it_opens", "cooldown"),
    [(Status(429), 1, 60.0), (Status(503), 3, 60.0), (Status(402), 1, 3600.0)],
    ids=["429", "503", "402"],
)
@pytest.mark.slow
def test_a_lasting_refusal_costs_one_call_in_each_window_and_every_call_is_answered(
    stand: Stand, status: Status, before_it_opens: int, cooldown: float
) -> None:
    pair = stand(P=status, F=Answer())

    assert [pair.call() for _ in range(before_it_opens)] == ["F"] * before_it_opens
    assert pair.state("P") is State.OPEN
    assert pair.router.health_report()["P"].cooldown_remaining_seconds == cooldown
    for window in range(8):
        assert set(pair.calls_together(20)) == {"F"}
        assert pair.asked("P") == before_it_opens + window
        left = pair.router.health_report()["P"].cooldown_remaining_seconds
        assert left is not None
        assert cooldown <= left <= max(cooldown, 300.0)
        pair.clock.advance(left)
        assert set(pair.calls_together(20)) == {"F"}
        assert pair.asked("P") == before_it_opens + window + 1


def test_credentials_refused_to_a_probe_take_its_permit_back_and_a_reset_brings_the_provider_back(
    stand: Stand,
) -> None:
    pair = stand(P=[Status(429), Status(401), Answer()], F=Answer())
    assert pair.call() == "F"
    pair.clock.advance(60.0)

    assert pair.call() == "F"

    health = pair.router.health_report()["P"]
    assert (health.state, health.why, health.probes_out) == (State.DISABLED, "auth", 0)
    pair.clock.advance(1e6)
    assert pair.call() == "F"
    assert pair.asked("P") == 2
    pair.router.reset_health("P")
    assert pair.call() == "P"


def test_a_cancelled_probe_gives_its_permit_back_and_the_next_call_probes(stand: Stand) -> None:
    pair = stand(P=[Status(429), Silence(), Answer()], F=Answer())
    assert pair.call() == "F"
    pair.clock.advance(60.0)

    probe = pair.router.submit(chat())
    pair.sim.wait_for(lambda: pair.asked("P") == 2)
    assert pair.router.health_report()["P"].probes_out == 1
    assert pair.call() == "F"
    probe.cancel()
    # The worker that probes is cut in its own time; until then F answers.
    answers = []
    while pair.state("P") is not State.CLOSED:
        answers.append(pair.call())
    assert answers[-1] == "P"
    assert (pair.asked("P"), set(answers[:-1]) <= {"F"}) == (3, True)
    assert pair.router.health_report()["P"].probes_out == 0


def test_with_everything_down_one_error_names_each_cause_and_when_to_come_again(stand: Stand) -> None:
    pair = stand(
        P=Status(503, message="P is full"),
        F=Status(429, message="F is busy", retry_after=7),
        health={"failure_threshold": 1},
    )

    errors: list[RouteError] = []
    for _ in range(20):
        with pytest.raises(RouteError) as caught:
            pair.call()
        errors.append(caught.value)

    first, *later = errors
    assert isinstance(first, RouterExhaustedError)
    for error in errors:
        assert "P is full" in str(error)
        assert "F is busy" in str(error)
        assert "try again in 7.0 s" in str(error)
        assert error.retry_after_seconds == 7.0  # type: ignore[attr-defined]
    assert {type(error) for error in later} == {NoEligibleProvidersError}
    assert (pair.asked("P"), pair.asked("F")) == (1, 1)
