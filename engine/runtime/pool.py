"""Worker threads that come on demand and go when idle.

Idle workers are counted by tokens in a queue, and the count is exact. A *paid* item has an idle worker behind it: its
submitter took a token, or had a worker born for it; where neither could be had the item is unpaid and waits for
whoever is free first. At any time

    tokens + paid items not yet received - debts  =  workers registered as idle (or just born for an item)

and no worker is registered while it works. Whatever item a worker gets, it keeps that balance:

    paid, a debt is open   the item has no idle worker behind it any more: the debt is settled, the item is unpaid
    paid, registered       the item was for a worker like it
    paid, unregistered     it took what an idle worker was meant to get, and puts that worker's token back
    unpaid, registered     it takes its own token back; if somebody was quicker, a paid item is on its way that now
                           has no idle worker behind it: another is born in its place, or that is a debt

An idle counter with a timed ``get`` was seen to strand work; so was this without the debts, and with newborns that
nobody had counted.

A submitter that has nothing to do but wait may run its own task (``Item.take``), which saves two switches of
thread: its item is then a dud, and the token that paid for it goes back at once. Workers pass duds over.
"""

import math
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from loguru import logger

from turnout.clock import Clock
from turnout.errors import ReentrantCallError, RouterBusyError, RouterClosedError
from turnout.traces import trace_of

Task = Callable[[], None]


class Item(NamedTuple):
    """A submitted task, for workers and for who waits for it. ``cell`` holds the task until somebody pops it, which
    only one can: ``list.pop`` is one step."""

    cell: list[Task]
    paid: bool
    from_door: bool
    pool: "WorkerPool"

    def take(self) -> Task | None:
        """The task, to be run by the caller, if no worker has begun it. The item is a dud from then on."""
        try:
            task = self.cell.pop()
        except IndexError:
            return None
        if self.from_door:
            self.pool._door.put(None)
        if self.paid:
            self.pool._idle.put(None)
        return task


#: How long a wait goes on before it looks whether the pool is closing, or whether another worker was born.
_LOOK_SECONDS: Final = 0.1


def _nudge() -> None:
    """A task that only makes a worker look up: whether it is to retire."""


def _last() -> None:
    """The task behind all others when the pool closes. There is one, and it goes round: a worker that finds nothing
    else beside it ends, and leaves it to the next."""


