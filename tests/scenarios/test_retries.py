"""Retries at the same provider: when they are made, when they are not, and what they wait for."""

from typing import Any

import pytest
from tenacity import wait_exception, wait_fixed

from turnout import (
    DeadlineExceededError,
    PreferencePolicy,
    Reason,
    RouterExhaustedError,
    SameProviderRetryPolicy,
)
from turnout.errors import ProviderHTTPError
from turnout.faults import Fault
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Status


def down(status: int = 500, **more: Any) -> ProviderHTTPError:
    fault = Fault.SERVER_ERROR if status >= 500 else Fault.RATE_LIMIT
    return ProviderHTTPError(
        f"HTTP {status}",
        provider_id="a",
        provider_name="a",
        model="m",
        fault=fault,
        status_code=status,
        **more,
    )


def reasons(future: Any) -> list[tuple[str, Reason]]:
    return [(attempt.provider_id, attempt.reason) for attempt in future.report().attempts]


def test_one_server_error_is_tried_again_at_the_same_provider(rig: Any) -> None:
    sim = rig.simulate(a=[Status(500), Answer(text="a")], b=Answer(text="b"))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy(), retry_policy=SameProviderRetryPolicy())

    future = router.submit(rig.chat())

    assert future.result(30).choices[0].message.content == "a"
    assert reasons(future) == [("a", Reason.PRIMARY), ("a", Reason.RETRY)]
    assert (sim.total("a"), sim.total("b")) == (2, 0)


def test_without_a_policy_there_is_no_retry(rig: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [down(), "a"], "b": ["b"]}), "ab", policy=PreferencePolicy())
    assert router.invoke(rig.chat()) == "b"


def test_a_provider_has_a_policy_of_its_own_or_none(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [down()], "b": [down(), "b"]})
    configs = [
        {
            "provider_id": name,
            "name": name,
            "protocol": "openai_chat",
            "model": "m",
            "api_key": "k",
            "retry": own,
        }
        for name, own in (("a", False), ("b", {"max_attempts": 2}))
    ]
    router = rig.router(
        configs, adapter_factory=adapters, policy=PreferencePolicy(), retry_policy={"provider_scope": "all"}
    )
    future = router.submit(rig.chat())

    assert future.result(30) == "b"
    assert reasons(future) == [("a", Reason.PRIMARY), ("b", Reason.FAILOVER), ("b", Reason.RETRY)]


def test_a_bench_ends_the_retries_at_once(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [down()], "b": ["b"]})
    router = rig.scripted(
        adapters,
        "ab",
        policy=PreferencePolicy(),
        retry_policy={"max_attempts": 8},
        health={"failure_threshold": 2},
    )
    assert router.invoke(rig.chat()) == "b"
    assert [call.provider_id for call in adapters.calls] == ["a", "a", "b"]


def test_a_provider_that_asks_not_to_be_tried_again_is_not(rig: Any) -> None:
    sim = rig.simulate(a=[Status(503, headers={"x-should-retry": "false"}), Answer()], b=Answer(text="b"))
    router = rig.router(rig.providers(sim), policy=PreferencePolicy(), retry_policy=SameProviderRetryPolicy())
    assert router.invoke(rig.chat()).choices[0].message.content == "b"
    assert sim.total("a") == 1


def test_a_wait_holds_no_worker_and_ends_by_the_clock(rig: Any) -> None:
    clock = ManualClock()
    adapters = ScriptedAdapters({"a": [down(), "again"], "b": ["b"]})
    router = rig.scripted(
        adapters,
        "ab",
        clock=clock,
        policy=PreferencePolicy(),
        pool={"max_workers": 1},
        retry_policy=SameProviderRetryPolicy(wait=wait_fixed(5)),
    )
    waits = router.submit(rig.chat())
    # The one worker serves another call while the first waits for its time.
    while len(adapters.calls) < 1 or router.stats().queued:
        router.stats()
    assert router.submit(rig.chat()).result(30) == "again"
    assert not waits.done()

    clock.advance(4.9)
    assert not waits.done()
    clock.advance(0.1)
    assert waits.result(30) == "again"


