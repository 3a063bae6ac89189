"""The worker pool: grows on demand, never strands work, never loses count of its idle workers."""

import random
import sys
import threading
from collections.abc import Iterator
from functools import partial
from queue import SimpleQueue

import pytest

from turnout.clock import SystemClock
from turnout.errors import RouterBusyError, RouterClosedError
from turnout.runtime.backlog import Backlog
from turnout.runtime.pool import WorkerPool
from turnout.testing import ManualClock

WAIT = 20.0


def pool_of(workers: int, queue: int = 1000, idle: float = 5.0, clock: object = None) -> WorkerPool:
    return WorkerPool(
        "test",
        max_workers=workers,
        max_queue=queue,
        idle_seconds=idle,
        clock=clock or SystemClock(),  # type: ignore[arg-type]
    )


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = pool_of(4)
    yield pool
    assert pool.stop(WAIT) == []


def met(barrier: threading.Barrier) -> None:
    barrier.wait(WAIT)


class Gate:
    """Tasks that report their start and wait to be let go."""

    def __init__(self) -> None:
        self.started: SimpleQueue[str] = SimpleQueue()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.started.put(threading.current_thread().name)
        assert self.open.wait(WAIT)


def test_every_task_runs_once(pool: WorkerPool) -> None:
    done: SimpleQueue[int] = SimpleQueue()
    for number in range(500):
        pool.submit(partial(done.put, number))
    assert sorted(done.get(timeout=WAIT) for _ in range(500)) == list(range(500))


def test_it_grows_to_its_bound_and_no_further(pool: WorkerPool) -> None:
    gate = Gate()
    for _ in range(10):
        pool.submit(gate)
    names = {gate.started.get(timeout=WAIT) for _ in range(4)}
    assert len(names) == 4
    assert pool.workers == 4
    assert gate.started.empty()
    gate.open.set()


def test_an_idle_worker_is_used_again_before_another_is_born(pool: WorkerPool) -> None:
    for _ in range(50):
        done = threading.Event()
        pool.submit(done.set)
        assert done.wait(WAIT)
    # The one race there is, a submit before the worker has registered as idle, can bear a second worker, not more.
    assert pool.workers <= 2


def test_a_full_door_refuses(pool: WorkerPool) -> None:
    small = pool_of(1, queue=2)
    gate = Gate()
    small.submit(gate)
    gate.started.get(timeout=WAIT)
    small.submit(gate)
    small.submit(gate)
    with pytest.raises(RouterBusyError, match="max_queue"):
        small.submit(gate)
    assert small.waiting == 2
    gate.open.set()
    assert small.stop(WAIT) == []


def test_a_full_door_can_be_waited_at() -> None:
    small = pool_of(1, queue=1)
    gate, done = Gate(), threading.Event()
    small.submit(gate)
    gate.started.get(timeout=WAIT)
    small.submit(lambda: None)
    waiting = threading.Thread(target=lambda: small.submit(done.set, wait_seconds=WAIT))
    waiting.start()
    gate.open.set()
    assert done.wait(WAIT)
    waiting.join(WAIT)
    assert small.stop(WAIT) == []


def test_a_wait_at_the_door_ends_with_its_time() -> None:
    clock = ManualClock()
    small = pool_of(1, queue=1, clock=clock)
    gate, refused = Gate(), threading.Event()
    small.submit(gate)
    gate.started.get(timeout=WAIT)
    small.submit(gate)

    def wait_at_door() -> None:
        with pytest.raises(RouterBusyError):
            small.submit(gate, wait_seconds=3.0)
        refused.set()

    waiting = threading.Thread(target=wait_at_door)
    waiting.start()
    while not refused.wait(0.005):
        clock.advance(1.0)
    waiting.join(WAIT)
    gate.open.set()
    assert small.stop(WAIT) == []


def test_resumed_work_is_never_refused() -> None:
    small = pool_of(1, queue=1)
    gate, done = Gate(), threading.Event()
    small.submit(gate)
    gate.started.get(timeout=WAIT)
    small.submit(lambda: None)
    small.resume(done.set)
    gate.open.set()
    assert done.wait(WAIT)
    assert small.stop(WAIT) == []


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_worker_survives_whatever_its_work_raises(pool: WorkerPool, raised: type[BaseException]) -> None:
    def bad() -> None:
        raise raised

    done = threading.Event()
    for _ in range(8):
        pool.submit(bad)
    pool.submit(done.set)
    assert done.wait(WAIT)
    # What the others log is to come before the test's own end.
    assert pool.stop(WAIT) == []


