"""What is kept back of a stream: preludes until there is content, and under HOLD everything until it is whole."""

from pathlib import Path
from typing import Any

import pytest

from turnout import (
    DeadlineExceededError,
    Fault,
    Outcome,
    PreferencePolicy,
    ProviderError,
    ProviderRouter,
    ProviderStreamInterruptedError,
    StreamFailurePolicy,
    StreamRestart,
)
from turnout.decisions.holding import MOST_HELD_CHUNKS, MOST_PRELUDE_CHUNKS
from turnout.testing import FINISHED, ManualClock, Prelude, ScriptedAdapters, ScriptedStream

ROLE = Prelude("role")
GONE = ProviderStreamInterruptedError("gone", provider_id="a")
HOLD = StreamFailurePolicy.HOLD


def scripted(rig: Any, scripts: dict[str, list[Any]], **settings: Any) -> tuple[ScriptedAdapters, Any]:
    adapters = ScriptedAdapters({name: [script] for name, script in scripts.items()})
    return adapters, rig.scripted(adapters, "".join(scripts), policy=PreferencePolicy(), **settings)


def test_a_prelude_is_handed_out_with_the_first_content_and_then_nothing_is_kept(rig: Any) -> None:
    read: list[str] = []

    def step(name: str) -> Any:
        def give() -> str:
            read.append(name)
            return name

        return give

    _, router = scripted(
        rig, {"a": [Prelude("one"), Prelude("two"), step("x"), step("y"), step("z"), FINISHED]}
    )
    stream = router.invoke(rig.chat(stream=True))

    assert [next(stream) for _ in range(3)] == ["one", "two", "x"]
    assert read == ["x"]
    assert (next(stream), read) == ("y", ["x", "y"])
    assert list(stream) == ["z"]
    assert stream.report().attempts[0].outcome is Outcome.OK


def test_a_prelude_of_the_broken_stream_is_never_seen_nor_announced(rig: Any) -> None:
    told: list[StreamRestart] = []
    _, router = scripted(rig, {"a": [ROLE, GONE], "b": [ROLE], "c": [ROLE, "whole", FINISHED]})

    stream = router.invoke(rig.chat(stream=True), on_restart=told.append)

    assert list(stream) == ["role", "whole"]
    assert told == []
    assert [attempt.fault for attempt in stream.report().attempts] == [Fault.STREAM_INTERRUPTED] * 2 + [None]


def test_each_seen_break_is_announced_once_and_unseen_ones_between_are_not(rig: Any) -> None:
    told: list[tuple[str, str, int]] = []
    chunks: list[str] = []

    def discard(restart: StreamRestart) -> None:
        told.append((restart.failed_provider_id, restart.next_provider_id, restart.chunks_yielded))
        chunks.clear()

    _, router = scripted(
        rig,
        {"a": [ROLE, "x", GONE], "b": [ROLE, GONE], "c": [ROLE, "y", "z"], "d": [ROLE, "whole", FINISHED]},
    )
    stream = router.invoke(rig.chat(stream=True), on_restart=discard)
    for chunk in stream:
        chunks += [chunk]

    assert chunks == ["role", "whole"]
    assert told == [("a", "b", 2), ("c", "d", 3)]
    assert stream.restarts == 3


def test_a_prelude_without_end_is_handed_out_and_counts_as_seen(rig: Any) -> None:
    pings = [Prelude("ping")] * (MOST_PRELUDE_CHUNKS + 1)
    adapters, router = scripted(rig, {"a": [*pings, GONE], "b": ["whole", FINISHED]})
    stream = router.invoke(rig.chat(stream=True))

    assert [next(stream) for _ in pings] == ["ping"] * len(pings)
    with pytest.raises(ProviderStreamInterruptedError):
        next(stream)
    assert [call.provider_id for call in adapters.calls] == ["a"]


def test_a_stream_that_cannot_say_whether_it_has_content_failed(rig: Any) -> None:
    class Broken(ScriptedStream):
        @property
        def has_content(self) -> bool:
            raise KeyError("content")

    _, router = scripted(rig, {"a": lambda call: Broken(["x"]), "b": ["whole", FINISHED]})  # type: ignore[dict-item]

    assert list(router.invoke(rig.chat(stream=True))) == ["whole"]


def test_a_held_answer_ends_before_its_first_chunk_is_handed_out(rig: Any) -> None:
    served: list[ScriptedStream] = []

    def serve(call: Any) -> ScriptedStream:
        served.append(ScriptedStream([ROLE, "x", "y", FINISHED]))
        return served[0]

    _, router = scripted(rig, {"a": serve}, stream_failure_policy=HOLD)  # type: ignore[dict-item]
    stream = router.invoke(rig.chat(stream=True))

    assert next(stream) == "role"
    assert served[0].closed
    assert stream.report().answered_by.provider_id == "a"
    assert router.stats().streams == 0
    assert list(stream) == ["x", "y"]


def test_holding_can_be_asked_for_one_call(rig: Any) -> None:
    _, router = scripted(rig, {"a": ["x", GONE], "b": ["whole", FINISHED]})

    assert list(router.invoke(rig.chat(stream=True), stream_failure_policy="hold")) == ["whole"]
    with pytest.raises(ProviderStreamInterruptedError):
        list(router.invoke(rig.chat(stream=True)))


def test_a_held_answer_that_nobody_completes_is_told_with_every_cause(rig: Any) -> None:
    _, router = scripted(rig, {"a": ["x", GONE], "b": ["y"]}, stream_failure_policy=HOLD)
    stream = router.invoke(rig.chat(stream=True))

    with pytest.raises(Exception, match="after 2 attempts") as caught:
        next(stream)

    assert [attempt.provider_id for attempt in caught.value.attempts] == ["a", "b"]  # type: ignore[attr-defined]
    assert list(stream) == []