class WorkerPool:
    """Grows to ``max_workers``; at most ``max_queue`` tasks wait at the door."""

    def __init__(
        self, name: str, *, max_workers: int, max_queue: int, idle_seconds: float, clock: Clock
    ) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._items: SimpleQueue[Item] = SimpleQueue()
        self._door: SimpleQueue[None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()
        self._unborn: SimpleQueue[None] = SimpleQueue()
        self._debts: SimpleQueue[None] = SimpleQueue()
        self._retiring: SimpleQueue[None] = SimpleQueue()
        self._max_queue = max_queue
        self._max_workers = max_workers
        self._threads: set[threading.Thread] = set()
        self._idents: set[int] = set()
        self._closing = False
        # Held only by those who resize, against each other; no caller of a call meets it.
        self._resizing = threading.Lock()
        for _ in range(max_queue):
            self._door.put(None)
        for _ in range(max_workers):
            self._unborn.put(None)

    @property
    def max_workers(self) -> int:
        return self._max_workers

    @property
    def workers(self) -> int:
        """Threads alive now."""
        return len(self._threads)

    @property
    def waiting(self) -> int:
        """Tasks at the door that no worker has taken yet."""
        return self._max_queue - self._door.qsize()

    def owns_this_thread(self) -> bool:
        return threading.get_ident() in self._idents

    def start(self) -> None:
        """Nothing to do: workers are born when work comes."""

    def submit(self, task: Task, *, wait_seconds: float | None = 0.0) -> Item:
        """Queue a task. Where the door is full, wait up to ``wait_seconds`` (None: as long as it takes) for a place.

        Raises ``RouterBusyError`` when no place came, ``RouterClosedError`` after ``stop``.
        """
        if self._closing:
            raise RouterClosedError("the router is closed; build a new one")
        try:
            self._door.get_nowait()
        except Empty:
            self._wait_at_door(wait_seconds)
        try:
            return self._put(task, from_door=True)
        except BaseException:
            self._door.put(None)
            raise

    def resume(self, task: Task) -> None:
        """Queue the rest of work already admitted: never refused."""
        self._put(task, from_door=False)

    def resize(self, max_workers: int) -> None:
        """Change the bound. Growing acts now; shrinking lets each surplus worker finish what it is doing."""
        with self._resizing:
            change = max_workers - self._max_workers
            self._max_workers = max_workers
            for _ in range(change):
                if not _taken(self._retiring):
                    self._unborn.put(None)
            for _ in range(-change):
                if not _taken(self._unborn):
                    self._retiring.put(None)
                    if _taken(self._idle):
                        self._items.put(Item([_nudge], True, False, self))
        for _ in range(min(change, self._items.qsize())):
            self._bear(registered=False)

    def stop(self, timeout_seconds: float) -> list[str]:
        """Let what is queued be done, then end every worker; the names of those still busy."""
        if not self._closing:
            self._closing = True
            self._items.put(Item([_last], False, False, self))
        end = time.monotonic() + timeout_seconds
        # Late work, such as a task that was cancelled, may have a worker born while the others end.
        while (threads := self._threads.copy()) and (left := end - time.monotonic()) > 0.0:
            for thread in threads:
                thread.join(min(left, _LOOK_SECONDS))
        return sorted(thread.name for thread in self._threads.copy())

    def _wait_at_door(self, wait_seconds: float | None) -> None:
        end = math.inf if wait_seconds is None else self._clock.monotonic() + wait_seconds
        while (left := end - self._clock.monotonic()) > 0.0:
            if self.owns_this_thread():
                raise ReentrantCallError(
                    "a worker of this router cannot wait for a place in its own queue: it may be the one that should "
                    "make room; submit from there without block=True"
                )
            if self._closing:
                raise RouterClosedError("the router is closed; build a new one")
            try:
                self._clock.wait(self._door, min(left, _LOOK_SECONDS))
                return
            except Empty:
                continue
        raise RouterBusyError(
            f"{self._max_queue} calls are waiting already; submit later, pass block=True to wait for a place, "
            "or raise PoolConfig.max_queue"
        )

    def _put(self, task: Task, *, from_door: bool) -> Item:
        paid = (_taken(self._idle) and not _taken(self._debts)) or self._bear(registered=True)
        item = Item([task], paid, from_door, self)
        self._items.put(item)
        return item

    def _bear(self, *, registered: bool) -> bool:
        """Whether another worker could be had. ``registered``: it counts as idle, for an item that is on its way."""
        if not _taken(self._unborn):
            return False
        number = self._max_workers - self._unborn.qsize()
        name = f"{self._name}-worker-{number}"
        thread = threading.Thread(target=self._work, args=(registered,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._unborn.put(None)
            if not self._threads:
                raise RouterBusyError(
                    "the system gives no more threads; submit later, or lower max_workers"
                ) from error
            return False
        return True

    def _work(self, registered: bool) -> None:
        # Counted by itself, once it runs: nobody can join a thread that has not started.
        self._threads.add(threading.current_thread())
        self._idents.add(threading.get_ident())
        try:
            self._work_on(registered)
        finally:
            self._idents.discard(threading.get_ident())
            self._threads.discard(threading.current_thread())
        # Work that came between this worker's last look and its leaving found no idle worker and no place for another.
        if self._items.qsize() > self._closing:
            self._bear(registered=False)

    def _work_on(self, registered: bool) -> None:
        while True:
            item, registered = self._next(registered)
            if item is None:
                if _taken(self._idle):
                    break
                continue
            try:
                task = item.cell.pop()
            except IndexError:
                continue
            self._balance(item, registered)
            registered = False
            if item.from_door:
                self._door.put(None)
            if task is _last:
                self._items.put(Item([_last], False, False, self))
                # None is left where a waiting worker was handed it at once, as Python 3.13 does.
                if self._items.qsize() <= 1:
                    break
            else:
                self._run(task)
            del item, task
            if _taken(self._retiring):
                return
        self._unborn.put(None)

    def _next(self, registered: bool) -> tuple[Item | None, bool]:
        """The next item (None after ``idle_seconds`` without one), and whether this worker is registered as idle."""
        if not registered:
            try:
                return self._items.get_nowait(), False
            except Empty:
                self._idle.put(None)
        try:
            return self._clock.wait(self._items, self._idle_seconds), True
        except Empty:
            return None, True

    def _balance(self, item: Item, registered: bool) -> None:
        """Keep the count of idle workers; see the head of the file."""
        if item.paid and not _taken(self._debts):
            if not registered:
                self._idle.put(None)
        elif registered and not _taken(self._idle) and not self._bear(registered=True):
            self._debts.put(None)

    def _run(self, task: Task) -> None:
        try:
            task()
        except BaseException as error:
            # Also SystemExit: a callback may raise anything, and the worker is not its to end.
            logger.error("work on {} raised:\n{}", threading.current_thread().name, trace_of(error))


def _taken(tokens: "SimpleQueue[None]") -> bool:
    if tokens.empty():
        return False
    try:
        tokens.get_nowait()
    except Empty:
        return False
    return True
