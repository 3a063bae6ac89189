"""How long a store may take before rows go to files: in memory, a crash takes them away."""

from typing import Final

from turnout.actors.errands import Errand, Record

#: Ten times what a store takes.
_ROW_SECONDS: Final = 50e-6
_TIMES_AS_LONG: Final = 4.0
_AT_MOST_SECONDS: Final = 2.0


class Patience:
    """One flush interval; with a batch that is written, as long as its rows ask for, or four times as long as batches
    took lately: where a process has too much to do, files would only make it more. Never more than two seconds. Used by
    the ledger's thread alone."""

    def __init__(self, flush_seconds: float) -> None:
        self._flush_seconds = flush_seconds
        self._usual_seconds: float | None = None

    def seconds(self, errand: Errand) -> float:
        """From the errand's begin."""
        if not isinstance(errand, Record):
            return self._flush_seconds
        asked = max(len(errand.rows) * _ROW_SECONDS, _TIMES_AS_LONG * (self._usual_seconds or 0.0))
        return max(self._flush_seconds, min(asked, _AT_MOST_SECONDS))

    def written(self, took_seconds: float) -> None:
        """A batch took so long: up at once, down by and by. The first is passed over, which opens the database."""
        usual = self._usual_seconds
        self._usual_seconds = 0.0 if usual is None else max(took_seconds, (7 * usual + took_seconds) / 8)
