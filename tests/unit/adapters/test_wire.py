"""Socket waits under a Limit."""

import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from turnout.adapters.wire import Here, LimitedBackend, Watch, Wire
from turnout.clock import SystemClock
from turnout.deadline import Limit

Pair = tuple[socket.socket, socket.socket]
CLOCK = SystemClock()


class Core:
    """httpcore's exceptions, by their names."""

    class ReadTimeout(Exception): ...

    class WriteTimeout(Exception): ...

    class ConnectTimeout(Exception): ...

    class ReadError(Exception): ...

    class WriteError(Exception): ...

    class ConnectError(Exception): ...


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def limit_of(seconds: float) -> Limit:
    return Limit(CLOCK.monotonic() + seconds, CLOCK)


def watched(watch: Watch | None, sock: socket.socket) -> Wire:
    here = Here()
    here.watch = watch
    return Wire(sock, here, Core)


def test_a_read_ends_when_the_limit_does(pair: Pair) -> None:
    watch = Watch(limit_of(0.05))
    with pytest.raises(Core.ReadTimeout):
        watched(watch, pair[0]).read(10, timeout=60.0)
    assert watch.over


def test_a_limit_that_is_over_does_not_wait_at_all(pair: Pair) -> None:
    watch = Watch(limit_of(-1.0))
    pair[1].sendall(b"there is something")
    with pytest.raises(Core.ReadTimeout):
        watched(watch, pair[0]).read(10)
    assert watch.over


@pytest.mark.parametrize(
    ("own", "asked", "seconds"),
    [(True, 5.0, 100.0), (False, 5.0, 5.0), (False, 500.0, 100.0), (False, None, 100.0)],
)
def test_each_wait_gets_the_smaller_time_unless_the_limit_alone_counts(
    pair: Pair, own: bool, asked: float | None, seconds: float
) -> None:
    pair[1].sendall(b"x")
    watched(Watch(limit_of(100.0), own=own), pair[0]).read(1, timeout=asked)
    assert pair[0].gettimeout() == pytest.approx(seconds, rel=0.2)


def test_a_timeout_that_is_not_the_limits_is_not_taken_for_it(pair: Pair) -> None:
    watch = Watch(limit_of(100.0), own=False)
    with pytest.raises(Core.ReadTimeout):
        watched(watch, pair[0]).read(1, timeout=0.02)
    assert not watch.over


def test_a_cut_wakes_a_blocked_read(pair: Pair) -> None:
    limit = limit_of(100.0)
    wire = watched(None, pair[0])
    watch = Watch(limit)
    blocked = threading.Event()
    raised: list[type[BaseException]] = []

    def read() -> None:
        wire._here.watch = watch
        blocked.set()
        try:
            wire.read(10)
        except Core.ReadTimeout as error:
            raised.append(type(error))

    reader = threading.Thread(target=read)
    reader.start()
    blocked.wait(10)
    limit.cut("cancelled")
    reader.join(10)
    assert raised == [Core.ReadTimeout]


def test_a_cut_outranks_data_that_came_with_it(pair: Pair) -> None:
    limit = limit_of(100.0)
    watch = Watch(limit)

    def cut_and_read() -> bytes:
        limit.cut("cancelled")
        return b"an answer that nobody wants any more"

    with pytest.raises(TimeoutError):
        watch.run(pair[0], None, cut_and_read)


def test_a_cut_before_the_wait_refuses_it_and_spares_the_socket(pair: Pair) -> None:
    limit = limit_of(100.0)
    watch = Watch(limit)
    limit.cut("cancelled")
    with pytest.raises(Core.ReadTimeout):
        watched(watch, pair[0]).read(1)
    pair[1].sendall(b"y")
    assert pair[0].recv(1) == b"y"


def test_a_late_cut_spares_the_attempt_that_has_the_socket_now(pair: Pair) -> None:
    ours, theirs = pair
    old, new = limit_of(100.0), limit_of(100.0)
    theirs.sendall(b"1")
    assert watched(Watch(old), ours).read(1) == b"1"
    later = Watch(new)

    def cut_the_old_one() -> bytes:
        old.cut("cancelled")
        theirs.sendall(b"2")
        return ours.recv(1)

    assert later.run(ours, None, cut_the_old_one) == b"2"


