"""The runtime made of threads."""

import threading
from concurrent.futures import Future
from functools import partial
from typing import Any

from turnout.clock import Clock
from turnout.runtime.actor import Actor, Behaviour
from turnout.runtime.drivers import PooledWalk, walk_here
from turnout.runtime.loop import EventLoop
from turnout.runtime.pool import WorkerPool
from turnout.runtime.supervisor import Supervisor
from turnout.runtime.timer import Timer


class ThreadRuntime:
    """Owns every thread of one router, named ``turnout-<router>-<part>``."""

    def __init__(
        self, router_name: str, *, max_workers: int, max_queue: int, idle_seconds: float, clock: Clock
    ) -> None:
        self.clock = clock
        self._prefix = f"turnout-{router_name}"
        self._supervisor = Supervisor()
        #: Of the actors.
        self._threads: list[threading.Thread] = []
        self.workers = WorkerPool(
            self._prefix, max_workers=max_workers, max_queue=max_queue, idle_seconds=idle_seconds, clock=clock
        )
        self.dismiss = self._supervisor.dismiss
        self.owns_this_thread = self.workers.owns_this_thread
        self.pooled = partial(PooledWalk, self)
        self.here = partial(walk_here, self)
        self.alarms = Timer(f"{self._prefix}-timer", clock)
        self.loop = EventLoop(f"{self._prefix}-loop")

    def actor(
        self, name: str, behaviour: Behaviour, *, capacity: int = 10_000, outlives: bool = False
    ) -> Actor:
        actor = Actor(
            f"{self._prefix}-{name}", behaviour, clock=self.clock, capacity=capacity, outlives=outlives
        )
        self._supervisor.own(actor)
        self._threads.append(actor.thread)
        return actor

    def awaited(self, future: Future[Any], timeout_seconds: float) -> Any:
        return future.result(timeout_seconds)

    def start(self) -> None:
        """Own the parts that give work to actors: started after them, they end before them."""
        for part in (self.alarms, self.loop, self.workers):
            self._supervisor.own(part)

    def is_run_by_this_thread(self) -> bool:
        return (
            threading.current_thread() in self._threads
            or self.owns_this_thread()
            or self.alarms.owns_this_thread()
            or self.loop.owns_this_thread()
        )

    def stop(self, timeout_seconds: float) -> None:
        self._supervisor.stop(timeout_seconds)
