"""The thread of a batch that writes: one owner for the output, so that its lines never mix."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from turnout.batch.lines import BadLine, BatchRequest
from turnout.batch.outcomes import Ending, OutputLine, answered, failed, invalid, unsent
from turnout.future import InvocationFuture
from turnout.runtime.strand import Strand


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """How many lines ended in which way."""

    answered: int = 0
    failed: int = 0
    invalid: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class LineEnd:
    """What became of one line of the input; ``problem`` is why it has no answer, in one clause."""

    number: int
    custom_id: str | None
    ending: Ending
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """A line at its end: bad, skipped, refused at the router's door (``error``), or with a future that is done."""

    line: BatchRequest | BadLine
    future: InvocationFuture | None = None
    error: Exception | None = None

    def output(self) -> OutputLine | None:
        """The line to write; None for a call that was cancelled."""
        if isinstance(self.line, BadLine):
            return invalid(self.line)
        if self.error is not None:
            return unsent(self.line.custom_id, self.error)
        future = self.future
        if future is None:
            return OutputLine(Ending.SKIPPED, b"")
        if future.cancelled():
            return None
        invocation_id, error = future.report().invocation_id, future.exception()
        if error is not None:
            return failed(self.line.custom_id, invocation_id, error)
        return answered(self.line.custom_id, invocation_id, future.result())


class Writer:
    """Writes what has ended, then gives back the place that it held.

    Both queues are bounded by the number of places: whatever is in ``ended`` holds one.
    """

    def __init__(self, write: Callable[[bytes], None], on_line: Callable[[LineEnd], None] | None) -> None:
        self._write = write
        self._on_line = on_line
        self._endings: Counter[Ending] = Counter()
        self._error: BaseException | None = None
        self.ended: SimpleQueue[Ended | None] = SimpleQueue()
        self.places: SimpleQueue[None] = SimpleQueue()
        self.thread = Strand("turnout-batch-writer", self._run)

    def counts(self) -> BatchCounts:
        return BatchCounts(**{ending.value: self._endings[ending] for ending in Ending})

    def raise_error(self) -> None:
        """Raise what ended the writing, if anything did."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (ended := self.ended.get()) is not None:
            try:
                if self._error is None:
                    self._take(ended)
            except BaseException as error:
                # For the caller of the batch; lines that end after it are not written.
                self._error = error
            finally:
                self.places.put(None)

    def _take(self, ended: Ended) -> None:
        output = ended.output()
        if output is None:
            return
        if output.data:
            self._write(output.data)
        self._endings[output.ending] += 1
        if self._on_line is not None:
            line = ended.line
            self._on_line(LineEnd(line.number, line.custom_id, output.ending, output.problem))