def test_closing_while_a_held_answer_is_handed_out_ends_it_there(rig: Any) -> None:
    _, router = scripted(rig, {"a": ["x", "y", "z", FINISHED]}, stream_failure_policy=HOLD)
    stream = router.invoke(rig.chat(stream=True))
    assert next(stream) == "x"

    stream.close()

    assert list(stream) == []
    assert [attempt.outcome for attempt in stream.report().attempts] == [Outcome.OK]


def test_closing_before_a_held_answer_is_whole_is_nobodys_success(rig: Any) -> None:
    _, router = scripted(
        rig,
        {"a": ["x", lambda: stream.close() or "y", "z", FINISHED], "b": ["b"]},
        stream_failure_policy=HOLD,
    )
    stream: Any = router.invoke(rig.chat(stream=True))

    assert list(stream) == []
    assert [attempt.outcome for attempt in stream.report().attempts] == [Outcome.IGNORED]


def test_an_answer_longer_than_can_be_held_is_refused_and_nobodys_fault(rig: Any) -> None:
    adapters, router = scripted(
        rig,
        {"a": ["x"] * (MOST_HELD_CHUNKS + 1) + [FINISHED], "b": ["y", FINISHED]},
        stream_failure_policy=HOLD,
    )
    stream = router.invoke(rig.chat(stream=True))

    with pytest.raises(ProviderError, match="a, model model-a is longer than can be held back") as caught:
        next(stream)

    assert caught.value.fault is Fault.INVALID_OPERATION
    assert [call.provider_id for call in adapters.calls] == ["a"]
    assert router.health_report()["a"].consecutive_failures == 0
    assert list(router.invoke(rig.chat(stream=True), stream_failure_policy="raise"))[-1] == "x"


def test_a_router_file_may_hold_streams_and_time_them(tmp_path: Path) -> None:
    file = tmp_path / "turnout.toml"
    file.write_text(
        """
        stream_failure_policy = "hold"
        metrics_store = { backend = "none" }
        [[providers]]
        provider_id = "a"
        name = "a"
        protocol = "openai_chat"
        model = "m"
        first_token_timeout_seconds = 5
        idle_timeout_seconds = 2.5
        """
    )
    with ProviderRouter.from_toml(file) as router:
        (provider,) = router.providers
        assert (provider.first_token_timeout_seconds, provider.idle_timeout_seconds) == (5.0, 2.5)
        assert provider.timeout_seconds == 120.0


@pytest.mark.parametrize("policy", [StreamFailurePolicy.RESTART, HOLD])
def test_a_stream_of_the_users_own_is_held_back_no_longer_than_the_deadline(
    rig: Any, policy: StreamFailurePolicy
) -> None:
    clock = ManualClock()

    def slowly() -> Any:
        clock.advance(0.3)
        return Prelude("nothing yet") if policy is not HOLD else "a little"

    _, router = scripted(rig, {"a": [slowly] * 50}, clock=clock, stream_failure_policy=policy)
    stream = router.invoke(rig.chat(stream=True), timeout=1.0)

    with pytest.raises(DeadlineExceededError, match=r"\(at a 1\.20 s\)"):
        next(stream)
    assert stream.report().attempts[0].fault is Fault.DEADLINE


def test_a_prelude_that_is_handed_out_for_its_length_leaves_the_deadline_in_force(rig: Any) -> None:
    clock = ManualClock()

    def late(then: Any) -> Any:
        def give() -> Any:
            clock.advance(1.0)
            return then

        return give

    pings = [Prelude("ping")] * (MOST_PRELUDE_CHUNKS + 1)
    scripts = [[*pings, "in time", late("more"), FINISHED], [*pings, late(Prelude("ping")), "x", FINISHED]]
    router = rig.scripted(ScriptedAdapters({"a": scripts}), "a", clock=clock)

    assert list(router.invoke(rig.chat(stream=True), timeout=1.0))[-2:] == ["in time", "more"]
    stream = router.invoke(rig.chat(stream=True), timeout=1.0)
    assert [next(stream) for _ in pings] == ["ping"] * len(pings)
    with pytest.raises(DeadlineExceededError):
        next(stream)
    assert list(stream) == []
    assert stream.report().attempts[0].fault is Fault.DEADLINE


def test_a_stream_that_can_not_be_asked_or_closed_is_its_providers_failure(rig: Any) -> None:
    class Broken(ScriptedStream):
        @property
        def completed(self) -> bool:
            raise ValueError("who knows")

        def close(self) -> None:
            super().close()
            raise ValueError("will not close")

    broken = Broken(["a"])
    router = rig.scripted(
        ScriptedAdapters({"a": [lambda call: broken], "b": [["b", FINISHED]]}),
        "ab",
        policy=PreferencePolicy(),
        on_restart=lambda restart: None,
    )

    assert list(router.invoke(rig.chat(stream=True))) == ["a", "b"]
    assert broken.closed
    assert router.health_report()["a"].consecutive_failures == 1


def test_a_stream_of_the_users_own_that_is_held_may_take_longer_than_its_provider_where_no_deadline_is(
    rig: Any,
) -> None:
    clock = ManualClock()

    def slowly() -> str:
        clock.advance(100.0)
        return "a little"

    _, router = scripted(
        rig, {"a": [slowly, slowly, slowly, FINISHED]}, clock=clock, stream_failure_policy=HOLD
    )

    assert list(router.invoke(rig.chat(stream=True))) == ["a little"] * 3
