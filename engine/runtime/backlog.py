"""The tasks that wait for a worker: those that a place was lent for, then the others, each in order."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from loguru import logger

from turnout.runtime.tokens import Tokens
from turnout.traces import trace_of

Task = Callable[[], None]

#: Duds between tasks are swept out once there are this many items more than twice what the last sweep left.
_SWEEP_AT: Final = 64


class Item(NamedTuple):
    """A submitted task, for workers and for who waits for it. ``cell`` holds the task until somebody pops it, which
    only one can: ``list.pop`` is one step. ``place`` goes back to the door then."""

    cell: list[Task]
    place: Tokens | None
    backlog: "Backlog"

    def take(self) -> Task | None:
        """The task, to be run by the caller, if no worker has begun it. The item is a dud from then on."""
        try:
            task = self.cell.pop()
            if self.place is not None:
                self.place.give()
        except IndexError:
            return None
        except BaseException:
            # Interrupted. Was the task taken? A place too many does no harm, one too few stays so.
            if self.place is not None and not self.cell:
                self.place.give()
            raise
        self.backlog.trim()
        return task


class Backlog:
    """Items, oldest first, in two lines: the first is served before the other. A dud, whose task was taken by who
    waits for it, is dropped where it is met.

    Whoever has an item in hand that it only looked at puts it back, and calls ``put_back``: a worker that looked in
    between saw too little.
    """

    __slots__ = ("_first", "_items", "_put_back", "_sweep_at", "_sweeping")

    def __init__(self, put_back: Callable[[], object]) -> None:
        self._first: deque[Item] = deque()
        self._items: deque[Item] = deque()
        self._put_back = put_back
        self._sweep_at = _SWEEP_AT
        self._sweeping = Tokens(1)

    def __len__(self) -> int:
        """Of items, duds among them."""
        return len(self._first) + len(self._items)

    def put(self, task: Task, place: Tokens | None) -> Item:
        """Queue a task that holds ``place`` at the door."""
        # What Item(...) comes down to, without a call in between at every call.
        item = tuple.__new__(Item, ([task], place, self))
        self._items.append(item)
        return item

    def put_first(self, task: Task) -> Item:
        """Queue a task ahead of all that hold a place at the door, or were resumed."""
        item = Item([task], None, self)
        self._first.append(item)
        return item

    @property
    def has_lent(self) -> bool:
        """Whether something waits ahead of all others, a dud perhaps."""
        return bool(self._first)

    def next_task(self) -> Task | None:
        """The task that is next, or None."""
        while items := self._first or self._items:
            try:
                item = items.popleft()
                task = item.cell.pop()
            except IndexError:
                continue
            if item.place is not None:
                item.place.give()
            return task
        return None

    def has_task(self) -> bool:
        """Whether there is a task; drops the duds ahead of the first."""
        return _leads(self._first) or _leads(self._items)

    def trim(self) -> None:
        """Drop the duds behind the last task: left to the workers, they would pile up while all are busy."""
        if len(self._items) > self._sweep_at:
            self._sweep()
        self._trim(self._items)
        if self._first:
            self._trim(self._first)

    def _trim(self, items: deque[Item]) -> None:
        try:
            while items and not items[-1].cell:
                last = items.pop()
                if last.cell:
                    items.append(last)
                    self._put_back()
        except IndexError:
            return

    def _sweep(self) -> None:
        """Take out all duds, also those between tasks, which keep their order but for those that come meanwhile."""
        if not self._sweeping.take():
            return
        items = self._items
        # Behind it the tasks line up again; a worker that passes it over finds nothing in it.
        end = Item([], None, self)
        items.append(end)
        try:
            for _ in range(len(items)):
                first = items[0]
                if first.cell:
                    # There twice for a moment rather than not at all; its cell is emptied once.
                    items.append(first)
                if (taken := items.popleft()) is not first and taken.cell:
                    items.appendleft(taken)
                if first is end:
                    break
        except IndexError:
            return
        finally:
            self._sweep_at = 2 * len(items) + _SWEEP_AT
            self._sweeping.give()
            self._put_back()


def run(task: Task) -> None:
    """Run a task. What it raises is logged: whoever runs it has others to run."""
    try:
        task()
    except BaseException as error:
        # Also SystemExit: a callback may raise anything, and the worker is not its to end.
        logger.error("work on {} raised:\n{}", threading.current_thread().name, trace_of(error))


def _leads(items: deque[Item]) -> bool:
    """Whether a task leads this line, once the duds ahead of it are dropped."""
    try:
        while not items[0].cell:
            first = items.popleft()
            if first.cell:
                items.appendleft(first)
    except IndexError:
        return False
    return True