def test_idle_workers_end_when_their_time_is_over() -> None:
    clock = ManualClock()
    pool = pool_of(3, idle=10.0, clock=clock)
    gate = Gate()
    for _ in range(3):
        pool.submit(gate)
    for _ in range(3):
        gate.started.get(timeout=WAIT)
    gate.open.set()
    while pool.workers:
        clock.advance(11.0)
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(WAIT)
    assert pool.stop(WAIT) == []


def test_shrinking_lets_work_finish_and_growing_serves_what_waits(pool: WorkerPool) -> None:
    gate = Gate()
    for _ in range(8):
        pool.submit(gate)
    for _ in range(4):
        gate.started.get(timeout=WAIT)
    pool.resize(6)
    for _ in range(2):
        gate.started.get(timeout=WAIT)
    assert pool.workers == 6
    pool.resize(2)
    gate.open.set()
    for _ in range(2):
        gate.started.get(timeout=WAIT)
    done: SimpleQueue[int] = SimpleQueue()
    for number in range(100):
        pool.submit(partial(done.put, number))
    for _ in range(100):
        done.get(timeout=WAIT)
    while pool.workers > 2:
        assert threading.active_count()


def test_after_stop_nothing_more_is_taken() -> None:
    pool = pool_of(2)
    done: SimpleQueue[int] = SimpleQueue()
    for number in range(100):
        pool.submit(partial(done.put, number))
    assert pool.stop(WAIT) == []
    assert done.qsize() == 100
    with pytest.raises(RouterClosedError):
        pool.submit(lambda: None)


def test_a_worker_that_will_not_end_is_named() -> None:
    pool = pool_of(1)
    gate = Gate()
    pool.submit(gate)
    gate.started.get(timeout=WAIT)
    assert pool.stop(0.0) == ["test-worker-1"]
    gate.open.set()
    for thread in list(pool._threads):
        thread.join(WAIT)


@pytest.mark.parametrize("seed", range(20))
def test_no_schedule_strands_a_task_that_an_idle_or_unborn_worker_could_run(seed: int) -> None:
    """Tasks that need each other to be running: as many as there are workers meet at a barrier, over and over, with
    other work in between. One stranded task would block its barrier for ever."""
    rng = random.Random(seed)
    workers = rng.randint(2, 5)
    pool = pool_of(workers)
    for _ in range(40):
        for _ in range(rng.randint(0, 4)):
            pool.submit(lambda: None)
        barrier = threading.Barrier(workers + 1)

        def meet(barrier: threading.Barrier = barrier) -> None:
            barrier.wait(WAIT)

        for _ in range(workers):
            (pool.submit if rng.random() < 0.7 else pool.resume)(meet)
        barrier.wait(WAIT)
    assert pool.stop(WAIT) == []
    assert pool.workers == 0


def test_a_nudge_left_from_shrinking_does_not_keep_the_workers_of_a_closing_pool_busy() -> None:
    pool = pool_of(3)
    gate = Gate()
    for _ in range(3):
        pool.submit(gate)
    for _ in range(3):
        gate.started.get(timeout=WAIT)
    gate.open.set()
    while len(pool._parked) < 3:
        assert pool.workers == 3
    pool.resize(1)
    assert pool.stop(WAIT) == []
    assert pool.stop(WAIT) == []


def test_who_waits_for_its_task_may_take_it_back_and_no_worker_runs_it_too(pool: WorkerPool) -> None:
    gate, ran = Gate(), SimpleQueue[int]()
    for _ in range(4):
        pool.submit(gate)
    for _ in range(4):
        gate.started.get(timeout=WAIT)
    tickets = [pool.submit(partial(ran.put, number)) for number in range(10)]
    taken = [ticket.take() for ticket in tickets[:5]]
    assert all(taken)
    assert pool.waiting == 5
    assert tickets[0].take() is None
    gate.open.set()
    assert sorted(ran.get(timeout=WAIT) for _ in range(5)) == [5, 6, 7, 8, 9]
    assert ran.empty()


@pytest.mark.parametrize("seed", range(10))
def test_taking_tasks_back_strands_nothing(seed: int) -> None:
    rng = random.Random(seed)
    workers = rng.randint(2, 5)
    pool = pool_of(workers)
    for _ in range(60):
        for _ in range(rng.randint(1, 6)):
            ticket = pool.submit(lambda: None)
            if rng.random() < 0.6:
                ticket.take()
        barrier = threading.Barrier(workers + 1)
        for _ in range(workers):
            pool.submit(partial(met, barrier))
        barrier.wait(WAIT)
    assert pool.stop(WAIT) == []


