"""What becomes of an awaitable that a provider gave back: awaited on the loop, by whoever drives the walk."""

import asyncio
from concurrent.futures import CancelledError, Future
from typing import Any, Final

from turnout.errors import ReentrantCallError, RouterClosedError, TurnoutError
from turnout.runtime.contract import Runtime
from turnout.runtime.loop import closed
from turnout.runtime.steps import Await

#: The reason of a cut where nobody awaits what a provider gave back, or nobody any more: the walk ends with it.
NOT_AWAITED: Final = "not awaited"


def awaited_here(step: Await, runtime: Runtime) -> Any:
    """What it comes to, waited for on the calling thread. Raises also what ends the walk: the limit's reason is
    ``NOT_AWAITED`` then."""
    task = _task_of(step, runtime)
    step.limit.on_cut(task.cancel)
    try:
        return task.result(timeout=step.limit.remaining())
    except CancelledError:
        if loop_ended(step, runtime):
            raise not_to_be_awaited() from None
        raise TimeoutError("the call was cancelled") from None
    except asyncio.CancelledError as raised:
        # The adapter's own word for a cancel of its own; asyncio's would pass for ours.
        raise CancelledError(*raised.args) from None
    finally:
        # After an answer this does nothing; after a timeout or an interrupt it ends the task.
        task.cancel()
        step.limit.on_cut(None)
        # It keeps the error, and the error this frame.
        del task


def loop_ended(step: Await, runtime: Runtime) -> bool:
    """Whether what was awaited is cancelled because the loop ended under it. That is nobody's failure, and ends the
    walk: the limit's reason is ``NOT_AWAITED`` then."""
    limit = step.limit
    if not runtime.loop.ended or limit.reason is not None or limit.expired():
        return False
    limit.cut(NOT_AWAITED)
    return True


def not_to_be_awaited() -> RouterClosedError:
    """The error of a walk that ``loop_ended`` ends."""
    return RouterClosedError("the router was closed while an async call was made; build a new one")


def _task_of(step: Await, runtime: Runtime) -> "Future[Any]":
    try:
        if runtime.loop.owns_this_thread():
            closed(step.awaitable)
            raise ReentrantCallError(
                "async code of a provider cannot wait for another async call on the loop that runs both; "
                "await ainvoke() there"
            )
        return runtime.loop.run(step.awaitable, step.context)
    except TurnoutError:
        step.limit.cut(NOT_AWAITED)
        raise
