"""Workers and threads: a full queue, resizing, many callers, and calls back into the router."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import ConfigError, DeadlineExceededError, ReentrantCallError, RouterBusyError
from turnout.adapters import transport
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, MissingDone


class Gate:
    """A provider whose calls arrive, and go on when it is opened."""

    def __init__(self) -> None:
        self.arrived: SimpleQueue[str] = SimpleQueue()
        self.opened = threading.Event()

    def __call__(self, call: Any) -> str:
        said = str(call.arguments["messages"][0]["content"])
        self.arrived.put(said)
        assert self.opened.wait(30)
        return f"answer to {said}"


# the queue and the workers


def test_a_full_queue_refuses_and_a_caller_may_wait_for_a_place(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a", pool={"max_workers": 1, "max_queue": 1})
    running = router.submit(rig.chat("running"))
    assert gate.arrived.get(timeout=30) == "running"
    queued = router.submit(rig.chat("queued"))

    with pytest.raises(RouterBusyError, match="1 calls are waiting already"):
        router.submit(rig.chat("refused"))
    with pytest.raises(DeadlineExceededError, match="a place in the queue") as caught:
        router.submit(rig.chat("late"), block=True, timeout=0.05)
    assert isinstance(caught.value.__cause__, RouterBusyError)
    assert (router.stats().queued, router.stats().pending) == (1, 2)

    waited: SimpleQueue[Future[Any]] = SimpleQueue()
    waiter = threading.Thread(target=lambda: waited.put(router.submit(rig.chat("waited"), block=True)))
    waiter.start()
    gate.opened.set()

    futures = [running, queued, waited.get(timeout=30)]
    waiter.join(30)
    assert [future.result(30) for future in futures] == [
        "answer to running",
        "answer to queued",
        "answer to waited",
    ]


def test_the_time_in_the_queue_counts_towards_the_timeout(rig: Any) -> None:
    gate = Gate()
    clock = ManualClock()
    adapters = ScriptedAdapters({"a": [gate]})
    router = rig.scripted(adapters, "a", pool={"max_workers": 1}, clock=clock)
    router.submit(rig.chat("running"))
    assert gate.arrived.get(timeout=30) == "running"

    late = router.submit(rig.chat("late"), timeout=5.0)
    clock.advance(5.0)
    gate.opened.set()

    with pytest.raises(DeadlineExceededError):
        late.result(30)
    assert len(adapters.calls) == 1


def test_workers_may_be_more_or_fewer_while_calls_run(rig: Any) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a", pool={"max_workers": 1})
    futures = [router.submit(rig.chat(str(number))) for number in range(6)]
    gate.arrived.get(timeout=30)

    router.resize(4)
    for _ in range(3):
        gate.arrived.get(timeout=30)
    assert router.stats().max_workers == router.stats().workers == 4

    router.resize(1)
    assert router.stats().max_workers == 1
    gate.opened.set()
    assert not wait(futures, 30).not_done
    more = [router.submit(rig.chat(str(number))) for number in range(6, 12)]
    assert [future.result(30) for future in more] == [f"answer to {number}" for number in range(6, 12)]


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "3"])
def test_a_number_of_workers_that_cannot_be_is_refused(rig: Any, wrong: Any) -> None:
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a")

    with pytest.raises(ConfigError, match="max_workers"):
        router.resize(wrong)


# many threads


def test_calls_of_many_threads_are_at_their_providers_together(rig: Any) -> None:
    """Nothing is held across a provider's call, nor while a stream is read."""
    together = threading.Barrier(8)

    def meet(call: Any) -> str:
        together.wait(30)
        return "met"

    def meet_in_stream(call: Any) -> list[Any]:
        return [lambda: meet(call), FINISHED]

    router = rig.scripted(ScriptedAdapters({"a": [meet] * 8 + [meet_in_stream]}), "a")
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(router.invoke, [rig.chat()] * 8))
        streams: list[Any] = list(threads.map(list, [router.invoke(rig.chat(stream=True)) for _ in range(8)]))

    assert answers == ["met"] * 8
    assert streams == [["met"]] * 8


