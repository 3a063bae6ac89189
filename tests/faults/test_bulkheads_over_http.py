"""A provider that hangs takes its share of the pool, and no more: the others serve at full speed."""

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, as_completed, wait
from contextlib import ExitStack, suppress
from itertools import islice
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import ApiProtocol, CallType, CallVariant, Fault, ProviderRouter, RouterStream
from turnout.cli.sdk import load_sdk
from turnout.testing.simulator import Ending, ScriptLike, Silence, SimulatedProvider, Simulator, Stall

pytestmark = pytest.mark.slow

WORKERS = 64
SHARE = WORKERS // 2
CALLS = 500
WAIT = 60.0
#: Longer than any test: nothing that follows is due to a limit.
LONG_SECONDS = 300.0
#: Long enough for a request to be on its way, on a machine that has much else to do.
SHORT_SECONDS = 1.0


class Rig:
    """P, which does what it is told to, and F, which answers; P is always asked first."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.sim = stack.enter_context(Simulator([SimulatedProvider("P"), SimulatedProvider("F", text="F")]))

    def router(self, script: ScriptLike, timeout_seconds: float) -> ProviderRouter:
        self.sim.script("P", script)
        providers: list[dict[str, Any]] = [
            {
                "provider_id": name,
                "name": name,
                "protocol": "openai_chat",
                "model": "m",
                "api_key": "sk-simulated",
                "base_url": self.sim.base_url(name),
                "timeout_seconds": LONG_SECONDS if name == "F" else timeout_seconds,
            }
            for name in "PF"
        ]
        return self._stack.enter_context(
            ProviderRouter(providers, policy="preference", metrics_store=None, pool={"max_workers": WORKERS})
        )

    def open_at(self, provider: str) -> int:
        return sum(request.outcome is Ending.OPEN for request in self.sim.requests(provider))


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    # Before any limit runs.
    load_sdk()
    with ExitStack() as stack:
        yield Rig(stack)


def call(*, stream: bool = False) -> list[CallVariant]:
    arguments: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
    return [
        CallVariant(
            protocol=ApiProtocol.OPENAI_CHAT,
            operation="chat.completions.create",
            call_type=CallType.STREAMING if stream else CallType.REGULAR,
            arguments={**arguments, "stream": True} if stream else arguments,
        )
    ]


def answered_by_f(future: "Future[Any]") -> bool:
    return bool(future.result(0).choices[0].message.content == "F")


def test_p_hangs_all_its_calls_64_workers_500_calls_and_f_serves_as_if_p_were_absent(rig: Rig) -> None:
    router = rig.router(Silence(), LONG_SECONDS)
    futures: list[Future[Any]] = [router.submit(call()) for _ in range(CALLS)]
    served = list(islice(as_completed(futures, WAIT), CALLS - SHARE))

    # P was asked for its share, and still has it: nobody was waited for, nor gave P up, to get here.
    assert all(answered_by_f(future) for future in served)
    assert (rig.sim.total("P"), rig.open_at("P"), rig.sim.total("F")) == (SHARE, SHARE, CALLS - SHARE)
    assert router.stats().workers <= WORKERS

    for future in futures:
        future.cancel()
    rig.sim.wait_for(lambda: rig.open_at("P") == 0)
    assert rig.sim.total("P") == SHARE


def test_p_hangs_all_its_calls_64_workers_500_threads_that_each_wait_for_their_own_and_f_serves_the_rest(
    rig: Rig,
) -> None:
    router = rig.router(Silence(), LONG_SECONDS)
    futures: SimpleQueue[Future[Any]] = SimpleQueue()
    ended: SimpleQueue[Future[Any]] = SimpleQueue()

    def wait_for_its_own() -> None:
        future = router.submit(call())
        futures.put(future)
        with suppress(CancelledError):
            future.result()
            ended.put(future)

    callers = [threading.Thread(target=wait_for_its_own) for _ in range(CALLS)]
    for caller in callers:
        caller.start()
    served = [ended.get(timeout=WAIT) for _ in range(CALLS - SHARE)]

    # Whoever waits may make its call itself, and takes of the share all the same.
    assert all(answered_by_f(future) for future in served)
    assert (rig.sim.total("P"), rig.open_at("P"), rig.sim.total("F")) == (SHARE, SHARE, CALLS - SHARE)

    while not futures.empty():
        futures.get().cancel()
    for caller in callers:
        caller.join(WAIT)
    assert not any(caller.is_alive() for caller in callers)
    rig.sim.wait_for(lambda: rig.open_at("P") == 0)


def test_calls_that_p_hung_are_served_by_f_at_ps_limit_and_p_is_left_alone(rig: Rig) -> None:
    router = rig.router(Silence(), SHORT_SECONDS)
    futures: list[Future[Any]] = [router.submit(call()) for _ in range(CALLS)]

    assert not wait(futures, WAIT).not_done

    assert all(answered_by_f(future) for future in futures)
    hung = [future for future in futures if future.report().attempts[0].by.name == "P"]  # type: ignore[attr-defined]
    assert {future.report().attempts[0].fault for future in hung} == {Fault.TIMEOUT}  # type: ignore[attr-defined]
    # Their time may have been over before some of them were on their way.
    assert 1 <= rig.sim.total("P") <= len(hung)
    assert rig.sim.total("F") == CALLS
    assert router.health_report()["P"].state.value == "open"


def test_streams_that_open_at_p_and_stall_keep_no_worker_from_f(rig: Rig) -> None:
    router = rig.router(Stall(0), LONG_SECONDS)
    streams: list[RouterStream] = [router.submit(call(stream=True)).result(WAIT) for _ in range(WORKERS)]
    readers = [threading.Thread(target=text_of, args=(stream, [])) for stream in streams]
    for reader in readers:
        reader.start()

    futures: list[Future[Any]] = [router.submit(call()) for _ in range(CALLS)]
    served = list(islice(as_completed(futures, WAIT), CALLS - SHARE))

    # All of P's streams are still open, and so is what it has of the calls: its share, beside the streams.
    assert all(answered_by_f(future) for future in served)
    assert (rig.sim.total("P"), rig.open_at("P")) == (WORKERS + SHARE, WORKERS + SHARE)
    assert rig.sim.total("F") == CALLS - SHARE

    for future in futures:
        future.cancel()
    for stream in streams:
        stream.close()
    for reader in readers:
        reader.join(WAIT)
    assert not any(reader.is_alive() for reader in readers)
    rig.sim.wait_for(lambda: rig.open_at("P") == 0)


def test_streams_that_p_stalls_are_started_over_at_f_at_ps_limit(rig: Rig) -> None:
    router = rig.router(Stall(0), SHORT_SECONDS)
    streams: list[RouterStream] = [router.submit(call(stream=True)).result(WAIT) for _ in range(WORKERS)]
    texts: list[str] = []
    readers = [threading.Thread(target=text_of, args=(stream, texts)) for stream in streams]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(WAIT)

    assert texts == ["F"] * WORKERS
    assert 1 <= rig.sim.total("P") <= sum(stream.report().attempts[0].by.name == "P" for stream in streams)
    assert rig.sim.total("F") == WORKERS
    assert router.health_report()["P"].state.value == "open"
    rig.sim.wait_for(lambda: rig.open_at("P") == 0)


def text_of(stream: RouterStream, texts: list[str]) -> None:
    """Read a stream to its end, and add what it said."""
    texts.append("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
