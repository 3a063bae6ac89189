"""Sockets that obey a Limit: every connect, handshake, read and write waits no longer than its attempt may.

An SDK's own timeout is per read, and closing a socket from another thread does not wake its reader. So each wait is
clamped to the attempt's Limit on the thread that waits, and a cut *shuts the socket down*, which does wake it.
"""

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from turnout.adapters.lookups import Lookups
from turnout.deadline import Limit

T = TypeVar("T")

#: How long one of a host's addresses is waited for while there are others: time for two more SYNs.
_ADDRESS_SECONDS: Final = 3.5


class Watch:
    """Ties one attempt's Limit to the socket that a thread waits on for it right now, and to no other.

    A socket is held only while a thread is inside one wait on it, so a cut that comes late can never reach a connection
    that has gone on to serve another attempt. ``own`` says that the Limit alone bounds each wait; otherwise the
    timeout given with the request does too. ``sent`` tells that a request was handed to the transport, ``over`` that a
    wait ended because the Limit's time was over.
    """

    __slots__ = ("_ended", "_lock", "_sock", "limit", "over", "own", "sent")

    def __init__(self, limit: Limit | None, *, own: bool = True) -> None:
        self.limit = limit
        self.own = own
        self.sent = False
        self.over = False
        self._ended = False
        self._sock: socket.socket | None = None
        # Between this attempt's reader and its cutter, and re-entrant for a cut out of a signal handler.
        self._lock = threading.RLock()
        if limit is not None:
            limit.on_cut(self.shut)

    def shut(self) -> None:
        """End the attempt's input and output now, from any thread; a blocked wait returns at once."""
        with self._lock:
            self._ended = True
            if self._sock is not None:
                # Not SSLSocket.shutdown: it takes the TLS state away from under the reader.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def let_go(self) -> None:
        """The attempt is over, or its answer is no longer watched: the Limit bounds nothing any more."""
        limit, self.limit = self.limit, None
        if limit is not None:
            limit.on_cut(None)

    def run(self, sock: socket.socket, timeout: float | None, wait: Callable[[], T], share: int = 1) -> T:
        """``wait()`` on ``sock``; raises TimeoutError once the Limit's time is over, or when it was cut. It may take
        its ``share`` of the time: a half where that is 2, and never long."""
        with self._lock:
            self._sock = sock
        try:
            if self._ended:
                raise TimeoutError("cut")
            seconds, ours = self._seconds(timeout)
            if ours and seconds is not None and seconds <= 0.0:
                self.over = True
                raise TimeoutError("the attempt's time is over")
            if share > 1:
                seconds, ours = _shared(seconds, share), False
            sock.settimeout(seconds)
            try:
                result = wait()
            except TimeoutError:
                self.over = ours
                raise
        finally:
            with self._lock:
                self._sock = None
        if self._ended:
            raise TimeoutError("cut")
        return result

    def _seconds(self, timeout: float | None) -> tuple[float | None, bool]:
        """How long the next wait may last, and whether that bound is the Limit's."""
        limit = self.limit
        if limit is None:
            return timeout, False
        left = limit.remaining()
        if self.own or timeout is None or left <= timeout:
            return left, True
        return timeout, False


class Here(threading.local):
    """The Watch that this thread's socket waits belong to; one object for each SDK client."""

    watch: Watch | None = None

    def run(self, sock: socket.socket, timeout: float | None, wait: Callable[[], T], share: int = 1) -> T:
        watch = self.watch
        if watch is not None:
            return watch.run(sock, timeout, wait, share)
        sock.settimeout(timeout if share == 1 else _shared(timeout, share))
        return wait()


def _shared(seconds: float | None, share: int) -> float:
    return _ADDRESS_SECONDS if seconds is None else min(seconds / share, _ADDRESS_SECONDS)


class Wire:
    """A network stream for httpcore (or httpcore2, given as ``core``) over one socket."""

    def __init__(self, sock: socket.socket, here: Here, core: Any) -> None:
        self._sock = sock
        self._here = here
        self._core = core

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        sock = self._sock
        try:
            return self._here.run(sock, timeout, lambda: sock.recv(max_bytes))
        except TimeoutError as error:
            raise self._core.ReadTimeout(error) from error
        except (OSError, ValueError) as error:
            raise self._core.ReadError(error) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        sock = self._sock
        rest = memoryview(buffer)
        try:
            while rest:
                rest = rest[self._here.run(sock, timeout, lambda part=rest: sock.send(part)) :]  # type: ignore[misc]
        except TimeoutError as error:
            raise self._core.WriteTimeout(error) from error
        except (OSError, ValueError) as error:
            raise self._core.WriteError(error) from error

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "Wire":
        """This stream under TLS. A proxy that is itself reached over TLS is refused: it would take TLS inside TLS."""
        if isinstance(self._sock, ssl.SSLSocket):
            self.close()
            raise self._core.ConnectError(
                "an https:// proxy cannot carry TLS here; name it as http:// or socks5://"
            )
        try:
            sock = ssl_context.wrap_socket(
                self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._sock = sock
            self._here.run(sock, timeout, sock.do_handshake)
        except TimeoutError as error:
            self.close()
            raise self._core.ConnectTimeout(error) from error
        except (OSError, ValueError) as error:
            self.close()
            raise self._core.ConnectError(error) from error
        except BaseException:
            self.close()
            raise
        return Wire(sock, self._here, self._core)

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "ssl_object":
                return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
            case "client_addr":
                return self._sock.getsockname()
            case "server_addr":
                return self._sock.getpeername()
            case "socket":
                return self._sock
            case "is_readable":
                return _readable(self._sock)
        return None


def _readable(sock: socket.socket) -> bool:
    """Whether a read would return at once; of an idle connection that means that the server hung up."""
    number = sock.fileno()
    if number < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


class LimitedBackend:
    """What httpcore's pools take as ``network_backend``: opens a Wire for each connection."""

    def __init__(self, here: Here, core: Any) -> None:
        self._here = here
        self._core = core
        self._lookups = Lookups()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[tuple[Any, ...]] | None = None,
    ) -> Wire:
        refusal: OSError | None = None
        try:
            addresses = self._lookups.addresses(
                host, port, lambda sock, wait: self._here.run(sock, timeout, wait)
            )
            for place, (family, kind, proto, _, address) in enumerate(addresses):
                sock: socket.socket | None = None
                try:
                    sock = socket.socket(family, kind, proto)
                    for option in socket_options or ():
                        sock.setsockopt(*option)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    if local_address is not None:
                        sock.bind((local_address, 0))
                    self._connect(sock, address, timeout, others=len(addresses) - place - 1)
                    return Wire(sock, self._here, self._core)
                except OSError as error:
                    # One that this machine cannot speak to is passed over, too.
                    refusal = error
                    if sock is not None:
                        sock.close()
                except BaseException:
                    if sock is not None:
                        sock.close()
                    raise
            raise refusal or OSError(f"no address for {host}")
        except TimeoutError as error:
            raise self._core.ConnectTimeout(error) from error
        except OSError as error:
            raise self._core.ConnectError(error) from error
        finally:
            refusal = None

    def _connect(self, sock: socket.socket, address: Any, timeout: float | None, *, others: int) -> None:
        # One that answers nothing must leave time for the others.
        self._here.run(sock, timeout, lambda: sock.connect(address), share=others + 1)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Any = None
    ) -> Wire:
        raise self._core.ConnectError("Unix sockets are not spoken here")

    def sleep(self, seconds: float) -> None:
        """Only a pool that retries connects asks for this, and ours never retries."""
        raise self._core.ConnectError("connects are not retried here")