class Alone:
    """A policy with state and no lock: it notes whether anyone else is inside."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.turns = 0

    def order(self, eligible: Any, context: Any) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        turns = self.turns
        # Another thread that could come in would come in here.
        threading.Event().wait(0)
        self.turns = turns + 1
        self.inside -= 1
        return eligible


def test_a_policy_with_state_needs_no_lock(rig: Any) -> None:
    policy = Alone()
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", policy=policy)

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(router.invoke, [rig.chat()] * 400))

    assert answers == ["a"] * 400
    assert (policy.most, policy.turns) == (1, 400)


# calls back into the router


class Curious:
    """A policy that does what it must not: it calls the router."""

    def __init__(self) -> None:
        self.router: Any = None
        self.call: Any = None
        self.seen: list[Exception] = []

    def order(self, eligible: Any, context: Any) -> Any:
        try:
            self.router.invoke(self.call)
        except Exception as error:
            self.seen.append(error)
            raise
        return eligible


def test_a_policy_that_calls_the_router_is_refused_at_once(rig: Any, logged: Any) -> None:
    policy = Curious()
    adapters = ScriptedAdapters({"a": ["a"], "b": ["b"]})
    router = rig.scripted(adapters, "ab", policy=policy)
    policy.router, policy.call = router, rig.chat("from the policy")

    answers = [router.invoke(rig.chat()), router.submit(rig.chat()).result(30)]

    # It raised, so the configured order serves; the policy's own call reached nobody.
    assert answers == ["a", "a"]
    assert [type(error) for error in policy.seen] == [ReentrantCallError, ReentrantCallError]
    assert len(adapters.calls) == 2
    assert len(logged.at("WARNING")) == 1
    assert logged.at("ERROR") == []


def test_waiting_on_a_worker_for_a_call_of_the_same_router_is_refused(rig: Any) -> None:
    futures: list[Any] = []
    seen: list[Exception] = []

    def impatient(call: Any) -> str:
        future = router.submit(rig.chat("inner"))
        futures.append(future)
        for ask in (future.result, future.exception):
            try:
                ask(30)
            except ReentrantCallError as error:
                seen.append(error)
        return "outer"

    router = rig.scripted(ScriptedAdapters({"a": [impatient, "inner"]}), "a", pool={"max_workers": 1})

    assert router.submit(rig.chat()).result(30) == "outer"
    assert futures[0].result(30) == "inner"
    assert len(seen) == 2


def test_a_done_callback_or_an_adapter_may_invoke(rig: Any) -> None:
    def nested(call: Any) -> str:
        return f"outer of {router.invoke(rig.chat())}"

    router = rig.scripted(ScriptedAdapters({"a": [nested, "inner"]}), "a", pool={"max_workers": 1})
    answers: SimpleQueue[Any] = SimpleQueue()

    future = router.submit(rig.chat())
    future.add_done_callback(lambda done: answers.put(router.invoke(rig.chat())))

    assert future.result(30) == "outer of inner"
    assert answers.get(timeout=30) == "inner"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RuntimeError("bug")])
def test_a_worker_outlives_a_callback_that_raises_anything(rig: Any, error: BaseException) -> None:
    gate = Gate()
    router = rig.scripted(ScriptedAdapters({"a": [gate]}), "a", pool={"max_workers": 1})

    def callback(done: Any) -> None:
        raise error

    future = router.submit(rig.chat("first"))
    future.add_done_callback(callback)
    gate.opened.set()

    assert future.result(30) == "answer to first"
    assert router.submit(rig.chat("second")).result(30) == "answer to second"
    assert router.stats().workers == 1


@pytest.mark.slow
def test_as_many_connections_are_kept_as_calls_were_in_flight_whatever_the_pool_began_with(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a slow machine the first would expire before the last is in use.
    monkeypatch.setattr(transport, "KEEPALIVE_SECONDS", 300.0)
    # With [DONE] the SDK reads no further, and closes a connection that it might have kept.
    sim = rig.simulate(a=MissingDone(Answer(text="hi", chunks=1)))
    router = rig.router(rig.providers(sim), pool={"max_workers": 1})
    router.resize(140)

    for _ in range(2):
        # A stream that is open holds its connection, as any call in flight does.
        streams = [router.invoke(rig.chat(stream=True)) for _ in range(140)]
        for stream in streams:
            list(stream)

    assert sim.total("a") == 280
    assert len({request.connection for request in sim.requests("a")}) == 140
