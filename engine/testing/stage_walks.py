"""Walks on a stage: every step is an event, and a worker is a place that a walk occupies."""

from collections import deque
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from turnout.errors import RouterBusyError
from turnout.runtime.contract import Runtime
from turnout.runtime.drivers import Handed, PooledWalk
from turnout.runtime.steps import Ask, Await, Call, HandOver, Hear, Sleep, TakeLane, Walk
from turnout.testing.stage_actor import StageActor
from turnout.testing.stage_order import Order, Place


class StageTicket(NamedTuple):
    """A submitted task, for who waits for it. Holds the task until somebody pops it."""

    cell: list[Callable[[], None]]
    door: "SimpleQueue[None] | None"

    def take(self) -> Callable[[], None] | None:
        if not self.cell:
            return None
        if self.door is not None:
            self.door.put(None)
        return self.cell.pop()


class StageWorkers:
    """``max_workers`` places. A walk occupies one while it is stepped, calls or asks; it leaves it to wait."""

    def __init__(self, order: Order, max_workers: int, max_queue: int) -> None:
        self.max_workers = max_workers
        self._order = order
        self._max_queue = max_queue
        self._occupied = 0
        self._tasks: deque[tuple[list[Callable[[], None]], bool]] = deque()
        self._door: SimpleQueue[None] = SimpleQueue()
        for _ in range(max_queue):
            self._door.put(None)

    @property
    def workers(self) -> int:
        return self._occupied

    @property
    def waiting(self) -> int:
        return self._max_queue - self._door.qsize()

    def submit(self, task: Callable[[], None], *, wait_seconds: float | None = 0.0) -> StageTicket:
        try:
            self._order.clock.wait(self._door, wait_seconds)
        except Empty:
            raise RouterBusyError(f"{self._max_queue} calls are waiting already") from None
        ticket = StageTicket([task], self._door)
        self._put(ticket.cell, from_door=True)
        return ticket

    def resume(self, task: Callable[[], None]) -> None:
        self._put([task], from_door=False)

    def lend(self, task: Callable[[], None], *, or_here: bool = False) -> StageTicket:
        def occupying() -> None:
            try:
                task()
            finally:
                self.leave()

        # A walk gives its place up itself.
        ticket = StageTicket([task if isinstance(task, StagedWalk) else occupying], None)
        self._put(ticket.cell, from_door=False)
        return ticket

    def take_back(self) -> None:
        """Nothing to do: nobody is held up on a stage."""

    def send_another(self) -> None:
        """Nothing to do: nobody is interrupted on a stage."""

    def resize(self, max_workers: int) -> None:
        self.max_workers = max_workers
        self._look()

    def leave(self) -> None:
        """A walk gives its place up."""
        self._occupied -= 1
        self._look()

    def _put(self, cell: list[Callable[[], None]], *, from_door: bool) -> None:
        self._tasks.append((cell, from_door))
        self._look()

    def _look(self) -> None:
        if self._tasks:
            self._order.soon("worker", self._work, Place.WORKER)

    def _work(self) -> None:
        if self._occupied >= self.max_workers or not self._tasks:
            return
        cell, from_door = self._tasks.popleft()
        self._look()
        if not cell:
            return
        if from_door:
            self._door.put(None)
        self._occupied += 1
        cell.pop()()


class StagedWalk(PooledWalk):
    """Drives a walk step by step. Parks as a pooled walk does; ``workers`` is None for one on its caller's thread."""

    __slots__ = ("_label", "_order", "_over", "_place", "_workers")

    def __init__(
        self,
        label: str,
        walk: Walk,
        runtime: Runtime,
        order: Order,
        workers: StageWorkers | None,
        handed: Handed,
        settle: Callable[[Any, BaseException | None], None],
    ) -> None:
        super().__init__(runtime, walk, handed, settle)
        self._label = label
        self._order = order
        self._workers = workers
        self._over = False
        self._place = Place.WORKER if order.place is Place.WORKER else Place.ELSEWHERE

    def __call__(self, value: Any = None, error: BaseException | None = None, here: bool = False) -> None:
        if self._workers is not None:
            # A task that was taken from the queue is begun by who waits for it.
            self._place = Place.WORKER if self._order.place is Place.WORKER else Place.ELSEWHERE
        self._step(value, error)

    def _step(self, value: Any, error: BaseException | None) -> None:
        """On to the walk's next step, which is another event."""
        walk = self._walk
        try:
            match walk.send(value) if error is None else walk.throw(error):
                case Call() as step:
                    self._soon(f"calls {_called(step)}", partial(self._call, step))
                    return
                case Ask() as step:
                    self._ask(step)
                    return
                case Await() | Hear() | TakeLane() | Sleep() as step:
                    self._leave()
                    self.park(step)
                    return
                case HandOver() as step:
                    answer = self._handed(walk, step)
        except StopIteration as end:
            answer = end.value
        except BaseException as raised:
            self._broken(raised)
            return
        self._end(answer, None)

    def _call(self, step: Call) -> None:
        try:
            value, error = step.context.run(step.function, step.request, step.limit), None
        except Exception as raised:
            value, error = None, raised
        except BaseException as raised:
            self._broken(raised)
            return
        self._hears("hears the answer", value, error)

    def _ask(self, step: Ask) -> None:
        assert isinstance(step.actor, StageActor)
        try:
            step.actor.post(step.message, partial(self._hears, "hears the reply"))
        except Exception as refused:
            self._hears("is refused", None, refused)

    def _hears(self, what: str, value: Any, error: Exception | None) -> None:
        self._soon(what, partial(self._step, value, error))

    def _soon(self, what: str, act: Callable[[], None]) -> None:
        self._order.soon(f"{self._label} {what}", act, self._place)

    def _resume(self, task: Callable[[], None]) -> None:
        if self._workers is None:
            self._soon("goes on", task)
        else:
            self._workers.resume(task)

    def _leave(self) -> None:
        if self._workers is not None and self._place is Place.WORKER:
            self._workers.leave()

    def _broken(self, raised: BaseException) -> None:
        self._walk.close()
        self._end(None, raised)

    def _end(self, value: Any, error: BaseException | None) -> None:
        if self._over:
            raise AssertionError(f"{self._label} ended twice")
        self._over = True
        self._leave()
        self._settle(value, error)


def _called(step: Call) -> str:
    owner = getattr(step.function, "__self__", step.function)
    return str(getattr(owner, "name", None) or getattr(owner, "__qualname__", "a provider"))
