"""A batch under way: lines in, calls through a router, lines out as the answers come."""

import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from queue import Empty
from typing import Final

from turnout.batch.lines import BadLine, BatchRequest, read_lines
from turnout.batch.writing import BatchCounts, Ended, LineEnd, Writer
from turnout.errors import ConfigError, DeadlineExceededError
from turnout.future import InvocationFuture
from turnout.router import ProviderRouter
from turnout.runtime.strand import begin

#: Lines under way beside those that have a worker: enough to keep every worker busy while the next line is read. More
#: would only spend the calls' own time in the queue.
_AHEAD: Final = 8
#: How long what is answered may take to be written, once a batch is given up.
_GIVE_UP_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.05


def run_batch(
    router: ProviderRouter,
    lines: Iterable[bytes | str],
    write: Callable[[bytes], None],
    *,
    answered_before: Container[str] = (),
    in_flight: int | None = None,
    on_line: Callable[[LineEnd], None] | None = None,
) -> BatchCounts:
    """Run every line and ``write`` one output line for each, in the order in which they end.

    ``lines`` are read as they are wanted: at most ``in_flight`` of them (by default a few more than the router has
    workers) are under way at once. Lines whose ``custom_id`` is in ``answered_before`` are skipped and write nothing.
    A bad line writes an error line; the rest runs. ``write`` takes a whole line with its newline. It and ``on_line``
    are called on a thread of the batch's own, one call at a time; what either raises ends the batch and is raised here.
    Then, and on an interrupt, what is queued or in flight is cancelled; what is answered is still written.
    """
    if in_flight is not None and in_flight < 1:
        raise ConfigError("in_flight must be at least 1")
    places = in_flight if in_flight is not None else router.stats().max_workers + _AHEAD
    return _Job(router, places, Writer(write, on_line)).run(lines, answered_before)


class _Job:
    """One run of ``run_batch``, on its caller's thread."""

    def __init__(self, router: ProviderRouter, places: int, writer: Writer) -> None:
        self._router = router
        self._away = places
        self._writer = writer
        self._running: dict[int, InvocationFuture] = {}
        for _ in range(places):
            writer.places.put(None)

    def run(self, lines: Iterable[bytes | str], answered_before: Container[str]) -> BatchCounts:
        writer = self._writer
        try:
            begin(writer.thread)
            for line in read_lines(lines):
                self._take_place()
                if isinstance(line, BadLine) or line.custom_id in answered_before:
                    writer.ended.put(Ended(line))
                else:
                    self._submit(line)
            # Needs no deadline of its own: every call ends within its providers' timeouts.
            while self._away:
                writer.places.get()
                self._away -= 1
                writer.raise_error()
        except BaseException:
            self._give_up()
            raise
        finally:
            writer.ended.put(None)
            # Interrupted, its start may never have come to anything.
            if not writer.thread.is_void():
                writer.thread.ends_within(_GIVE_UP_SECONDS)
        writer.raise_error()
        return writer.counts()

    def _take_place(self) -> None:
        places = self._writer.places
        places.get()
        try:
            self._writer.raise_error()
        except BaseException:
            places.put(None)
            raise

    def _submit(self, line: BatchRequest) -> None:
        try:
            future = self._router.submit(line.call, block=True)
        except DeadlineExceededError as error:
            self._writer.ended.put(Ended(line, error=error))
            return
        except BaseException:
            self._writer.places.put(None)
            raise
        self._running[line.number] = future
        future.add_done_callback(lambda _: self._end(line, future))

    def _end(self, line: BatchRequest, future: InvocationFuture) -> None:
        self._writer.ended.put(Ended(line, future))
        self._running.pop(line.number, None)

    def _give_up(self) -> None:
        # The newest first: a worker whose call is cut takes the next one that is still to be made.
        for future in reversed(list(self._running.values())):
            future.cancel()
        until = time.monotonic() + _GIVE_UP_SECONDS
        # Until all have ended: then the writer comes to its end behind them. Places do not tell: an interrupt may have
        # cost one.
        while self._running and (left := until - time.monotonic()) > 0.0:
            with suppress(Empty):
                self._writer.places.get(timeout=min(left, _LOOK_SECONDS))
