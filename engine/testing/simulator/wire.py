"""One TCP connection: requests parsed by h11, steps performed on the bare transport."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from turnout.testing.simulator.log import RequestLog, Ticket
from turnout.testing.simulator.refusals import refusal
from turnout.testing.simulator.steps import Ending, Finish, HangUp, Head, Pause, Piece, StayOpen, Step

try:
    import h11
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the simulator needs h11: pip install 'turnout[cli]'", name="h11") from error

MAX_BODY_BYTES = 64 * 1024 * 1024
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_LINGER_ZERO = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it came; `headers` with lower-case names."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int


@dataclass(frozen=True, slots=True)
class Response:
    """The steps that answer a request, and its place in the log if it has one."""

    steps: Iterator[Step]
    ticket: Ticket | None = None


class Connection(asyncio.Protocol):
    """Serves one client, a request at a time.

    A client that ends its side has left, even if it could still read: a cut socket looks so from here.
    """

    def __init__(
        self,
        identity: int,
        respond: Callable[[HttpRequest], Response],
        log: RequestLog,
        open_connections: set["Connection"],
    ) -> None:
        self._identity = identity
        self._respond = respond
        self._log = log
        self._open_connections = open_connections
        self._http = h11.Connection(h11.SERVER)
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._early_bytes = 0
        self._held = bytearray()
        self._chunked = False
        self._ticket: Ticket | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # a pause on any unsent byte lets "flushed" mean that the kernel has all; TLS would not resume from 0
        secure = self._transport.get_extra_info("ssl_object") is not None
        self._transport.set_write_buffer_limits(high=1 if secure else 0)
        self._open_connections.add(self)
        self._log.connection_opened(self._identity)

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        if self._task is None:
            self._advance()
            return
        self._early_bytes += len(data)
        if self._early_bytes > MAX_BODY_BYTES:
            self._leave(Ending.BROKEN)
            self._transport.abort()

    def eof_received(self) -> bool:
        self._leave(Ending.CLIENT_CLOSED)
        self._transport.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave(Ending.CLIENT_CLOSED)
        self._open_connections.discard(self)
        self._log.connection_closed(self._identity)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def stop(self) -> None:
        """Ends the connection because the simulator ends."""
        self._leave(Ending.SERVER_STOPPED)
        self._transport.abort()

    # requests

    def _advance(self) -> None:
        """Takes what has arrived, up to one whole request."""
        try:
            while self._task is None:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    if self._http.they_are_waiting_for_100_continue:
                        go_on = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
                        self._transport.write(go_on or b"")
                    return
                if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    return
                self._take(event)
        except h11.RemoteProtocolError:
            self._start(Response(refusal(400, "The request is not HTTP/1.1.")))

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Request):
            self._request = event
            self._body.clear()
        elif isinstance(event, h11.Data):
            self._body += event.data
            if len(self._body) > MAX_BODY_BYTES:
                self._start(Response(refusal(413, "The request body is too large.")))
        elif isinstance(event, h11.EndOfMessage):
            assert self._request is not None
            self._start(self._respond(self._whole_request(self._request)))

    def _whole_request(self, head: h11.Request) -> HttpRequest:
        return HttpRequest(
            method=head.method.decode("ascii"),
            target=head.target.decode("ascii"),
            headers=tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers),
            body=bytes(self._body),
            connection=self._identity,
        )

    def _start(self, response: Response) -> None:
        self._ticket = response.ticket
        self._task = asyncio.get_running_loop().create_task(self._perform(response.steps))

    def _leave(self, ending: Ending) -> None:
        if self._task is not None:
            self._task.cancel()
        self._end(ending)

    def _end(self, ending: Ending) -> None:
        if self._ticket is not None:
            self._log.ends(self._ticket, ending)
            self._ticket = None

    # responses

    async def _perform(self, steps: Iterator[Step]) -> None:
        try:
            for step in steps:
                await self._do(step)
        except Exception as error:
            self._end(Ending.BROKEN)
            self._transport.abort()
            context = {"message": "the simulator could not perform a response", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return
        self._task = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._early_bytes = 0
            self._advance()
        else:
            self._transport.close()

    async def _do(self, step: Step) -> None:
        match step:
            case Piece():
                await self._send_piece(step)
            case Pause(seconds):
                await self._flush()
                await asyncio.sleep(seconds)
            case Head():
                await self._send_head(step)
            case Finish(ending):
                self._held += self._http.send(h11.EndOfMessage()) or b""
                self._end(ending)
                await self._flush()
            case HangUp(reset):
                await self._hang_up(reset)
            case StayOpen():
                await self._flush()
                await asyncio.get_running_loop().create_future()

    async def _send_head(self, head: Head) -> None:
        request_id = f"req_{self._ticket.provider}_{self._ticket.number}" if self._ticket else "req_refused"
        headers = [*head.headers.items(), ("x-request-id", request_id)]
        self._chunked = "content-length" not in head.headers
        if self._ticket is not None:
            self._log.answers(self._ticket, head.status)
        reason = _REASONS.get(head.status, "")
        response = h11.Response(status_code=head.status, headers=headers, reason=reason)
        self._held += self._http.send(response) or b""
        if head.byte_interval_seconds:
            await self._trickle(head.byte_interval_seconds)

    async def _send_piece(self, piece: Piece) -> None:
        if self._request is not None and self._request.method == b"HEAD":
            return
        if self._chunked or piece.byte_interval_seconds:
            # the newest event is held until the next step, so an ending is logged before its last event
            await self._flush()
            await asyncio.sleep(0)
        self._held += self._http.send(h11.Data(data=piece.data)) or b""
        if piece.text and self._ticket is not None:
            self._log.sends_text(self._ticket)
        if piece.byte_interval_seconds:
            await self._trickle(piece.byte_interval_seconds)

    async def _trickle(self, byte_interval_seconds: float) -> None:
        """Sends what is held, byte by byte; the first at once, the last with whatever comes next."""
        waiting, self._held = self._held, bytearray()
        for index in range(len(waiting)):
            if index:
                await self._flush()
                await asyncio.sleep(byte_interval_seconds)
            self._held += waiting[index : index + 1]

    async def _flush(self) -> None:
        if self._held:
            self._transport.write(bytes(self._held))
            self._held.clear()
        await self._writable.wait()

    async def _hang_up(self, reset: bool) -> None:
        await self._flush()
        self._end(Ending.RESET if reset else Ending.CUT)
        if reset:
            bare = self._transport.get_extra_info("socket")
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
            self._transport.abort()
        else:
            self._transport.close()