def test_tasks_taken_back_while_every_worker_is_busy_do_not_pile_up() -> None:
    small = pool_of(1, queue=10)
    gate, ran = Gate(), SimpleQueue[int]()
    small.submit(gate)
    gate.started.get(timeout=WAIT)
    small.submit(partial(ran.put, 1))
    for _ in range(10_000):
        assert small.submit(lambda: None).take()
    small.submit(partial(ran.put, 2))
    assert len(small._backlog) <= 4
    gate.open.set()
    assert [ran.get(timeout=WAIT) for _ in range(2)] == [1, 2]
    assert small.stop(WAIT) == []


@pytest.mark.parametrize("place", ["_call_parked", "_bear", "_somebody"])
def test_an_interrupt_while_a_worker_is_sent_for_costs_no_later_task(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    pool = pool_of(2)
    if place == "_call_parked":
        done = threading.Event()
        pool.submit(done.set)
        assert done.wait(WAIT)
        while not pool._parked:
            assert pool.workers == 1

    def interrupted(*args: object, **options: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pool, place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.submit(lambda: None)
    assert pool.waiting == 0
    barrier = threading.Barrier(3)
    for _ in range(2):
        pool.submit(partial(met, barrier))
    barrier.wait(WAIT)
    assert pool.stop(WAIT) == []


def test_where_the_system_gives_no_thread_a_submit_is_refused_and_a_later_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = pool_of(2, queue=1)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        for _ in range(3):
            with pytest.raises(RouterBusyError, match="no more threads"):
                pool.submit(lambda: None)
    assert pool.waiting == 0
    barrier = threading.Barrier(2)
    pool.submit(partial(met, barrier))
    barrier.wait(WAIT)
    assert pool.stop(WAIT) == []


def test_a_worker_that_is_there_serves_what_waits_where_the_system_gives_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = pool_of(4)
    gate, ran = Gate(), SimpleQueue[int]()
    pool.submit(gate)
    gate.started.get(timeout=WAIT)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        for number in range(5):
            pool.submit(partial(ran.put, number))
        gate.open.set()
        assert [ran.get(timeout=WAIT) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert pool.stop(WAIT) == []


def test_duds_between_tasks_that_wait_do_not_pile_up_either() -> None:
    small = pool_of(1, queue=10)
    gate, ran = Gate(), SimpleQueue[int]()
    small.submit(gate)
    gate.started.get(timeout=WAIT)
    small.submit(partial(ran.put, 1))
    last = small.submit(partial(ran.put, 2))
    for _ in range(10_000):
        # Its dud lies between the first task and the newest.
        newest = small.submit(partial(ran.put, 2))
        assert last.take()
        last = newest
    assert len(small._backlog) < 200
    gate.open.set()
    assert [ran.get(timeout=WAIT) for _ in range(2)] == [1, 2]
    assert small.stop(WAIT) == []
    assert small.waiting == 0


def test_an_interrupted_birth_costs_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pool_of(1)

    def interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.submit(lambda: None)
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(WAIT)
    assert pool.stop(WAIT) == []


def test_work_that_was_admitted_is_done_by_who_brings_it_where_nobody_else_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, ran = pool_of(1), SimpleQueue[int]()

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        pool.resume(lambda: ran.put(threading.get_ident()))
    assert ran.get(timeout=WAIT) == threading.get_ident()
    assert pool.stop(WAIT) == []


def test_work_in_a_lent_place_is_done_by_its_lender_where_the_system_gives_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, ran = pool_of(1), SimpleQueue[int]()

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        pool.lend(lambda: ran.put(threading.get_ident()))
        pool.take_back()
    assert ran.get(timeout=WAIT) == threading.get_ident()
    pool.submit(lambda: ran.put(0))
    assert ran.get(timeout=WAIT) == 0
    assert pool.stop(WAIT) == []


def test_sweeping_duds_out_keeps_tasks_in_order_and_is_not_done_for_tasks_alone() -> None:
    small = pool_of(1, queue=10)
    gate, ran = Gate(), SimpleQueue[int]()
    small.submit(gate)
    gate.started.get(timeout=WAIT)
    for number in range(500):
        small.resume(partial(ran.put, number))
        last = small.submit(lambda: None)
        # Behind the dud there is always a task, so that only a sweep takes it out.
        small.resume(partial(ran.put, 1000 + number))
        assert last.take()
    assert len(small._backlog) < 3 * 1000 + 200
    gate.open.set()
    found = [ran.get(timeout=WAIT) for _ in range(1000)]
    assert found == [number + late for number in range(500) for late in (0, 1000)]
    assert small.stop(WAIT) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_stop_comes_back_when_everything_queued_before_it_has_run(seed: int) -> None:
    rng = random.Random(seed)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(60):
            pool = pool_of(rng.randint(1, 3), idle=0.001)
            done = SimpleQueue[int]()
            for number in range(3):
                pool.resume(partial(done.put, number))
            assert pool.stop(WAIT) == []
            assert done.qsize() == 3
    finally:
        sys.setswitchinterval(switch)


def test_a_lent_task_is_done_ahead_of_all_that_wait_and_before_one_lent_later(pool: WorkerPool) -> None:
    busy, held, ran = Gate(), Gate(), SimpleQueue[object]()
    for _ in range(4):
        pool.submit(busy)
    for _ in range(4):
        busy.started.get(timeout=WAIT)
    for number in range(5):
        pool.resume(partial(ran.put, number))

    pool.lend(held)
    held.started.get(timeout=WAIT)
    pool.lend(partial(ran.put, "lent"))

    assert [ran.get(timeout=WAIT) for _ in range(6)] == ["lent", 0, 1, 2, 3, 4]
    held.open.set()
    busy.open.set()
    for _ in range(2):
        pool.take_back()


def test_lent_tasks_keep_their_order_and_their_duds_do_not_pile_up() -> None:
    backlog, ran = Backlog(lambda: None), list[str]()
    backlog.put(partial(ran.append, "waits"), None)
    items = [backlog.put_first(partial(ran.append, name)) for name in ("first", "second", "third")]

    for item in items[1:]:
        assert item.take()
    assert len(backlog) == 2
    assert backlog.has_task()
    while (task := backlog.next_task()) is not None:
        task()

    assert ran == ["first", "waits"]
    assert not backlog.has_task()


@pytest.mark.parametrize("seed", range(10))
def test_no_schedule_strands_a_lent_task(seed: int) -> None:
    rng = random.Random(seed)
    workers = rng.randint(1, 3)
    pool = pool_of(workers, idle=0.001)
    for _ in range(60):
        lent = rng.randint(1, 3)
        barrier = threading.Barrier(workers + lent + 1)
        for _ in range(rng.randint(0, 4)):
            pool.submit(lambda: None).take()
        for _ in range(lent):
            item = pool.lend(partial(met, barrier))
            if rng.random() < 0.3 and item.take() is not None:
                item = pool.lend(partial(met, barrier))
                pool.take_back()
        for _ in range(workers):
            pool.submit(partial(met, barrier))
        barrier.wait(WAIT)
        for _ in range(lent):
            pool.take_back()
    assert pool.stop(WAIT) == []
    assert len(pool._unborn) - len(pool._retiring) == workers


def refused(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_without_threads_work_that_brings_more_work_is_done_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More of them than calls fit on a stack.
    pool, ran, many = pool_of(2), list[int](), sys.getrecursionlimit() + 100

    def bring(left: int) -> None:
        if left:
            pool.resume(partial(bring, left - 1))
        ran.append(left)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        pool.resume(partial(bring, many))
    assert ran == list(range(many, -1, -1))
    assert pool.stop(WAIT) == []


def test_who_is_refused_a_worker_does_the_work_that_counted_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, ran = pool_of(2), list[str]()

    def refused_while_work_comes(thread: threading.Thread) -> None:
        if not ran:
            ran.append("asked")
            # As another thread would: it sees that somebody sends for a worker already.
            pool.resume(partial(ran.append, "resumed"))
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused_while_work_comes)
        with pytest.raises(RouterBusyError, match="no more threads"):
            pool.submit(partial(ran.append, "submitted"))
    assert ran == ["asked", "resumed"]
    assert pool.stop(WAIT) == []


def test_a_stand_in_leaves_the_rest_to_a_worker_as_soon_as_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, ran, start = pool_of(1), SimpleQueue[int](), threading.Thread.start
    gate = Gate()

    def first() -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        pool.resume(gate)
        gate.started.get(timeout=WAIT)
        pool.resume(lambda: ran.put(threading.get_ident()))

    monkeypatch.setattr(threading.Thread, "start", refused)
    pool.resume(first)
    gate.open.set()
    assert ran.get(timeout=WAIT) != threading.get_ident()
    assert pool.stop(WAIT) == []


def test_who_is_born_to_a_lent_task_does_it_though_a_place_is_still_owed() -> None:
    pool, gate, done = pool_of(1), Gate(), threading.Event()
    pool.submit(gate)
    pool.lend(gate)
    for _ in range(2):
        gate.started.get(timeout=WAIT)
    # Both are held up: the place comes back from whoever has nothing in hand next.
    pool.take_back()

    pool.lend(done.set)

    assert done.wait(WAIT)
    pool.take_back()
    gate.open.set()
    assert pool.stop(WAIT) == []
