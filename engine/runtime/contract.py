"""The machine that the engine runs on, as the engine sees it; threads are one, the test stage another."""

from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextvars import Context
from threading import Thread
from typing import Any, Protocol

from turnout.clock import Clock
from turnout.runtime.actor import Behaviour


class ActorRef(Protocol):
    """Where messages to an actor go."""

    @property
    def name(self) -> str: ...
    def tell(self, message: Any) -> bool: ...
    def ask(self, message: Any, timeout_seconds: float = ...) -> Any: ...


class Alarmed(Protocol):
    def cancel(self) -> None: ...


class Alarms(Protocol):
    """Calls back at an instant of the clock."""

    def at(self, instant: float, callback: Callable[[], None]) -> Alarmed: ...


class Takeable(Protocol):
    """A submitted task that whoever waits for it may run instead; one that runs a walk is told so by ``here``."""

    def take(self) -> Callable[..., None] | None: ...


class Workers(Protocol):
    """Runs tasks."""

    def submit(self, task: Callable[[], None], *, wait_seconds: float | None = ...) -> Takeable: ...
    def resume(self, task: Callable[[], None]) -> None: ...
    def lend(self, task: Callable[[], None], *, or_here: bool = ...) -> Takeable: ...
    def take_back(self) -> None: ...
    def send_another(self) -> None: ...
    def resize(self, max_workers: int) -> None: ...
    @property
    def max_workers(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def waiting(self) -> int: ...


class Awaiting(Protocol):
    """Runs awaitables, until it has ``ended``."""

    @property
    def ended(self) -> bool: ...
    def run(self, awaitable: Awaitable[Any], context: Context) -> "Future[Any]": ...
    def owns_this_thread(self) -> bool: ...


class Runtime(Protocol):
    """Starts everything that has a thread, and ends it."""

    @property
    def clock(self) -> Clock: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def alarms(self) -> Alarms: ...
    @property
    def loop(self) -> Awaiting: ...

    def actor(
        self, name: str, behaviour: Behaviour, *, capacity: int = ..., outlives: bool = ...
    ) -> ActorRef:
        """Start an actor."""

    def pooled(
        self,
        walk: Generator[Any, Any, Any],
        handed: Callable[[Any, Any], Any],
        settle: Callable[[Any, BaseException | None], None],
    ) -> Callable[[], None]:
        """The task that runs a walk on the workers (``drivers.PooledWalk``)."""

    def here(
        self, walk: Generator[Any, Any, Any], handed: Callable[[Any, Any], Any], news: Any = None
    ) -> Any:
        """Run a walk, begun or resumed with ``news``, for the code that calls this (``drivers.walk_here``)."""

    def awaited(self, future: Future[Any], timeout_seconds: float) -> Any:
        """What the code that calls this gets of a walk that the workers run for it: as ``here`` gives it."""

    def start(self) -> None:
        """Start the parts that give actors their work; called once, after the actors."""

    def stop(self, timeout_seconds: float) -> None:
        """End everything that was started, last first; raises ``ThreadsStillRunningError``. What comes later is ended
        from the start."""

    @property
    def dismiss(self) -> Callable[[], list[Thread]]:
        """Has all threads end by themselves, for a router that was dropped, and gives them back. It never waits, is
        safe inside garbage collection, and holds what has threads, but no work."""

    def is_run_by_this_thread(self) -> bool:
        """Whether the calling thread is any of its own."""

    def owns_this_thread(self) -> bool:
        """Whether the calling thread is one of the workers."""
