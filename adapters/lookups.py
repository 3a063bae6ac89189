"""Name lookups that a Limit can end.

The system's resolver cannot be interrupted, and may take half a minute. So each lookup is made on a thread of its own,
and whoever needs it waits on a socket, which obeys the Limit as every other wait on the wire does.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from ipaddress import ip_address
from typing import Any

#: What ``socket.getaddrinfo`` gives for one address.
Address = tuple[Any, Any, int, str, Any]
#: Waits on a socket within some bound: ``wait_on(sock, wait)`` gives back what ``wait()`` does.
WaitOn = Callable[[socket.socket, Callable[[], object]], object]


class _Lookup:
    """One name on its way. Of who waits, each leaves a socket here; closing it is what wakes him."""

    __slots__ = ("found", "waking")

    def __init__(self) -> None:
        self.found: list[Address] | OSError | None = None
        self.waking: list[socket.socket] = []

    def end(self, found: list[Address] | OSError) -> None:
        if self.found is None:
            self.found = found
        # Who comes from now on looks at that first.
        with suppress(IndexError):
            while True:
                self.waking.pop().close()


class Lookups:
    """The lookups under way. Who asks for a name that is being looked up waits for the same answer: a resolver that
    hangs holds one thread for each name, however many calls there are. Such a thread ends with its lookup."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], _Lookup] = {}

    def addresses(self, host: str, port: int, wait_on: WaitOn) -> list[Address]:
        """The addresses of a host. Raises OSError where it has none, and what ``wait_on`` raises."""
        if _needs_no_resolver(host):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        mine = _Lookup()
        lookup = self._under_way.setdefault((host, port), mine)
        if lookup is mine:
            self._begin(host, port, mine)
        if lookup.found is None:
            _wait(lookup, wait_on)
        found = lookup.found
        if isinstance(found, list):
            return found
        # One for each who asked: an error keeps the frames that it comes through.
        raise OSError(f"the lookup of {host} was given up") if found is None else type(found)(*found.args)

    def _begin(self, host: str, port: int, lookup: _Lookup) -> None:
        def look_up() -> None:
            found = _looked_up(host, port)
            # First: who asks from now on has a lookup of its own.
            self._under_way.pop((host, port), None)
            lookup.end(found)

        try:
            threading.Thread(target=look_up, name=f"turnout-lookup-{host}", daemon=True).start()
        except RuntimeError:
            # The system gives no thread: unbounded is better than not at all.
            look_up()
        except BaseException:
            # Interrupted: whether anybody looks up is not known.
            self._under_way.pop((host, port), None)
            lookup.end(OSError(f"the lookup of {host} was interrupted"))
            raise


def _wait(lookup: _Lookup, wait_on: WaitOn) -> None:
    waiting, waking = socket.socketpair()
    with closing(waiting), closing(waking):
        lookup.waking.append(waking)
        try:
            # It may have ended just before.
            if lookup.found is None:
                wait_on(waiting, lambda: waiting.recv(1))
        finally:
            with suppress(ValueError):
                lookup.waking.remove(waking)


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