def test_a_wait_may_look_at_what_the_attempt_ended_in(rig: Any) -> None:
    clock, asked = ManualClock(), list[BaseException]()

    def five_seconds(error: BaseException) -> float:
        asked.append(error)
        return 5.0

    adapters = ScriptedAdapters({"a": [failed := down(), "again"]})
    router = rig.scripted(
        adapters, "a", clock=clock, retry_policy=SameProviderRetryPolicy(wait=wait_exception(five_seconds))
    )
    waits = router.submit(rig.chat())
    while not waits.done():
        clock.advance(5.0)
    assert waits.result(0) == "again"
    # Before any call, whether it gives seconds at all.
    assert asked[1:] == [failed]


def test_a_wait_is_cut_by_a_cancel(rig: Any) -> None:
    clock = ManualClock()
    adapters = ScriptedAdapters({"a": [down(), "again"]})
    router = rig.scripted(
        adapters, "a", clock=clock, retry_policy=SameProviderRetryPolicy(wait=wait_fixed(5))
    )
    future = router.submit(rig.chat())
    while not router.health_report()["a"].consecutive_failures:
        router.stats()
    assert future.cancel()
    router.close()
    assert len(adapters.calls) == 1


@pytest.mark.parametrize(("retry_after", "tried"), [(4.0, ["a", "a"]), (31.0, ["a", "b"])])
def test_a_retry_after_within_the_bound_is_waited_for_and_a_longer_one_goes_on(
    rig: Any, retry_after: float, tried: list[str]
) -> None:
    clock = ManualClock()
    called_at: list[float] = []

    def fails(call: Any) -> str:
        called_at.append(clock.monotonic())
        raise down(503, retry_after_seconds=retry_after)

    def answers(call: Any) -> str:
        called_at.append(clock.monotonic())
        return "answer"

    adapters = ScriptedAdapters({"a": [fails, answers], "b": [answers]})
    router = rig.scripted(
        adapters, "ab", clock=clock, policy=PreferencePolicy(), retry_policy=SameProviderRetryPolicy()
    )
    future = router.submit(rig.chat())
    while not future.done():
        clock.advance(0.01)

    assert [call.provider_id for call in adapters.calls] == tried
    if tried == ["a", "a"]:
        assert called_at[1] - called_at[0] >= retry_after


def test_a_wait_that_does_not_fit_the_deadline_goes_on_instead(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [down()], "b": ["b"]})
    router = rig.scripted(
        adapters, "ab", policy=PreferencePolicy(), retry_policy=SameProviderRetryPolicy(wait=wait_fixed(20))
    )
    assert router.invoke(rig.chat(), timeout=10.0) == "b"


def test_an_opened_stream_is_never_retried(rig: Any) -> None:
    adapters = ScriptedAdapters({"a": [[down()], ["a", FINISHED]], "b": [["b", FINISHED]]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), retry_policy={"provider_scope": "all"})
    assert list(router.invoke(rig.chat(stream=True))) == ["b"]


@pytest.mark.parametrize("answer", [1, None, "yes"])
def test_a_policy_that_does_not_say_true_or_false_makes_no_retry(
    rig: Any, logged: Any, answer: object
) -> None:
    class Vague:
        max_attempts = 3

        def should_retry(self, context: Any) -> Any:
            return answer

    adapters = ScriptedAdapters({"a": [down()], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), retry_policy=Vague())
    assert router.invoke(rig.chat()) == "b"
    assert "should_retry" in logged.at("WARNING")[0]


@pytest.mark.parametrize("name", ["max_attempts", "max_wait_seconds"])
@pytest.mark.parametrize("answers", [None, "3", OSError("gone")])
def test_a_policy_that_says_nonsense_only_later_makes_no_retry(
    rig: Any, logged: Any, name: str, answers: object
) -> None:
    class Fickle:
        built = False

        def _said(self, asked: str) -> Any:
            if not self.built or asked != name:
                return 3
            if isinstance(answers, Exception):
                raise answers
            return answers

        @property
        def max_attempts(self) -> Any:
            return self._said("max_attempts")

        @property
        def max_wait_seconds(self) -> Any:
            return self._said("max_wait_seconds")

        def should_retry(self, context: Any) -> bool:
            return True

    policy = Fickle()
    adapters = ScriptedAdapters({"a": [down()], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), retry_policy=policy)
    policy.built = True
    assert router.invoke(rig.chat()) == "b"
    assert [call.provider_id for call in adapters.calls] == ["a", "b"]
    assert f"Fickle.{name} " in logged.at("WARNING")[0]


