"""What is done in the place of workers that the system gives no thread for."""

from collections.abc import Callable, Collection

from turnout.runtime.backlog import Backlog, run
from turnout.runtime.tokens import Tokens


class StandIn:
    """Where a pool has no worker, and gets none, whoever brings work that was admitted already does what waits. One
    thread at a time: work that brings more work only queues it, however long that goes on."""

    def __init__(self, backlog: Backlog, summon: Callable[[], bool], workers: Collection[int]) -> None:
        self._backlog = backlog
        self._summon = summon
        self._workers = workers
        self._role = Tokens(1)

    def __call__(self) -> None:
        """Do here what waits, until there is a worker for it."""
        while not self._workers and self._backlog.has_task() and self._role.take():
            try:
                while not self._workers and (task := self._backlog.next_task()) is not None:
                    run(task)
                    # Not kept while the next is done.
                    del task
                    if self._backlog and self._summon():
                        break
            finally:
                self._role.give()
