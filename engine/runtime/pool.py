"""Worker threads that come on demand and go when idle.

Tasks wait in a backlog. At most one worker *searches* at a time: it was woken, or born, to look for a task, and holds
the one search token. So a submitter that finds no token has nothing to do: somebody is on the way already. A searcher
that has found a task gives the token back and, where more tasks wait, sends the next worker before it begins.

Nobody is stranded, because each side writes before it looks:

    a submitter      puts its task, then looks for the token, then for somebody parked or unborn
    a searcher       gives the token back, then looks at the tasks again
    an idle worker   parks, then looks at the tasks again
    a leaving one    gives its place back, then looks at the tasks again
    a stand-in       gives its role back, then looks at the tasks again (``StandIn``)

Whatever their order, one of two that meet sees the other. A submitter that has nothing to do but wait may run its own
task (``Item.take``), which saves two switches of thread; its item is then a dud, and workers pass duds over.
"""

import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from turnout.clock import Clock
from turnout.errors import ReentrantCallError, RouterBusyError, RouterClosedError
from turnout.runtime.backlog import Backlog, Item, Task, run
from turnout.runtime.door import Door
from turnout.runtime.stand_in import StandIn
from turnout.runtime.strand import Strand
from turnout.runtime.tokens import Tokens

#: How long a wait for a worker's end goes on before it looks whether another was born.
_LOOK_SECONDS: Final = 0.1
#: How long a worker waits for a call that was on its way. Only an interrupt between two steps can lose one.
_LOST_CALL_SECONDS: Final = 60.0


