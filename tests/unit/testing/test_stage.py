"""The stage, on its own and under an engine."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from turnout import CallType, Fault, Outcome, ReentrantCallError, StreamFailurePolicy
from turnout.calls import FilterReason, Identity
from turnout.engine import Engine
from turnout.faults import Failure
from turnout.invocation import Target
from turnout.runtime.actor import Rests
from turnout.testing import FINISHED, SILENCE, Pause, ScriptedStream, Stage

Script = Generator[Any, Any, None]
OPTIONS: dict[str, Any] = {"failure_policy": StreamFailurePolicy.RESTART, "on_restart": None}


def target(name: str, answer: Callable[[Any], Any], width: int | None = None) -> Target:
    return Target(
        identity=Identity(name, name),
        provider_id=name,
        supports=lambda request: True,
        why_not=lambda request: (FilterReason.UNSUPPORTED, "never"),
        invoke=lambda request, limit: answer(request),
        classify=lambda error: Failure(Fault.TIMEOUT, str(error)),
        assess=lambda value, attempt: Outcome.OK,
        usage=lambda value: None,
        timeout_seconds=10.0,
        max_concurrency=width,
    )


def engine_on(stage: Stage, *targets: Target) -> Engine:
    return stage.engine(targets)


def submit(engine: Engine, request: Any = None, timeout: float | None = None) -> "Future[Any]":
    return engine.submit(request, CallType.REGULAR, timeout=timeout, block=False, **OPTIONS)


def invoke(engine: Engine, request: Any = None, timeout: float | None = None) -> Any:
    return engine.invoke(request, CallType.REGULAR, timeout=timeout, **OPTIONS)


def order_of_three(seed: int) -> str:
    order: list[str] = []
    stage = Stage(seed)
    for name in "abc":
        stage.caller(name, partial(order.append, name))
    stage.run()
    return "".join(order)


def test_seeds_find_every_order_and_each_finds_its_own_again() -> None:
    orders = [order_of_three(seed) for seed in range(60)]

    assert len(set(orders)) == 6
    assert orders == [order_of_three(seed) for seed in range(60)]


def test_a_lost_update_shows_with_some_seeds() -> None:
    def counted(seed: int) -> int:
        total = 0

        def counts() -> Script:
            nonlocal total
            seen = total
            yield
            total = seen + 1

        stage = Stage(seed)
        stage.caller("one", counts)
        stage.caller("two", counts)
        stage.run()
        return total

    assert {counted(seed) for seed in range(20)} == {1, 2}


class Echo(Rests):
    """Answers with what it was sent; a function is called."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def receive(self, message: Any) -> Any:
        self.received.append(message)
        return message() if callable(message) else message


def test_an_actor_handles_its_messages_in_the_order_of_their_coming_and_answers_an_ask() -> None:
    stage, echo = Stage(1), Echo()
    actor = stage.actor("echo", echo)

    assert actor.tell(1)
    assert actor.tell(2)
    assert actor.ask(3) == 3
    assert echo.received == [1, 2, 3]


def test_what_an_actor_raises_goes_to_who_asked_and_it_lives_on() -> None:
    actor = Stage(1).actor("echo", Echo())

    with pytest.raises(ZeroDivisionError):
        actor.ask(lambda: 1 // 0)
    assert actor.ask("still there") == "still there"


def test_an_actor_that_asks_itself_is_refused() -> None:
    actor = Stage(1).actor("echo", Echo())

    with pytest.raises(ReentrantCallError):
        actor.ask(lambda: actor.ask("myself"))


def test_a_full_mailbox_takes_no_more() -> None:
    actor = Stage(1).actor("echo", Echo(), capacity=1)

    assert actor.tell(1)
    assert not actor.tell(2)


def test_a_script_waits_for_a_submitted_call_and_for_one_of_its_own() -> None:
    stage = Stage(3)
    engine = engine_on(stage, target("a", lambda request: f"answer to {request}"))
    answers: list[Any] = []

    def asks() -> Script:
        future = submit(engine, "submit")
        answers.append((yield future))
        answers.append((yield invoke(engine, "invoke")))

    stage.caller("Ada", asks)
    stage.run()

    assert answers == ["answer to submit", "answer to invoke"]
    assert stage.unfinished == []
    engine.close(None)


def test_outside_any_script_a_call_plays_until_it_has_its_answer() -> None:
    stage = Stage(3)
    engine = engine_on(stage, target("a", lambda request: "a"))

    assert invoke(engine) == "a"
    engine.reset_health(None)
    engine.close(None)


def test_a_walk_that_stands_in_line_leaves_its_worker_to_others() -> None:
    stage = Stage(5, max_workers=1)
    held: Any = ScriptedStream(["x", FINISHED])
    engine = engine_on(stage, target("a", lambda request: held if request == "stream" else "a", width=1))
    stream = engine.invoke("stream", CallType.STREAMING, timeout=None, **OPTIONS)

    lane = engine.plant.execution.eligibility.targets[0].lane
    assert lane is not None
    occupied: set[int] = set()

    def look() -> None:
        if lane.waiting:
            occupied.add(stage.workers.workers)

    def reads() -> Script:
        while not occupied:
            yield
        assert list(stream) == ["x"]

    waiting = submit(engine)
    stage.watch(look)
    stage.caller("Ada", reads)
    stage.run()

    assert occupied == {0}
    assert waiting.result() == "a"
    engine.close(None)


def test_a_silent_call_is_cut_when_its_time_is_over_and_a_pause_is_not() -> None:
    async def pauses() -> str:
        await Pause()
        return "after a pause"

    async def silent() -> None:
        await SILENCE

    stage = Stage(2)
    engine = engine_on(stage, target("a", lambda request: silent()), target("b", lambda request: pauses()))

    assert invoke(engine) == "after a pause"
    assert stage.clock.monotonic() == 10.0
    engine.close(None)


def test_a_callback_on_a_worker_is_known_to_be_on_one() -> None:
    stage = Stage(4)
    engine = engine_on(stage, target("a", lambda request: "a"))
    seen: list[bool] = []

    future = submit(engine)
    future.add_done_callback(lambda future: seen.append(stage.owns_this_thread()))
    stage.run()

    assert (seen, stage.owns_this_thread()) == ([True], False)
    engine.close(None)


def test_what_a_script_raises_names_the_seed_and_the_last_events() -> None:
    def fails() -> Script:
        yield
        raise ValueError("wrong")

    stage = Stage(417)
    stage.caller("Ada", fails)
    with pytest.raises(ValueError, match="wrong") as caught, stage:
        stage.run()

    assert caught.value.__notes__ == ["Stage(seed=417) plays it again; the last events: Ada, Ada"]


def test_a_caller_that_waits_for_what_never_comes_is_named() -> None:
    stage = Stage(1)

    def waits() -> Script:
        yield Future()

    stage.caller("Ada", waits)
    with pytest.raises(AssertionError, match=r"seed 1: nothing is left to do.*'Ada'"):
        stage.run()


def test_another_thread_may_not_come_onto_the_stage() -> None:
    stage = Stage(1)
    actor = stage.actor("echo", Echo())
    refused: list[str] = []

    def comes() -> None:
        try:
            actor.ask(1)
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=comes)
    thread.start()
    thread.join()

    assert refused == ["seed 1: another thread came onto the stage"]