def test_a_limit_that_was_let_go_bounds_nothing_and_holds_nothing(pair: Pair) -> None:
    limit = limit_of(-1.0)
    watch = Watch(limit)
    watch.let_go()
    limit.cut("cancelled")
    pair[1].sendall(b"x")
    assert watched(watch, pair[0]).read(1, timeout=5.0) == b"x"


def test_a_peer_that_does_not_read_cannot_hold_up_a_write(pair: Pair) -> None:
    watch = Watch(limit_of(0.1))
    with pytest.raises(Core.WriteTimeout):
        watched(watch, pair[0]).write(bytes(64 * 1024 * 1024))
    assert watch.over


def test_a_write_goes_out_whole(pair: Pair) -> None:
    ours, theirs = pair
    data = bytes(range(256)) * 4096
    received = bytearray()

    def take() -> None:
        while len(received) < len(data):
            received.extend(theirs.recv(65536))

    taker = threading.Thread(target=take)
    taker.start()
    watched(Watch(limit_of(50.0)), ours).write(data)
    taker.join(10)
    assert bytes(received) == data


def test_a_closed_connection_reads_as_an_error_of_the_core(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()
    wire = watched(None, ours)
    assert wire.get_extra_info("is_readable")
    assert wire.read(1) == b""
    wire.close()
    assert wire.get_extra_info("is_readable")
    with pytest.raises(Core.ReadError):
        wire.read(1)
    with pytest.raises(Core.WriteError):
        wire.write(b"x")


def test_an_idle_open_connection_is_not_readable(pair: Pair) -> None:
    assert not watched(None, pair[0]).get_extra_info("is_readable")


def backend(watch: Watch | None = None) -> LimitedBackend:
    here = Here()
    here.watch = watch
    return LimitedBackend(here, Core)


def test_a_connection_is_opened_with_its_options() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        wire = backend().connect_tcp(
            "127.0.0.1", port, timeout=5.0, local_address="127.0.0.1",
            socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)],
        )  # fmt: skip
        sock = wire.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert wire.get_extra_info("server_addr")[1] == port
        assert wire.get_extra_info("ssl_object") is None
        wire.close()


def test_a_refused_connection_is_a_connect_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Core.ConnectError):
        backend().connect_tcp("127.0.0.1", port, timeout=5.0)


def test_a_connect_ends_when_the_limit_does() -> None:
    watch = Watch(limit_of(-1.0))
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Core.ConnectTimeout):
        backend(watch).connect_tcp("127.0.0.1", server.getsockname()[1])
    assert watch.over


def test_a_tls_handshake_that_nobody_answers_ends_when_the_limit_does() -> None:
    watch = Watch(limit_of(0.1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        wire = backend(watch).connect_tcp("127.0.0.1", server.getsockname()[1])
        with pytest.raises(Core.ConnectTimeout):
            wire.start_tls(ssl.create_default_context(), "localhost")
    assert watch.over


def test_a_handshake_with_someone_who_speaks_no_tls_is_a_connect_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        wire = backend().connect_tcp("127.0.0.1", server.getsockname()[1], timeout=5.0)
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"220 this is mail\r\n")
            with pytest.raises(Core.ConnectError):
                wire.start_tls(ssl.create_default_context(), "localhost", timeout=5.0)


def test_cuts_and_reads_that_race_lose_neither() -> None:
    """Whichever comes first, the read ends: no cut falls between the look at the reason and the wait."""
    for _ in range(300):
        ours, theirs = socket.socketpair()
        limit = limit_of(30.0)
        watch = Watch(limit)
        ended: list[bool] = []
        reader = threading.Thread(target=_read_to_the_cut, args=(ours, watch, ended))
        reader.start()
        limit.cut("cancelled")
        reader.join(10)
        assert ended == [False]
        ours.close()
        theirs.close()


def _read_to_the_cut(sock: socket.socket, watch: Watch, ended: list[bool]) -> None:
    try:
        watched(watch, sock).read(1)
    except Core.ReadTimeout:
        ended.append(watch.over)
