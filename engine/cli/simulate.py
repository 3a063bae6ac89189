"""`turnout simulate`: the provider simulator in the foreground, until Ctrl-C."""

import os
import queue
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from turnout.cli.exits import comes_of_ctrl_c, stop_if_pressed
from turnout.cli.lines import write_line
from turnout.testing.simulator import (
    Answer,
    Cut,
    Cycle,
    InStreamError,
    LoggedRequest,
    Reset,
    Silence,
    SimulatedProvider,
    Simulator,
    Stall,
    Status,
    TrickledBody,
)

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_PORT = 8808
_SHOWN_AT_MOST = 1_000
_LOOK_AGAIN_SECONDS = 0.5

_EVERYDAY: tuple[tuple[SimulatedProvider, str], ...] = (
    (SimulatedProvider("healthy"), "answers at once"),
    (
        SimulatedProvider("slow", first_token_seconds=1.0, latency_seconds=1.0, chunk_interval_seconds=0.2),
        "answers after 1 s; streams wait 1 s more, then 0.2 s a chunk",
    ),
    (
        SimulatedProvider("flaky", Cycle((Answer(), Status(429, retry_after=1), Answer(), Status(500)))),
        "in turn: an answer, 429 with Retry-After, an answer, 500",
    ),
    (SimulatedProvider("down", Status(503)), "503, always"),
    (SimulatedProvider("resetting", Reset()), "resets the connection before it answers"),
    (SimulatedProvider("cutting", Cut(after_chunks=2)), "closes the connection after two chunks"),
    (SimulatedProvider("stalling", Stall(after_chunks=2)), "goes silent after two chunks"),
    (SimulatedProvider("silent", Silence()), "never answers"),
    (SimulatedProvider("trickling", TrickledBody(0.02)), "sends one byte every 20 ms"),
    (SimulatedProvider("breaking", InStreamError(after_chunks=2)), "an error in the stream after two chunks"),
)


def run_simulator(
    port: int = DEFAULT_PORT,
    *,
    providers: Sequence[SimulatedProvider] | None = None,
    follow: bool = True,
    console: "Console | None" = None,
) -> None:
    """Serves simulated providers on 127.0.0.1 until Ctrl-C, and says how to call them.

    Without `providers`, one for each everyday fault. `follow` prints a line for every request that ends;
    under load lines are left out rather than the server slowed. `port=0` takes a free port. Raises
    SystemExit if the port cannot be listened on.
    """
    from rich.console import Console

    # Past rich itself, which ends the process without a word where nobody reads the output any more.
    out = (console if console is not None else Console()).file
    told = {provider.name: what for provider, what in _EVERYDAY} if providers is None else {}
    served = [provider for provider, _ in _EVERYDAY] if providers is None else providers
    ended: queue.Queue[LoggedRequest] = queue.Queue(_SHOWN_AT_MOST)

    def keep(request: LoggedRequest) -> None:
        if not ended.full():
            ended.put_nowait(request)

    simulator = Simulator(served, port=port, on_ended=keep if follow else None)
    try:
        simulator.start()
    except OSError as error:
        # asyncio writes a sentence of its own into strerror.
        why = os.strerror(error.errno) if error.errno else str(error)
        raise SystemExit(
            f"turnout simulate: cannot listen on port {port} ({why}); choose another one with --port"
        ) from error
    try:
        _introduce(out, simulator, told)
        while True:
            stop_if_pressed()
            _show_next(out, ended)
    except BaseException as error:
        if not comes_of_ctrl_c(error):
            raise
    finally:
        simulator.stop()
    write_line(out, "Stopped.")


def _introduce(out: IO[str], simulator: Simulator, told: dict[str, str]) -> None:
    write_line(out, "Simulated providers (OpenAI Chat Completions and Responses, plain and streaming)")
    width = max(len(provider.name) for provider in simulator.providers)
    for provider in simulator.providers:
        behaviour = told.get(provider.name, repr(provider.script))
        # Never wrapped: people copy these addresses.
        write_line(out, f"  {provider.name:{width}}  {simulator.base_url(provider.name)}  {behaviour}")
    example = simulator.base_url(simulator.providers[0].name)
    for line in (
        "Any key and any model will do:",
        f"""  curl {example}/chat/completions -H 'content-type: application/json' \\""",
        """    -d '{"model": "any", "messages": [{"role": "user", "content": "hello"}]}'""",
        f"""  OpenAI(base_url="{example}", api_key="any")   # Python, with the openai package""",
        "Ctrl-C stops.",
    ):
        write_line(out, line)


def _show_next(out: IO[str], ended: queue.Queue[LoggedRequest]) -> None:
    try:
        request = ended.get(timeout=_LOOK_AGAIN_SECONDS)
    except queue.Empty:
        return
    took_ms = ((request.closed_at or request.at) - request.at) * 1000
    status = request.status if request.status is not None else "-"
    kind = request.path.rpartition("/v1/")[2]
    write_line(
        out,
        f"{request.provider:<12} {request.method} {kind:<17} {status} {request.outcome} {took_ms:.0f} ms",
    )
