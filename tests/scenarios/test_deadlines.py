"""timeout= bounds the whole invocation, in the queue and in what cannot be cut too."""

import gc
import socket
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any
from weakref import ref

import pytest

from turnout import DeadlineExceededError, Fault, Outcome, PreferencePolicy
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, InStreamError, KeepAliveComments, Silence, Stall, Status


class Stuck:
    """A provider of the user's own that cannot be cut: its call comes back when it is let go."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[str] = SimpleQueue()
        self.go = threading.Event()

    def __call__(self, call: Any) -> str:
        self.begun.put(threading.current_thread().name)
        assert self.go.wait(30)
        return "late"


class Later(threading.Thread):
    """Calls on a thread of its own, and keeps what came of it."""

    def __init__(self, call: Any) -> None:
        super().__init__(name="later", daemon=True)
        self._call = call
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error

    def ended(self) -> BaseException | None:
        self.join(30)
        assert not self.is_alive()
        return self.error


@pytest.fixture
def stuck() -> Any:
    provider = Stuck()
    yield provider
    provider.go.set()


WAYS = {
    "invoke": lambda router, call: router.invoke(call, timeout=10.0),
    "result": lambda router, call: router.submit(call, timeout=10.0).result(),
    "result with a timeout": lambda router, call: router.submit(call, timeout=10.0).result(60.0),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_cannot_be_cut_is_given_up_at_the_deadline(rig: Any, stuck: Stuck, way: str) -> None:
    clock = ManualClock()
    router = rig.scripted(ScriptedAdapters({"a": [stuck, "next"]}), "a", clock=clock, pool={"max_workers": 1})
    caller = Later(lambda: WAYS[way](router, rig.chat()))
    assert stuck.begun.get(timeout=30).startswith("turnout-")

    clock.advance(10.2)

    error = caller.ended()
    assert isinstance(error, DeadlineExceededError)
    assert "no answer within 10 s (at a 10.20 s)" in str(error)
    assert [(one.provider_id, one.fault) for one in error.attempts] == [("a", Fault.DEADLINE)]
    assert "a: had not answered by then" in str(error)
    # Another worker stands in for the one that is held up, until that comes back.
    assert router.submit(rig.chat()).result(30) == "next"
    stuck.go.set()
    router.close()
    assert router.stats().workers == 0


class Hanging:
    """A policy of the user's own, of either kind, and a classifier, that hang."""

    max_attempts = 2

    def __init__(self, stuck: Stuck) -> None:
        self._stuck = stuck

    def order(self, eligible: Sequence[Any], context: Any) -> Any:
        self._stuck(None)
        return eligible

    def should_retry(self, context: Any) -> bool:
        self._stuck(None)
        return False

    def __call__(self, error: Exception) -> None:
        self._stuck(None)


@pytest.mark.parametrize("place", ["policy", "retry_policy", "classify"])
def test_a_deadline_is_kept_though_code_of_the_users_own_hangs(rig: Any, stuck: Stuck, place: str) -> None:
    clock = ManualClock()
    sim = rig.simulate(P=Status(500))
    router = rig.router(rig.providers(sim), clock=clock, **{place: Hanging(stuck)})
    caller = Later(lambda: router.invoke(rig.chat(), timeout=10.0))
    stuck.begun.get(timeout=30)

    clock.advance(10.2)

    assert isinstance(caller.ended(), DeadlineExceededError)


