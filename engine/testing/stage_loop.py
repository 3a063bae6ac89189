"""Awaitables without an event loop."""

from collections.abc import Awaitable, Generator
from concurrent.futures import Future
from contextvars import Context
from typing import Any, Final

from turnout.testing.stage_order import Order


class Pause:
    """Await one in an async provider of a stage: others may come first. ``SILENCE`` lasts until the call is cut."""

    def __await__(self) -> Generator["Pause", None, None]:
        yield self


SILENCE: Final = Pause()


class StageLoop:
    """Runs coroutines from pause to pause, each an event of its own. They may await nothing but pauses."""

    ended = False

    def __init__(self, order: Order) -> None:
        self._order = order

    def owns_this_thread(self) -> bool:
        return False

    def run(self, awaitable: Awaitable[Any], context: Context) -> "Future[Any]":
        """Cancelling the future that is given back ends the coroutine."""
        future: Future[Any] = Future()
        steps = awaitable.__await__()
        inside = context.copy()

        def go_on() -> None:
            if future.done():
                return
            try:
                awaited = inside.run(next, steps)
            except StopIteration as end:
                future.set_result(end.value)
            except Exception as error:
                future.set_exception(error)
            else:
                if awaited is not SILENCE:
                    self._order.soon("loop", go_on)

        def end(future: "Future[Any]") -> None:
            if future.cancelled() and isinstance(steps, Generator):
                self._order.soon("loop ends a task", steps.close)

        future.add_done_callback(end)
        self._order.soon("loop", go_on)
        return future
