"""Ctrl-C between any two steps of a call: nothing that others need stays taken, and the next call is answered."""

import dis
import gc
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final

import pytest

from turnout.testing import FINISHED, ManualClock, ScriptedAdapters

#: Where to interrupt is found among what Python 3.11 compiles; later versions trace other steps, also where no signal
#: can come.
pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="places interrupts as Python 3.11 does")

WAIT: Final = 2.0
#: The fast suite interrupts at every so many steps, from one that the run's seed draws; the slow one at every third.
STRIDE: Final = 17
#: No steps: no signal is looked for there, and the handlers that surround them do not reach the first (the beginning of
#: a ``try``), nor does Python clean up after the others (the ends of an ``except``).
_NO_STEPS: Final = frozenset(
    dis.opmap[name] for name in ("NOP", "COPY", "PUSH_EXC_INFO", "CHECK_EXC_MATCH", "POP_EXCEPT", "RERAISE")
)


class Interruption:
    """Raises ``KeyboardInterrupt`` on this thread before the step of turnout's code that is ``at`` steps away.

    Finer than real signals, which Python looks for after calls and at jumps alone.
    """

    def __init__(self, at: int) -> None:
        self._left = at
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_globals.get("__name__", "").startswith("turnout.") or _is_finalizing(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] not in _NO_STEPS:
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                raise KeyboardInterrupt
        return self._step

    @contextmanager
    def armed(self) -> Iterator[None]:
        before = sys.gettrace()
        # Python 3.12 sends no such events unless somebody had asked for them when tracing began.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