@pytest.fixture
def no_name_is_found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A resolver that hangs on every name."""
    go, known = threading.Event(), socket.getaddrinfo

    def resolver(host: str, *more: Any, **kind: Any) -> Any:
        assert not host.endswith(".test") or go.wait(30)
        return known(host, *more, **kind)

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield
    go.set()


@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_is_kept_though_a_name_is_never_found(
    rig: Any, no_name_is_found: None, stream: bool
) -> None:
    # The stream starts over on its reader's own thread.
    sim = rig.simulate(a=Status(500) if not stream else InStreamError(after_chunks=0), b=Answer())
    far = rig.provider(sim, "b", base_url="http://far.test/v1")
    router = rig.router([rig.provider(sim, "a"), far], policy=PreferencePolicy())

    with pytest.raises(DeadlineExceededError, match=r"at b 0\.\d\d s"):
        list(router.invoke(rig.chat(stream=stream), timeout=0.5))


@pytest.mark.parametrize(
    "silence", [Silence(), Stall(), KeepAliveComments()], ids=lambda one: type(one).__name__
)
def test_a_deadline_after_most_of_the_time_to_the_first_content_counts_whatever_came_before(
    rig: Any, silence: Any
) -> None:
    sim = rig.simulate(a=silence)
    slow = rig.provider(sim, "a", first_token_timeout_seconds=0.2)
    router = rig.router([slow])

    with pytest.raises(DeadlineExceededError):
        list(router.invoke(rig.chat(stream=True), timeout=0.19))

    assert router.health_report()["a"].consecutive_failures == 1


def test_a_call_whose_time_ends_in_the_queue_is_told_then_and_never_made(rig: Any, stuck: Stuck) -> None:
    clock = ManualClock()
    adapters = ScriptedAdapters({"a": [stuck, "next"]})
    router = rig.scripted(adapters, "a", clock=clock, pool={"max_workers": 1})
    router.submit(rig.chat())
    stuck.begun.get(timeout=30)
    queued = router.submit(rig.chat(), timeout=5.0)

    clock.advance(5.2)

    with pytest.raises(DeadlineExceededError, match=r"\(in the queue 5\.\d\d s\)") as caught:
        queued.result(30)
    assert [place for place, _ in caught.value.spent] == ["in the queue"]
    assert queued.report().attempts == ()
    stuck.go.set()
    router.close()
    assert len(adapters.calls) == 1


@pytest.mark.parametrize("way", ["invoke", "result with a timeout"])
def test_a_deadline_is_kept_whatever_waits_ahead_in_the_queue(rig: Any, stuck: Stuck, way: str) -> None:
    clock = ManualClock()
    router = rig.scripted(ScriptedAdapters({"a": [stuck]}), "a", clock=clock, pool={"max_workers": 2})
    ahead = [router.submit(rig.chat()) for _ in range(6)]
    for _ in range(2):
        stuck.begun.get(timeout=30)
    callers = [Later(lambda: WAYS[way](router, rig.chat())) for _ in range(3)]
    pending = threading.Event()
    while router.stats().pending < 9:
        pending.wait(0.001)

    clock.advance(10.2)

    for caller in callers:
        assert isinstance(caller.ended(), DeadlineExceededError)
    assert not any(future.done() for future in ahead)
    stuck.go.set()
    router.close()
    assert router.stats().workers == 0


@pytest.mark.parametrize("answers", [True, False])
def test_what_comes_back_late_is_recorded_as_cut_by_the_deadline(
    rig: Any, stuck: Stuck, answers: bool
) -> None:
    clock = ManualClock()

    def late(call: Any) -> str:
        answer = stuck(call)
        if answers:
            return answer
        raise OSError("only now")

    router = rig.scripted(ScriptedAdapters({"a": [late]}), "a", clock=clock)
    future = router.submit(rig.chat(), timeout=10.0)
    stuck.begun.get(timeout=30)
    clock.advance(10.2)
    with pytest.raises(DeadlineExceededError):
        future.result(30)

    stuck.go.set()
    router.close()

    (attempt,) = future.report().attempts
    assert (attempt.outcome, attempt.fault) == (Outcome.FAILED, Fault.DEADLINE)
    # Ten of the hundred and twenty seconds that the provider may take prove nothing against it.
    assert router.health_report()["a"].consecutive_failures == 0


def test_an_answer_that_came_after_all_of_its_providers_time_counts_as_a_timeout(
    rig: Any, stuck: Stuck
) -> None:
    clock = ManualClock()
    router = rig.scripted(ScriptedAdapters({"a": [stuck]}), "a", clock=clock)
    future = router.submit(rig.chat(), timeout=119.0)
    stuck.begun.get(timeout=30)
    clock.advance(119.2)
    with pytest.raises(DeadlineExceededError):
        future.result(30)

    stuck.go.set()
    router.close()

    assert router.health_report()["a"].consecutive_failures == 1


@pytest.mark.parametrize(("seconds", "counted"), [(95.0, 0), (97.0, 1)])
def test_a_deadline_after_most_of_a_providers_own_time_counts(rig: Any, seconds: float, counted: int) -> None:
    clock = ManualClock()

    def slow(call: Any) -> str:
        clock.advance(seconds)
        raise OSError("slow")

    router = rig.scripted(ScriptedAdapters({"a": [slow]}), "a", clock=clock)
    with pytest.raises(DeadlineExceededError):
        router.invoke(rig.chat(), timeout=seconds)
    assert router.health_report()["a"].consecutive_failures == counted


def test_the_error_says_who_was_tried_and_where_the_time_went(rig: Any) -> None:
    clock = ManualClock()

    def slow(seconds: float) -> Any:
        def fails(call: Any) -> str:
            clock.advance(seconds)
            raise OSError(f"after {seconds}")

        return fails

    adapters = ScriptedAdapters({"a": [slow(3.0)], "b": [slow(8.0)]})
    router = rig.scripted(adapters, "ab", clock=clock, policy=PreferencePolicy())
    with pytest.raises(DeadlineExceededError) as caught:
        router.invoke(rig.chat(), timeout=10.0)

    assert caught.value.spent == (("at a", 3.0), ("at b", 8.0))
    assert "(at a 3.00 s, at b 8.00 s)" in str(caught.value)
    assert [attempt.provider_id for attempt in caught.value.attempts] == ["a", "b"]


def test_an_interrupt_while_a_worker_makes_the_call_cancels_it(rig: Any, stuck: Stuck) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [stuck, "next"]}), "a")
    futures: list[Any] = []
    lend = router._engine.plant.runtime.workers.lend

    def interrupted(task: Any) -> Any:
        futures.append(lend(task))
        raise KeyboardInterrupt

    router._engine.plant.runtime.workers.lend = interrupted
    with pytest.raises(KeyboardInterrupt):
        router.invoke(rig.chat(), timeout=10.0)
    router._engine.plant.runtime.workers.lend = lend
    stuck.go.set()
    assert router.stats().pending == 0
    assert router.invoke(rig.chat(), timeout=10.0) in ("next", "late")


def test_calls_with_long_deadlines_that_ended_leave_no_alarm_behind(rig: Any) -> None:
    clock = ManualClock()
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", clock=clock)
    for _ in range(500):
        assert router.submit(rig.chat(), timeout=600.0).result(30) == "a"
    clock.advance(700.0)
    assert router.submit(rig.chat(), timeout=600.0).result(30) == "a"
    assert router.stats().pending == 0


def test_a_call_cancelled_in_the_queue_is_kept_by_nothing_until_its_deadline(rig: Any, stuck: Stuck) -> None:
    router = rig.scripted(ScriptedAdapters({"a": [stuck]}), "a", pool={"max_workers": 1}, clock=ManualClock())
    router.submit(rig.chat())
    stuck.begun.get(timeout=30)
    futures = [router.submit(rig.chat(), timeout=3600.0) for _ in range(50)]
    gone = [ref(future) for future in futures]

    assert all(future.cancel() for future in futures)
    del futures
    gc.collect()

    assert [future() for future in gone if future() is not None] == []
    assert router.stats().queued == 0
    stuck.go.set()
