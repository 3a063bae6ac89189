"""Name lookups under a Limit."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from turnout.adapters import lookups
from turnout.adapters.lookups import Lookups
from turnout.adapters.wire import Here, LimitedBackend, Watch
from turnout.clock import SystemClock
from turnout.deadline import Limit

CLOCK = SystemClock()
FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))]


class Core:
    """The two of httpcore's exceptions that a connection may end in, by their names."""

    class ConnectTimeout(Exception): ...

    class ConnectError(Exception): ...


class Resolver:
    """Answers once it may; tells when it is asked."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[str] = SimpleQueue()
        self.may_answer = threading.Event()
        self.answer: Any = FOUND

    def __call__(self, host: str, port: int, **kind: Any) -> Any:
        self.begun.put(host)
        self.may_answer.wait(30)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.may_answer.set()


def wait_on(sock: socket.socket, wait: Callable[[], object]) -> object:
    return Here().run(sock, 30.0, wait)


def connected(watch: Watch, host: str) -> None:
    here = Here()
    here.watch = watch
    LimitedBackend(here, Core).connect_tcp(host, 80, timeout=60.0)


def test_a_lookup_that_hangs_is_left_when_the_limit_is_over(resolver: Resolver) -> None:
    watch = Watch(Limit(CLOCK.monotonic() + 0.05, CLOCK))
    with pytest.raises(Core.ConnectTimeout):
        connected(watch, "slow.test")
    assert watch.over


def test_who_leaves_a_lookup_that_hangs_leaves_no_socket_behind(resolver: Resolver) -> None:
    shared = Lookups()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            shared.addresses("slow.test", 80, lambda sock, wait: Here().run(sock, 0.01, wait))
    (lookup,) = shared._under_way.values()
    assert lookup.waking == []


def test_a_lookup_whose_start_is_interrupted_keeps_nobody_waiting(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def __init__(self, **known: Any) -> None: ...

        def start(self) -> None:
            raise KeyboardInterrupt

    resolver.may_answer.set()
    shared = Lookups()
    with monkeypatch.context() as interrupted:
        interrupted.setattr(lookups.threading, "Thread", Interrupted)  # type: ignore[attr-defined]
        with pytest.raises(KeyboardInterrupt):
            shared.addresses("name.test", 80, wait_on)
    assert shared.addresses("name.test", 80, wait_on) == FOUND


def test_a_cut_ends_the_wait_for_a_lookup(resolver: Resolver) -> None:
    limit = Limit(CLOCK.monotonic() + 60.0, CLOCK)
    watch = Watch(limit)
    with ThreadPoolExecutor(1) as other:
        call = other.submit(connected, watch, "slow.test")
        resolver.begun.get(timeout=10)
        limit.cut("cancelled")
        assert isinstance(call.exception(timeout=10), Core.ConnectTimeout)


def two_ask(shared: Lookups, resolver: Resolver) -> list["Future[Any]"]:
    """Two who ask for one name; the answer comes once both wait for it."""

    def wait_and_tell(sock: socket.socket, wait: Callable[[], object]) -> object:
        resolver.may_answer.set()
        return wait_on(sock, wait)

    with ThreadPoolExecutor(2) as callers:
        first = callers.submit(shared.addresses, "name.test", 80, wait_on)
        resolver.begun.get(timeout=10)
        return [first, callers.submit(shared.addresses, "name.test", 80, wait_and_tell)]


def test_all_who_want_a_name_wait_for_one_lookup_of_it(resolver: Resolver) -> None:
    shared = Lookups()
    assert [call.result() for call in two_ask(shared, resolver)] == [FOUND] * 2
    assert resolver.begun.empty()
    assert not shared._under_way


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_an_address_takes_no_thread(resolver: Resolver, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    resolver.may_answer.set()
    monkeypatch.setattr(lookups.threading, "Thread", None)  # type: ignore[attr-defined]
    assert Lookups().addresses(host, 80, wait_on) == FOUND


def test_where_no_thread_is_to_be_had_the_caller_looks_up_for_itself(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused:
        def __init__(self, **known: Any) -> None: ...

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    resolver.may_answer.set()
    monkeypatch.setattr(lookups.threading, "Thread", Refused)  # type: ignore[attr-defined]
    assert Lookups().addresses("name.test", 80, wait_on) == FOUND


def test_each_who_asks_gets_the_resolvers_refusal_as_an_error_of_its_own(resolver: Resolver) -> None:
    resolver.answer = socket.gaierror(socket.EAI_NONAME, "no such name")
    first, second = (call.exception() for call in two_ask(Lookups(), resolver))
    assert repr(first) == repr(second) == repr(resolver.answer)
    assert first is not second


def test_a_host_that_is_no_name_is_an_error_of_the_connection() -> None:
    with pytest.raises(Core.ConnectError, match="cannot be looked up"):
        connected(Watch(None), "x" * 64 + ".test")


def test_an_address_of_a_kind_that_this_machine_cannot_speak_to_is_passed_over(resolver: Resolver) -> None:
    with socket.socket() as open_:
        open_.bind(("127.0.0.1", 0))
        open_.listen()
        resolver.answer = [(9_999, *FOUND[0][1:]), (*FOUND[0][:4], open_.getsockname())]
        resolver.may_answer.set()
        wire = LimitedBackend(Here(), Core).connect_tcp("both.test", 80, timeout=10.0)
        assert wire.get_extra_info("server_addr") == open_.getsockname()
        wire.close()


def test_an_address_that_answers_nothing_leaves_time_for_the_next(resolver: Resolver) -> None:
    with socket.socket() as full, socket.socket() as open_, socket.socket() as taking:
        # A backlog that is full answers no further connection.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        taking.connect(full.getsockname())
        open_.bind(("127.0.0.1", 0))
        open_.listen()
        silent, live = full.getsockname(), open_.getsockname()
        resolver.answer = [(*FOUND[0][:4], silent), (*FOUND[0][:4], live)]
        resolver.may_answer.set()
        here = Here()
        here.watch = Watch(Limit(CLOCK.monotonic() + 2.0, CLOCK))
        wire = LimitedBackend(here, Core).connect_tcp("both.test", 80)
        assert wire.get_extra_info("server_addr") == live
        wire.close()
