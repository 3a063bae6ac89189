"""Name lookups that a Limit can end.

The system's resolver cannot be interrupted, and may take half a minute. So each lookup is made on a thread of its own,
and whoever needs it waits on a socket, which obeys the Limit as every other wait on the wire does.
"""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from ipaddress import ip_address
from typing import Any

#: What ``socket.getaddrinfo`` gives for one address.
Address = tuple[Any, Any, int, str, Any]
#: Waits on a socket within some bound: ``wait_on(sock, wait)`` gives back what ``wait()`` does.
WaitOn = Callable[[socket.socket, Callable[[], object]], object]


class Lookups:
    """The lookups under way. Who asks for a name that is being looked up waits for the same answer: a resolver that
    hangs holds one thread for each name, however many calls there are. Such a thread ends with its lookup."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], Future[list[Address] | OSError]] = {}

    def addresses(self, host: str, port: int, wait_on: WaitOn) -> list[Address]:
        """The addresses of a host. Raises OSError where it has none, and what ``wait_on`` raises."""
        if _needs_no_resolver(host):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        mine: Future[list[Address] | OSError] = Future()
        lookup = self._under_way.setdefault((host, port), mine)
        if lookup is mine:
            self._begin(host, port, mine)
        waiting, woken_by = socket.socketpair()
        with closing(waiting):
            # Closed with the lookup's end, the other end wakes this one.
            lookup.add_done_callback(lambda _: woken_by.close())
            wait_on(waiting, lambda: waiting.recv(1))
        found = lookup.result(timeout=0)
        if isinstance(found, OSError):
            # One for each who asked: an error keeps the frames that it comes through.
            raise type(found)(*found.args)
        return found

    def _begin(self, host: str, port: int, lookup: "Future[list[Address] | OSError]") -> None:
        def look_up() -> None:
            found = _looked_up(host, port)
            # First: who asks from now on has a lookup of its own.
            self._under_way.pop((host, port), None)
            lookup.set_result(found)

        try:
            threading.Thread(target=look_up, name=f"turnout-lookup-{host}", daemon=True).start()
        except RuntimeError:
            # The system gives no thread: unbounded is better than not at all.
            look_up()


def _looked_up(host: str, port: int) -> list[Address] | OSError:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error.with_traceback(None)
    except Exception as error:
        return OSError(f"{host} cannot be looked up: {error}")


def _needs_no_resolver(host: str) -> bool:
    """Whether a host is an address already, or the machine itself."""
    try:
        return host == "localhost" or bool(ip_address(host))
    except ValueError:
        return False
