"""An engine on a stage: actors, workers, timer, loop and callers in one thread, interleaved as a seed decides."""

import random
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from functools import partial
from inspect import GEN_SUSPENDED, getgeneratorstate
from itertools import count
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

from turnout.config import HealthConfig, LedgerConfig, PoolConfig
from turnout.engine import Engine
from turnout.future import InvocationFuture
from turnout.invocation import Target
from turnout.plant import Setup
from turnout.policies.preference import PreferencePolicy
from turnout.runtime.actor import Behaviour
from turnout.runtime.drivers import Handed
from turnout.runtime.steps import Walk
from turnout.testing.stage_actor import StageActor
from turnout.testing.stage_loop import StageLoop
from turnout.testing.stage_order import Order, Place
from turnout.testing.stage_walks import StagedWalk, StageWorkers

#: No play of a few callers comes near this many events.
_ENDLESS: Final = 200_000
_LAST_EVENTS: Final = 30

#: A caller: it yields to let others come in between, or yields a future to wait for it.
Script = Generator["Future[Any] | None", Any, None]


class Stage:
    """A ``Runtime`` without threads: the same seed plays the same events in the same order.

    Build an engine with ``engine(targets)``, add callers, ``run()``. A caller is a
    generator: a bare ``yield`` lets others come in between; ``answer = yield future`` waits for a submitted call; and
    since nothing may block, ``invoke`` gives a caller a future to be yielded too. (Code that cannot yield, a stream's
    ``__next__`` or ``reset_health``, lets the others play until it can go on, and these must then end before it does:
    give streams a timeout.) ``future.result()`` is for futures that are done. Other tests call the engine outside any
    script: each call then plays until it has its answer.

    Time moves when a script advances ``clock``, when it is the next alarm's turn, or when nothing else is left to do.
    Used as a context manager, it adds the seed and the last events to whatever is raised.
    """

    def __init__(self, seed: int, *, max_workers: int = 4, max_queue: int = 100) -> None:
        self.seed = seed
        self._order = Order(seed)
        self.clock = self._order.clock
        self.alarms = self._order
        self.workers = StageWorkers(self._order, max_workers, max_queue)
        self.loop = StageLoop(self._order)
        self._actors: list[StageActor] = []
        self._callers: dict[int, str] = {}
        self._numbers = count()
        self._walks: dict[Walk, str] = {}

    def engine(self, targets: Iterable[Target], **settings: Any) -> Engine:
        """An engine that runs here. ``settings`` are fields of ``Setup``: without them it takes the targets in their
        order, has the default configuration, and keeps no ledger."""
        given: dict[str, Any] = {
            "name": "stage",
            "policy": PreferencePolicy(),
            "health": HealthConfig(),
            "pool": PoolConfig(),
            "ledger": LedgerConfig(),
            "store": None,
            "owns_store": False,
            "metrics_scope": "stage",
            "rng": random.Random(self.seed),
            "close_targets": lambda: None,
            **settings,
        }
        return Engine(Setup(targets=tuple(targets), clock=self.clock, runtime=lambda: self, **given))

    @property
    def trace(self) -> list[str]:
        """What happened, oldest first."""
        return self._order.trace

    @property
    def unfinished(self) -> list[str]:
        """Callers, and walks (a stream's ends with its stream), that have not come to their end."""
        open_walks = [
            label for walk, label in self._walks.items() if getgeneratorstate(walk) == GEN_SUSPENDED
        ]
        return [*self._callers.values(), *open_walks]

    @property
    def idle(self) -> bool:
        """Whether nothing happens any more until time passes."""
        return self._order.idle

    def watch(self, look: Callable[[], None]) -> None:
        """Have ``look`` called after every event; what it raises ends the play."""
        self._order.watchers.append(look)

    def caller(self, name: str, script: Script | Callable[[], Any]) -> None:
        """Put a caller on the stage: a generator, or a function that is called once (and may return one)."""
        number = next(self._numbers)
        self._callers[number] = name
        self._order.soon(name, partial(self._enter, number, script), Place.CALLER)

    def run(self) -> None:
        """Play until nothing is left to do. Raises what a script raises, and ``AssertionError`` where a caller never
        came to its end."""
        before = len(self.trace)
        while self._order.one():
            if len(self.trace) - before > _ENDLESS:
                raise AssertionError(f"seed {self.seed}: the play goes round in circles")
        if self._callers:
            raise AssertionError(
                f"seed {self.seed}: nothing is left to do, and still waiting: {self.unfinished}"
            )

    # What follows is the Runtime that the engine sees.

    def actor(
        self, name: str, behaviour: Behaviour, *, capacity: int = 10_000, outlives: bool = False
    ) -> StageActor:
        actor = StageActor(name, behaviour, self._order, capacity=capacity, outlives=outlives)
        self._actors.append(actor)
        return actor

    def pooled(
        self, walk: Walk, handed: Handed, settle: Callable[[Any, BaseException | None], None]
    ) -> Callable[[], None]:
        return self._staged(walk, self.workers, handed, settle)

    def here(self, walk: Walk, handed: Handed, news: Any = None) -> Any:
        answer: Future[Any] = Future()
        staged = self._staged(walk, None, handed, partial(_resolve, answer))
        self._order.soon(f"{self._walks[walk]} goes on", partial(staged, news))
        if news is None and self._order.place is Place.CALLER:
            return answer
        return self._waited_for(answer)

    def awaited(self, future: Future[Any], timeout_seconds: float) -> Any:
        return future if self._order.place is Place.CALLER else self._waited_for(future)

    def start(self) -> None:
        """Nothing to do: whoever has something to do says so."""

    def stop(self, timeout_seconds: float) -> None:
        self.run()
        for actor in reversed(self._actors):
            actor.end()

    @staticmethod
    def dismiss() -> list[Thread]:
        """It has no threads."""
        return []

    def is_run_by_this_thread(self) -> bool:
        return self.owns_this_thread()

    def owns_this_thread(self) -> bool:
        return self._order.place is Place.WORKER

    def _waited_for(self, answer: Future[Any]) -> Any:
        self._order.until(answer.done)
        return answer.result(0)

    def _staged(
        self,
        walk: Walk,
        workers: StageWorkers | None,
        handed: Handed,
        settle: Callable[[Any, BaseException | None], None],
    ) -> StagedWalk:
        label = self._walks.setdefault(walk, f"walk {len(self._walks) + 1}")
        return StagedWalk(label, walk, self, self._order, workers, handed, settle)

    def _enter(self, number: int, script: Script | Callable[[], Any]) -> None:
        if not isinstance(script, Generator):
            script = script()
        if isinstance(script, Generator):
            self._act(number, script, None, None)
        else:
            del self._callers[number]

    def _act(self, number: int, script: Script, value: Any, error: BaseException | None) -> None:
        """One event of a caller: to its next yield."""
        try:
            awaited = script.send(value) if error is None else script.throw(error)
        except StopIteration:
            del self._callers[number]
            return
        name = self._callers[number]
        if awaited is None:
            self._order.soon(name, partial(self._act, number, script, None, None), Place.CALLER)
            return
        # As result() does: who waits for a call that no worker has begun makes it, if it comes to that first.
        if isinstance(awaited, InvocationFuture) and self._order.chance(2):
            task = None if awaited.worker_only else awaited.take()
            if task is not None:
                self._order.soon(f"{name} makes its call itself", task)
        awaited.add_done_callback(partial(self._heard, number, script))

    def _heard(self, number: int, script: Script, future: "Future[Any]") -> None:
        value, error = None, None
        try:
            value = future.result(0)
        except BaseException as raised:
            error = raised
        act = partial(self._act, number, script, value, error)
        self._order.soon(self._callers[number], act, Place.CALLER)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            last = ", ".join(self.trace[-_LAST_EVENTS:])
            error.add_note(f"Stage(seed={self.seed}) plays it again; the last events: {last}")

    def __repr__(self) -> str:
        return f"Stage(seed={self.seed})"


def _resolve(answer: "Future[Any]", value: Any, error: BaseException | None) -> None:
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
