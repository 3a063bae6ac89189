"""The simulator: one listening socket, one thread with an event loop, any number of providers."""

import asyncio
import contextlib
import hmac
import itertools
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from turnout.testing.simulator.behaviours import Behaviour, Status
from turnout.testing.simulator.log import LoggedRequest, RequestLog, Ticket
from turnout.testing.simulator.performance import steps_for
from turnout.testing.simulator.provider import Call, Dialect, SimulatedProvider
from turnout.testing.simulator.refusals import refusal, status_steps
from turnout.testing.simulator.script import Script, ScriptLike, as_script
from turnout.testing.simulator.steps import Step
from turnout.testing.simulator.wire import Connection, HttpRequest, Response

LOG_BOUND = 10_000
_BACKLOG = 1024
_THREAD_END_SECONDS = 5.0
_TURNS_TO_CONNECT = 8
_HANDSHAKE_SECONDS = 0.5
_DIALECTS: Mapping[str, Dialect] = {"/v1/chat/completions": "chat", "/v1/responses": "responses"}
_T = TypeVar("_T")


class _Playback:
    """A script and the call it has come to; replaced as a whole when a new script is set."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._calls = itertools.count()

    def next(self) -> Behaviour:
        return self._script.at(next(self._calls))


class Simulator:
    """Simulated LLM providers on a real HTTP server on 127.0.0.1, for tests, demos and benchmarks.

    Each provider speaks OpenAI Chat Completions and Responses under `base_url(name)`. Use it as a context
    manager, or call `start()` and `stop()`; it runs once. With `port=0` the system chooses a free port;
    with `tls` (a server-side `ssl.SSLContext`) it speaks https. The log keeps the newest `log_bound`
    requests of each provider; `on_ended` is told of each request that ends, on the server's thread, so it
    must not block. Asking for a provider that is not there raises ValueError.
    """

    def __init__(
        self,
        providers: Iterable[SimulatedProvider],
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        log_bound: int = LOG_BOUND,
        on_ended: Callable[[LoggedRequest], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        listed = tuple(providers)
        self._providers = {provider.name: provider for provider in listed}
        if not listed or len(self._providers) != len(listed):
            raise ValueError("a simulator needs one provider or more, each with a name of its own")
        self._playbacks = {name: _Playback(as_script(each.script)) for name, each in self._providers.items()}
        self._log = RequestLog(self._providers, monotonic=monotonic, bound=log_bound, on_ended=on_ended)
        self._now = now
        self._tls = tls
        self._port = port
        self._identities = itertools.count(1)
        self._open_connections: set[Connection] = set()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="turnout-simulator", daemon=True)

    # life

    def start(self) -> Self:
        """Listens; returns when connections are accepted. Raises OSError if the port is taken."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Ends every connection and the thread. Raises RuntimeError if the thread does not end in 5 s."""
        if not self._thread.is_alive() or self._loop is None or self._stopping is None:
            return
        with contextlib.suppress(RuntimeError):  # raised when another stop() was quicker
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_THREAD_END_SECONDS)
        if self._thread.is_alive():
            raise RuntimeError(f"the simulator's thread did not end within {_THREAD_END_SECONDS} s")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # what callers ask

    @property
    def port(self) -> int:
        """The port listened on; before `start()`, the one asked for."""
        return self._port

    @property
    def providers(self) -> tuple[SimulatedProvider, ...]:
        return tuple(self._providers.values())

    def base_url(self, provider: str) -> str:
        """What an OpenAI client takes as `base_url`."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._port}/{self._known(provider)}/v1"

    def script(self, provider: str, script: ScriptLike) -> None:
        """Replaces a provider's script; its next call is the new script's first."""
        self._playbacks[self._known(provider)] = _Playback(as_script(script))

    def requests(self, provider: str) -> tuple[LoggedRequest, ...]:
        """The logged requests of a provider, oldest first."""
        return self._log.requests(self._known(provider))

    def total(self, provider: str) -> int:
        """How many requests the provider has had, those no longer logged included."""
        return self._log.total(self._known(provider))

    def connections(self, provider: str | None = None) -> int:
        """Open TCP connections whose newest request was for this provider; all of them for None."""
        return self._log.connections(None if provider is None else self._known(provider))

    def wait_for(self, predicate: Callable[[], _T], timeout_seconds: float = 5.0) -> _T:
        """Blocks until `predicate()` is true and returns what it said.

        It is asked at every change of the log. Raises TimeoutError after `timeout_seconds`.
        """
        return self._log.wait_for(predicate, timeout_seconds)

    def _known(self, provider: str) -> str:
        if provider not in self._providers:
            raise ValueError(f"no simulated provider {provider!r}; there are: {', '.join(self._providers)}")
        return provider

    # the server's thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._ready.is_set():
                raise
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await self._loop.create_server(
            self._connection, "127.0.0.1", self._port, ssl=self._tls, backlog=_BACKLOG
        )
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        # Accept no more, but leave the server open for now: a connection accepted just before is still being made, by a
        # task of the loop's own that fails on a closed server and leaves its socket open.
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
        await self._end_connections()
        being_made = asyncio.all_tasks() - {asyncio.current_task()}
        if being_made:
            await asyncio.wait(being_made, timeout=_HANDSHAKE_SECONDS)
            await self._end_connections()
        server.close()

    async def _end_connections(self) -> None:
        # transports report their end through the loop: without these turns they would be left unclosed
        while self._open_connections:
            for connection in tuple(self._open_connections):
                connection.stop()
            await asyncio.sleep(0)

    def _connection(self) -> Connection:
        return Connection(next(self._identities), self._respond, self._log, self._open_connections)

    # one request

    def _respond(self, request: HttpRequest) -> Response:
        path = request.target.partition("?")[0]
        name, _, rest = path.removeprefix("/").partition("/")
        provider = self._providers.get(name)
        if provider is None:
            known = ", ".join(self._providers)
            return Response(refusal(404, f"There is no simulated provider here; there are: {known}."))
        body = _json_object(request.body)
        ticket = self._log.begin(
            name,
            path=path,
            method=request.method,
            headers=request.headers,
            body=body,
            connection=request.connection,
        )
        refused = _refused(request, provider, f"/{rest}", body)
        if refused is not None or body is None:
            return Response(refused if refused is not None else iter(()), ticket)
        call = Call(provider, _DIALECTS[f"/{rest}"], ticket.number, int(self._now()), body)
        return Response(self._scripted(call, ticket), ticket)

    def _scripted(self, call: Call, ticket: Ticket) -> Iterator[Step]:
        name = call.provider.name
        try:
            behaviour = self._playbacks[name].next()
            self._log.behaves(ticket, behaviour)
            return steps_for(behaviour, call)
        except Exception as error:
            message = f"The script of simulated provider {name} raised {type(error).__name__}: {error}"
            return status_steps(Status(500, message=message))


def _json_object(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _refused(
    request: HttpRequest, provider: SimulatedProvider, path: str, body: Mapping[str, Any] | None
) -> Iterator[Step] | None:
    """The refusal of a request that no script is asked about, or None."""
    dialect = _DIALECTS.get(path)
    if dialect is None:
        return refusal(404, f"Invalid URL ({request.method} {path})")
    if request.method != "POST":
        return refusal(405, f"Not allowed to {request.method} on {path} (HINT: use POST)", allow="POST")
    if provider.require_key is not None and not _has_key(request, provider.require_key):
        return status_steps(Status(401))
    if body is None:
        return refusal(400, "We could not parse the JSON body of your request as an object.")
    for name in ("model", "messages" if dialect == "chat" else "input"):
        if body.get(name) is None:
            return refusal(
                400, f"Missing required parameter: '{name}'.", code="missing_required_parameter", param=name
            )
    return None


def _has_key(request: HttpRequest, key: str) -> bool:
    given = dict(request.headers).get("authorization", "")
    return hmac.compare_digest(given.encode(), f"Bearer {key}".encode())
