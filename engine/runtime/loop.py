"""One event loop on one thread, for providers whose ``invoke`` is async."""

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Awaitable
from typing import Any

from turnout.runtime.once import Once


class EventLoop:
    """Runs awaitables for threads that cannot. The thread starts with the first one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ready = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._first_use = Once()
        self._loop: asyncio.AbstractEventLoop | None = None

    def owns_this_thread(self) -> bool:
        return threading.current_thread() is self.thread

    def start(self) -> None:
        """Nothing to do: the thread starts with the first awaitable."""

    def run(
        self, awaitable: Awaitable[Any], context: contextvars.Context
    ) -> "concurrent.futures.Future[Any]":
        """Await on the loop, in ``context``. Cancelling the future that is given back cancels the task."""
        if self._first_use():
            self.thread.start()
        self._ready.wait(5.0)
        loop = self._loop
        if loop is None:
            raise RuntimeError(f"{self.name} did not start")
        # The task of run_coroutine_threadsafe takes the context of the callback that makes it.
        return context.copy().run(asyncio.run_coroutine_threadsafe, _awaited(awaitable), loop)

    def stop(self, timeout_seconds: float) -> list[str]:
        """Cancel what still runs, and end."""
        if self._first_use():
            return []
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        self.thread.join(timeout_seconds)
        return [self.name] if self.thread.is_alive() else []

    def _run(self) -> None:
        # The runner cancels and awaits what is left, then closes the loop.
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            self._loop = loop
            self._ready.set()
            loop.run_forever()


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except (SystemExit, KeyboardInterrupt) as raised:
        # asyncio would end the loop with it, and every other call of this router.
        raise RuntimeError(f"{type(raised).__name__} was raised by an async call") from raised
