"""What runs on a router's own threads can neither close it nor end them."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import (
    ApiProtocol,
    CallType,
    CallVariant,
    ProviderRouter,
    ReentrantCallError,
    RouterClosedError,
    RouterExhaustedError,
    StorageError,
)
from turnout.storage.memory import MemoryMetricsStore
from turnout.testing import ScriptedAdapters

LONG_AGO = datetime.fromtimestamp(0, UTC)


class Closing:
    """Closes its router where it is called, and says what came of it."""

    def __init__(self) -> None:
        self.router: Any = None
        self.told: SimpleQueue[BaseException | None] = SimpleQueue()

    def __call__(self, *_: Any) -> str:
        try:
            self.router.close()
        except BaseException as error:
            self.told.put(error)
        else:
            self.told.put(None)
        return "answer"

    def order(self, eligible: Sequence[Any], context: Any) -> Sequence[Any]:
        self()
        return eligible

    def was_refused(self) -> bool:
        return isinstance(self.told.get(timeout=30), ReentrantCallError)


def closes(router: Any, rig: Any) -> bool:
    router.close()
    with pytest.raises(RouterClosedError):
        router.invoke(rig.chat())
    return True


def test_an_adapter_on_a_worker_cannot_close_its_router_and_a_later_close_works(rig: Any) -> None:
    closing = Closing()
    router = closing.router = rig.scripted(ScriptedAdapters({"a": [closing]}), "a")

    assert router.submit(rig.chat()).result(30) == "answer"

    assert closing.was_refused()
    assert closes(router, rig)


def test_a_done_callback_on_a_worker_cannot_close_its_router_and_a_later_close_works(rig: Any) -> None:
    closing, go_on = Closing(), threading.Event()

    def wait(call: Any) -> str:
        assert go_on.wait(30)
        return "answer"

    router = closing.router = rig.scripted(ScriptedAdapters({"a": [wait]}), "a")
    future = router.submit(rig.chat())
    future.add_done_callback(closing)
    go_on.set()

    assert future.result(30) == "answer"
    assert closing.was_refused()
    assert closes(router, rig)


def test_a_policy_cannot_close_its_router_and_a_later_close_works(rig: Any) -> None:
    closing = Closing()
    router = closing.router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", policy=closing)

    assert router.invoke(rig.chat()) == "a"

    assert closing.was_refused()
    assert closes(router, rig)


class Raising(MemoryMetricsStore):
    """Raises what it was given, one at each write, before it keeps rows."""

    def __init__(self, *errors: BaseException) -> None:
        super().__init__()
        self._errors = list(errors)

    def record_attempts(self, attempts: Any) -> None:
        if self._errors:
            raise self._errors.pop()
        super().record_attempts(attempts)


@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_a_store_that_raises_an_exit_does_not_end_the_ledger(rig: Any, raised: type[BaseException]) -> None:
    store = Raising(raised())
    router = rig.scripted(ScriptedAdapters({"a": ["a"]}), "a", metrics_store=store)
    router.invoke(rig.chat())
    router.flush(5.0)
    router.invoke(rig.chat())

    assert router.flush(5.0)
    assert len(store.query_recent(since=LONG_AGO)) == 2


class Closeable(Raising):
    """Fails at every write until the close has come, and then as often as it was told to."""

    closing = False

    def record_attempts(self, attempts: Any) -> None:
        if not self.closing:
            raise StorageError("busy")
        super().record_attempts(attempts)


def test_a_store_that_is_busy_for_a_moment_at_close_gets_the_rows(rig: Any) -> None:
    store = Closeable(StorageError("busy"), StorageError("busy"))
    router = rig.scripted(
        ScriptedAdapters({"a": ["a"]}), "a", metrics_store=store, ledger={"flush_seconds": 60.0}
    )
    for _ in range(10):
        router.invoke(rig.chat())

    store.closing = True
    router.close()

    assert len(store.query_recent(since=LONG_AGO)) == 10
    assert router.stats().ledger.written == 10


def test_a_policy_that_raises_an_exit_is_fallen_back_from_and_asked_again(rig: Any) -> None:
    asked: list[int] = []

    class Exiting:
        def order(self, eligible: Sequence[Any], context: Any) -> Sequence[Any]:
            asked.append(len(eligible))
            if len(asked) == 1:
                raise SystemExit(1)
            return eligible[::-1]

    router = rig.scripted(ScriptedAdapters({"a": ["a"], "b": ["b"]}), "ab", policy=Exiting())

    assert [router.invoke(rig.chat()) for _ in range(3)] == ["a", "b", "b"]
    assert asked == [2, 2, 2]


def test_an_async_adapter_that_raises_an_exit_fails_its_own_call_only(rig: Any) -> None:
    async def leave(call: Any) -> str:
        raise SystemExit(3)

    async def answer(call: Any) -> str:
        return "answer"

    router = rig.scripted(ScriptedAdapters({"a": [leave, answer]}), "a")

    with pytest.raises(RouterExhaustedError, match="SystemExit"):
        router.invoke(rig.chat(), timeout=20.0)
    assert router.invoke(rig.chat(), timeout=20.0) == "answer"
    assert router.submit(rig.chat()).result(20) == "answer"


def test_close_from_a_call_made_by_the_waiting_thread_itself_is_refused_at_once() -> None:
    refused: list[Exception] = []

    class Closing:
        def invoke(self, operation: str, arguments: Any) -> str:
            try:
                router.close()
            except ReentrantCallError as error:
                refused.append(error)
            return "answer"

    router = ProviderRouter(
        [{"provider_id": "p", "name": "p", "protocol": "openai_chat", "model": "m", "api_key": "k"}],
        adapter_factory=lambda config: Closing(),
        metrics_store=None,
    )
    call = CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, {})
    assert router.submit(call).result() == "answer"
    assert len(refused) == 1
    router.close()