def _is_finalizing(frame: FrameType | None) -> bool:
    """Whether Python would ignore what is raised there."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def taken(router: Any) -> list[str]:
    """What is not where it belongs while nobody calls."""
    plant, stats = router._engine.plant, router.stats()
    counts = {name: getattr(stats, name) for name in ("pending", "queued", "streams", "in_line")}
    found = [f"{count} {name}" for name, count in counts.items() if count]
    for target in plant.bulkheads.targets:
        lanes = {lane for lane in (target.lane, target.pooled_lane) if lane is not None}
        found += [f"{lane.free} of {lane.width} free" for lane in lanes if lane.free != lane.width]
        if target.pace is not None and len(target.pace.free) != 1:
            found.append(f"{len(target.pace.free)} slots")
    return found


def wait_until_nothing_is_taken(router: Any, where: str) -> None:
    # What others were about to do for the call that was interrupted ends by itself.
    end = time.monotonic() + WAIT
    while left := taken(router):
        if time.monotonic() > end:
            pytest.fail(f"interrupted in {where}: {', '.join(left)}")
        threading.Event().wait(0.001)


def interrupt_everywhere(
    router: Any,
    call: Callable[[], object],
    answered: Callable[[], object],
    *,
    stride: int,
    before: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
    looked: Callable[[str], object] = lambda where: None,
) -> int:
    """Make ``call`` again and again, interrupted a little later each time, until one ends before it is; how often it
    was. ``answered`` must be after each; ``looked`` is told where it was interrupted."""
    at, interrupted = random.randrange(stride) + 1, 0
    gc.collect()
    # What came back must have come back without the collector.
    gc.disable()
    try:
        while True:
            before()
            interruption = Interruption(at)
            try:
                with interruption.armed():
                    call()
            except KeyboardInterrupt:
                pass
            if not interruption.where:
                return interrupted
            interrupted += 1
            after()
            wait_until_nothing_is_taken(router, interruption.where)
            looked(interruption.where)
            assert answered() == "answer", interruption.where
            at += stride
    finally:
        gc.enable()


@pytest.fixture(
    params=[
        pytest.param(STRIDE, id="few steps"),
        pytest.param(3, marks=[pytest.mark.slow, pytest.mark.timeout(300)], id="a third of all steps"),
    ]
)
def stride(request: pytest.FixtureRequest) -> Any:
    return request.param


def routed(rig: Any, a: list[Any], b: list[Any], *, clock: Any = None, **settings: Any) -> Any:
    """A router that prefers ``a``, which has room for one call at a time, and gives whoever follows their turn."""
    return rig.router(
        [
            {
                "provider_id": name,
                "name": name,
                "protocol": "openai_chat",
                "model": "m",
                "api_key": "k",
                **settings,
            }
            for name in "ab"
        ],
        adapter_factory=ScriptedAdapters({"a": a, "b": b}),
        policy="preference",
        health={"failure_threshold": 1, "cooldown_multiplier": 1},
        # Of restarts, of which every round makes two.
        budget={"max_tokens": 1_000_000},
        clock=clock,
    )


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="unbounded"),
        pytest.param({"max_concurrency": 1}, id="bounded"),
        pytest.param({"max_concurrency": 1, "min_interval_seconds": 1e-5}, id="bounded and paced"),
        pytest.param({"min_interval_seconds": 1e-5}, id="paced"),
    ],
)
def test_an_interrupted_invoke_that_fails_over_leaves_nothing_taken(
    rig: Any, settings: Any, stride: int
) -> None:
    router = routed(rig, [refused], ["answer"], **settings)

    times = interrupt_everywhere(
        router,
        lambda: router.invoke(rig.chat()),
        lambda: router.invoke(rig.chat()),
        stride=stride,
        before=router.reset_health,
    )

    assert times > 1000 // stride


def test_an_interrupted_probe_leaves_no_permit_behind(rig: Any, stride: int) -> None:
    clock = ManualClock()
    router = routed(rig, [refused], ["answer"], clock=clock, max_concurrency=1)

    def bench_is_over() -> None:
        router.invoke(rig.chat())
        clock.advance(1000.0)

    def is_back(where: str) -> None:
        # Asked behind what was told.
        router.reset_health("b")
        assert router.health_report()["a"].probes_out == 0, f"interrupted in {where}"

    def answered() -> Any:
        clock.advance(1000.0)
        answer = router.invoke(rig.chat())
        assert [circuit.permits for circuit in router._engine.plant.health.snapshot.circuits.values()] == [
            (),
            (),
        ]
        assert router.health_report()["a"].state == "open"
        return answer

    times = interrupt_everywhere(
        router,
        lambda: router.invoke(rig.chat()),
        answered,
        stride=stride,
        before=bench_is_over,
        looked=is_back,
    )

    assert times > 1000 // stride


def refused(call: object) -> Exception:
    """Another each time: one that is raised again and again keeps every interrupt that came meanwhile."""
    return ConnectionError("refused")


def cut() -> Exception:
    return ConnectionError("cut")


def held_up(begun: threading.Event, gate: threading.Event) -> None:
    begun.set()
    gate.wait(WAIT)


def test_an_interrupted_wait_for_a_call_that_the_waiter_makes_leaves_nothing_taken(
    rig: Any, stride: int
) -> None:
    router = routed(rig, [refused], ["answer"], max_concurrency=1)
    router.resize(1)
    gates: list[threading.Event] = []
    futures: list[Any] = []

    def workers_are_busy() -> None:
        router.reset_health()
        gates.append(threading.Event())
        begun = threading.Event()
        router._engine.plant.runtime.workers.resume(partial(held_up, begun, gates[-1]))
        assert begun.wait(WAIT)

    def submitted() -> object:
        futures.append(router.submit(rig.chat()))
        return futures[-1].result()

    def given_up() -> None:
        # Who was interrupted before taking it over leaves it queued: it is still a call.
        for future in futures:
            future.cancel()
        gates[-1].set()

    try:
        times = interrupt_everywhere(
            router,
            submitted,
            lambda: router.invoke(rig.chat()),
            stride=stride,
            before=workers_are_busy,
            after=given_up,
        )
    finally:
        gates[-1].set()

    assert times > 1000 // stride


def test_an_interrupted_stream_leaves_nothing_taken(rig: Any, stride: int) -> None:
    router = routed(rig, [["a ", cut]], [["b ", "whole", FINISHED]], max_concurrency=1)
    restarts: list[Any] = []

    def read() -> str:
        with router.invoke(rig.chat(stream=True), on_restart=restarts.append) as stream:
            return "".join(stream)

    def answered() -> str:
        return "answer" if read().endswith("b whole") else "no answer"

    times = interrupt_everywhere(router, read, answered, stride=stride, before=router.reset_health)

    assert times > 2000 // stride