class WorkerPool:
    """Grows to ``max_workers``; at most ``max_queue`` tasks wait at the door."""

    def __init__(
        self, name: str, *, max_workers: int, max_queue: int, idle_seconds: float, clock: Clock
    ) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._backlog = Backlog(self._provide)
        self._door = Door(max_queue, clock)
        self._places = self._door.places
        self._search = Tokens(1)
        #: The threads that are about to send somebody.
        self._sending: list[int] = []
        #: Where idle workers wait to be called: with True the one called searches, with False it only looks up.
        self._parked: dict[SimpleQueue[bool], bool] = {}
        self._slots: set[SimpleQueue[bool]] = set()
        self._unborn = Tokens(max_workers)
        self._retiring = Tokens()
        self._max_workers = max_workers
        self._threads: set[Strand] = set()
        self._idents: set[int] = set()
        self._stand_in = StandIn(self._backlog, self._summon, self._idents)
        self._closing = False
        # Held only by those who resize, against each other; no caller of a call meets it.
        self._resizing = threading.Lock()

    @property
    def max_workers(self) -> int:
        return self._max_workers

    @property
    def workers(self) -> int:
        """Threads that work, or wait for work."""
        return len(self._idents)

    @property
    def waiting(self) -> int:
        """Tasks at the door that no worker has taken yet."""
        return self._door.waiting

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
            placed = self._places.take()
        except BaseException:
            # Interrupted. Was the place taken? One too many does no harm, one too few stays so.
            self._places.give()
            raise
        if not placed:
            self._door.wait(wait_seconds, self._may_wait)
        item: Item | None = None
        try:
            item = self._backlog.put(task, self._places)
            if not self._summon() and not self._idents:
                refused = item.take() is not None
                # Who brought work at this moment may have seen this thread send for somebody.
                self._stand_in()
                if refused:
                    raise RouterBusyError(
                        "the system gives no more threads; submit later, or lower max_workers"
                    )
        except BaseException:
            # Interrupted: whoever has begun it goes on, otherwise nobody will.
            if item is None:
                self._places.give()
            else:
                item.take()
            raise
        return item

    def resume(self, task: Task) -> None:
        """Queue the rest of work already admitted: never refused. Where there is no worker and the system gives no
        thread for one, the calling thread stands in: nobody else would."""
        self._backlog.put(task, None)
        self._provide()

    def lend(self, task: Task, *, or_here: bool = False) -> Item:
        """Queue a task, ahead of others and past the door, with a place of its own beside ``max_workers``: for a thread
        that idles while it waits for it, or a worker that is held up. The place goes back by ``take_back``.

        ``or_here``: where the system gives no thread for it, and every worker may be held up, it is done at once.
        """
        item = self._backlog.put_first(task)
        # After the task, which whoever is born to it finds.
        self._unborn.give()
        if not self._summon():
            self._stand_in()
            if or_here and item.take() is not None:
                run(task)
        return item

    def take_back(self) -> None:
        """One place less: one that nobody was born for, or that of the next worker that has nothing in hand."""
        if not self._unborn.take():
            self._retiring.give()
            self._call_parked(searches=False)

    def resize(self, max_workers: int) -> None:
        """Change the bound. Growing acts now; shrinking lets each surplus worker finish what it is doing."""
        with self._resizing:
            change = max_workers - self._max_workers
            self._max_workers = max_workers
            for _ in range(change):
                if not self._retiring.take():
                    self._unborn.give()
            for _ in range(-change):
                if not self._unborn.take():
                    self._retiring.give()
                    self._call_parked(searches=False)
        self._provide()

    def send_another(self) -> None:
        """Asked before a wait for tasks by who may be a signal handler: where it has interrupted one that was about to
        send somebody to them, somebody else is sent."""
        if threading.get_ident() in self._sending:
            for thread in self._threads.copy():
                if thread.is_held_up():
                    self._threads.discard(thread)
                    self._unborn.give()
            # The one that is interrupted may have it in hand. One too many does no harm.
            self._search.give()
        # Who waits, perhaps for a time, does not stand in for anybody.
        self._summon()

    def stop(self, timeout_seconds: float) -> list[str]:
        """Let what is queued be done, then end every worker; the names of those still busy."""
        self._closing = True
        end = time.monotonic() + timeout_seconds
        # Late work, such as a task that was cancelled, may have a worker born while the others end.
        while self.dismiss():
            if (left := end - time.monotonic()) <= 0.0:
                break
            for thread in self._threads.copy():
                if thread.ends_within(min(left, _LOOK_SECONDS)):
                    self._threads.discard(thread)
        return sorted(thread.name for thread in self._threads.copy())

    def dismiss(self) -> list[threading.Thread]:
        """End the workers once they have no work. Never waits; safe inside garbage collection."""
        self._closing = True
        while self._call_parked(searches=False):
            pass
        return list(self._threads.copy())

    def _may_wait(self) -> None:
        """Raises where nobody may wait for a place at the door."""
        if self.owns_this_thread():
            raise ReentrantCallError(
                "a worker of this router cannot wait for a place in its own queue: it may be the one that should "
                "make room; submit from there without block=True"
            )
        if self._closing:
            raise RouterClosedError("the router is closed; build a new one")

    def _provide(self) -> None:
        """Send somebody to the tasks that wait, or stand in for them."""
        if not self._summon():
            self._stand_in()

    def _summon(self) -> bool:
        """Where tasks wait and nobody is on the way to them, send somebody. False where the system gives no thread."""
        # Most often somebody is on the way, so that is looked at first; in the end the token decides.
        return self._search.empty() or not self._backlog or not self._somebody() or self._sent()

    def _sent(self) -> bool:
        here = threading.get_ident()
        try:
            # Before the token is taken: a signal handler that comes from now on may be in the way.
            self._sending.append(here)
            while self._backlog and self._somebody() and self._search.take():
                if self._call_parked(searches=True):
                    return True
                try:
                    if self._bear():
                        return True
                except RuntimeError:
                    self._search.give()
                    if not self._parked:
                        return False
                else:
                    self._search.give()
        except BaseException:
            # An interrupt. Was the token in hand? One too many does no harm, none would stop the pool.
            self._search.give()
            raise
        finally:
            with suppress(ValueError):
                self._sending.remove(here)
        return True

    def _somebody(self) -> bool:
        """Whether anybody could be sent."""
        return bool(self._parked or self._unborn)

    def _call_parked(self, *, searches: bool) -> bool:
        if not self._parked:
            return False
        try:
            slot, _ = self._parked.popitem()
            slot.put(searches)
        except KeyError:
            return False
        except BaseException:
            # An interrupt may have lost the slot: all who are not parked look up, once more than they need to.
            for slot in self._slots.copy():
                if slot not in self._parked:
                    slot.put(False)
            raise
        return True

    def _bear(self) -> bool:
        """Whether a worker could be born, to search. Raises ``RuntimeError`` where the system gives no thread."""
        thread: Strand | None = None
        try:
            if not self._unborn.take():
                return False
            number = self._max_workers - len(self._unborn)
            thread = Strand(f"{self._name}-worker-{number}", self._work)
            # Before it starts, so that whoever bears it may end: stop() misses neither.
            self._threads.add(thread)
            thread.start()
        except BaseException:
            # Interrupted, it may have begun all the same; then it gives its own place back at its end.
            if thread is None or thread.is_void():
                self._unborn.give()
                if thread is not None:
                    self._threads.discard(thread)
            raise
        return True

    def _work(self) -> None:
        try:
            searches, stays = True, True
            while stays:
                stays = self._lived(searches)
                searches = False
        finally:
            # Last: stop() waits until whoever came after this worker is there to be waited for.
            self._threads.discard(threading.current_thread())

    def _lived(self, searches: bool) -> bool:
        """A worker's life, from its first look for a task; whether it begins another."""
        self._idents.add(threading.get_ident())
        retired = False
        try:
            retired = self._serve(searches)
        finally:
            self._idents.discard(threading.get_ident())
            if not retired:
                self._unborn.give()
            # Where no other thread can be had for what came meanwhile, this one stays for it.
            stays = not self._summon() and self._unborn.take()
        return stays

    def _serve(self, searches: bool | None) -> bool:
        """Run tasks while there are any, and wait for others a while; whether this worker was retired. With
        ``searches`` it was sent to look for one."""
        slot: SimpleQueue[bool] = SimpleQueue()
        self._slots.add(slot)
        try:
            return self._serve_from(slot, searches)
        finally:
            self._slots.discard(slot)

    def _serve_from(self, slot: "SimpleQueue[bool]", searches: bool | None) -> bool:
        while searches is not None:
            # Who was born to a lent task does not pay for a place that another is to give back.
            retires = not self._backlog.has_lent and self._retiring.take()
            task = None if retires else self._backlog.next_task()
            if searches:
                self._search.give()
                if self._backlog.has_task():
                    self._summon()
            if task is not None:
                run(task)
                # Not kept while this worker waits for another.
                del task
                searches = False
            elif retires or self._closing:
                return retires
            else:
                searches = self._park(slot)
        return False

    def _park(self, slot: "SimpleQueue[bool]") -> bool | None:
        """Wait to be called: whether this worker searches then, or None when its idle time is over."""
        self._parked[slot] = True
        if (self._backlog or self._closing) and self._parked.pop(slot, False):
            return False
        try:
            return bool(self._clock.wait(slot, self._idle_seconds))
        except Empty:
            if self._parked.pop(slot, False):
                return None
        # Somebody is calling at this very moment.
        try:
            return slot.get(timeout=_LOST_CALL_SECONDS)
        except Empty:
            return False