def test_a_wait_that_can_no_longer_be_read_is_none(rig: Any, logged: Any) -> None:
    class Fickle:
        max_attempts = 2
        built = False

        @property
        def wait(self) -> Any:
            if self.built:
                raise OSError("gone")
            return wait_fixed(20)

        def should_retry(self, context: Any) -> bool:
            return True

    policy = Fickle()
    adapters = ScriptedAdapters({"a": [down(), "again"], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=PreferencePolicy(), retry_policy=policy)
    policy.built = True
    assert router.invoke(rig.chat()) == "again"
    assert "the wait of Fickle raised" in logged.at("WARNING")[0]


def test_a_policy_of_ones_own_may_retry_an_unknown_failure_but_opens_no_gate(rig: Any) -> None:
    seen: list[Any] = []

    class Bold:
        max_attempts = 99

        def should_retry(self, context: Any) -> bool:
            seen.append((context.fault, context.attempts, context.first))
            return True

    adapters = ScriptedAdapters({"a": [RuntimeError("odd")], "b": [down(429)], "c": ["c"]})
    router = rig.scripted(
        adapters, "abc", policy=PreferencePolicy(), retry_policy=Bold(), health={"failure_threshold": 99}
    )
    assert router.invoke(rig.chat()) == "c"
    assert [call.provider_id for call in adapters.calls] == ["a"] * 8 + ["b", "c"]
    assert seen == [(Fault.UNKNOWN, made, True) for made in range(1, 8)]


def test_retries_of_all_calls_together_stay_within_the_budget(rig: Any) -> None:
    clock = ManualClock()
    adapters = ScriptedAdapters({"a": [down()], "b": ["b"]})
    router = rig.scripted(
        adapters,
        "ab",
        clock=clock,
        policy=PreferencePolicy(),
        retry_policy={"max_attempts": 8},
        health={"failure_threshold": 10_000},
        budget={"ratio": 0.25, "per_second": 1.0, "max_tokens": 10.0},
    )
    for _ in range(100):
        assert router.invoke(rig.chat()) == "b"
    # Ten that were there, and one for each four of the calls behind the first.
    assert len([call for call in adapters.calls if call.provider_id == "a"]) == 100 + 10 + 24
    clock.advance(2.0)
    before = len(adapters.calls)
    assert router.invoke(rig.chat()) == "b"
    assert [call.provider_id for call in adapters.calls[before:]] in (["a"] * 3 + ["b"], ["a"] * 4 + ["b"])


def test_a_call_has_so_many_attempts_at_most_and_says_who_was_not_tried(rig: Any) -> None:
    adapters = ScriptedAdapters({name: [down()] for name in "abc"})
    router = rig.scripted(
        adapters,
        "abc",
        policy=PreferencePolicy(),
        retry_policy={"provider_scope": "all", "max_attempts": 2},
        budget={"max_attempts_per_call": 4},
    )
    with pytest.raises(RouterExhaustedError, match=r"c: the call has had its 4 attempts") as caught:
        router.invoke(rig.chat())
    assert [attempt.provider_id for attempt in caught.value.attempts] == ["a", "a", "b", "b"]


def test_a_deadline_that_passes_during_an_attempt_says_so_and_not_that_retries_ran_out(rig: Any) -> None:
    clock = ManualClock()

    def slow(call: Any) -> str:
        clock.advance(11.0)
        raise down()

    router = rig.scripted(
        ScriptedAdapters({"a": [slow]}), "a", clock=clock, retry_policy=SameProviderRetryPolicy()
    )
    with pytest.raises(DeadlineExceededError):
        router.invoke(rig.chat(), timeout=10.0)
