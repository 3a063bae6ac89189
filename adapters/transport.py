"""The HTTP transport under an SDK: httpcore's pool over sockets that obey a Limit.

One code for httpx with httpcore and for httpx2 with httpcore2; which of them comes from the installed SDK.
"""

import functools
import importlib
import importlib.util
import urllib.request
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Self
from urllib.parse import urlsplit

from turnout.adapters.wire import Here, LimitedBackend, Watch
from turnout.config import MOST_WORKERS

#: How long an idle connection is kept for the next call, as the SDK itself does.
KEEPALIVE_SECONDS = 5.0

_ERRORS = (
    "TimeoutException",
    "ConnectTimeout",
    "ReadTimeout",
    "WriteTimeout",
    "PoolTimeout",
    "NetworkError",
    "ConnectError",
    "ReadError",
    "WriteError",
    "ProxyError",
    "UnsupportedProtocol",
    "ProtocolError",
    "LocalProtocolError",
    "RemoteProtocolError",
)


def http_libraries(client_class: type) -> tuple[ModuleType, ModuleType]:
    """The HTTP library that ``client_class`` is built on, httpx or httpx2, and the httpcore below it."""
    for base in client_class.__mro__:
        root = base.__module__.partition(".")[0]
        if root.startswith("httpx"):
            return importlib.import_module(root), importlib.import_module(root.replace("httpx", "httpcore"))
    raise ImportError(f"{client_class.__name__} is built on no known HTTP library")


class LimitedTransport:
    """A transport for one ``url``'s host.

    There is no upper bound on connections in use: they are bounded by the callers who wait in them, and a pool that
    makes callers wait for each other would be one more queue, charged to the provider.
    """

    def __init__(self, http: ModuleType, core: ModuleType, here: Here, *, url: str) -> None:
        self._core = core
        self._here = here
        self._body = _body_class(http)
        self._raised = {getattr(core, name): getattr(http, name) for name in _ERRORS}
        self._pool = _pool(http, core, here, url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()

    def handle_request(self, request: Any) -> Any:
        watch = self._here.watch
        if watch is not None:
            watch.sent = True
        url = request.url
        passed_on = self._core.Request(
            method=request.method,
            url=self._core.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            answer = self._pool.handle_request(passed_on)
        except Exception as error:
            kind = self.raised_for(error)
            if kind is None:
                raise
            raise kind(str(error)) from error
        return self._body.response(answer, self, watch)

    def pieces(self, parts: Iterator[bytes], watch: Watch | None) -> Iterator[bytes]:
        """The body's parts, each awaited under the Watch of the attempt that asked, on whichever thread reads."""
        here = self._here
        while True:
            before, here.watch = here.watch, watch
            try:
                part = next(parts, None)
            except Exception as error:
                kind = self.raised_for(error)
                if kind is None:
                    raise
                raise kind(str(error)) from error
            finally:
                here.watch = before
            if part is None:
                return
            yield part

    def raised_for(self, error: Exception) -> Any:
        """The HTTP library's exception class for one of httpcore's; None for any other error."""
        for kind in type(error).__mro__:
            if kind in self._raised:
                return self._raised[kind]
        return None


@functools.cache
def _body_class(http: ModuleType) -> Any:
    """The response body's class, made late: its base is the HTTP library's own."""

    class LimitedBody(http.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, answer: Any, transport: LimitedTransport, watch: Watch | None) -> None:
            self._stream = answer.stream
            self._transport = transport
            self._watch = watch

        @classmethod
        def response(cls, answer: Any, transport: LimitedTransport, watch: Watch | None) -> Any:
            return http.Response(
                answer.status,
                headers=answer.headers,
                stream=cls(answer, transport, watch),
                extensions=answer.extensions,
            )

        def __iter__(self) -> Iterator[bytes]:
            return self._transport.pieces(iter(self._stream), self._watch)

        def close(self) -> None:
            self._stream.close()

    return LimitedBody


def _pool(http: Any, core: Any, here: Here, url: str) -> Any:
    parts = urlsplit(url)
    settings: dict[str, Any] = {
        "max_connections": None,
        # An idle connection is one that was in use: there are never more than calls were in flight a moment ago.
        "max_keepalive_connections": MOST_WORKERS,
        "keepalive_expiry": KEEPALIVE_SECONDS,
        "http1": True,
        "http2": False,
        "network_backend": LimitedBackend(here, core),
    }
    if parts.scheme == "https":
        settings["ssl_context"] = http.create_ssl_context()
    named = _proxy_for(parts.scheme, parts.hostname or "")
    if named is None:
        return core.ConnectionPool(**settings)
    proxy = http.Proxy(named if "://" in named else f"http://{named}")
    address = core.URL(
        scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=proxy.url.raw_path
    )
    if proxy.url.scheme.startswith("socks5"):
        if importlib.util.find_spec("socksio") is None:
            raise ImportError("a socks5:// proxy needs the package socksio; pip install socksio")
        return core.SOCKSProxy(proxy_url=address, proxy_auth=proxy.raw_auth, **settings)
    return core.HTTPProxy(
        proxy_url=address, proxy_auth=proxy.raw_auth, proxy_headers=proxy.headers.raw, **settings
    )


def _proxy_for(scheme: str, host: str) -> str | None:
    """The proxy that the environment names for a host, as the SDK would choose by default."""
    proxies = urllib.request.getproxies()
    if not proxies or urllib.request.proxy_bypass(host):
        return None
    return proxies.get(scheme) or proxies.get("all")
