"""The end mark that the SDK keeps to itself: whether a stream's bytes held the line ``data: [DONE]``."""

import re
from collections.abc import Iterator
from typing import Final

from turnout.adapters.transport import LimitedTransport
from turnout.adapters.wire import Watch
from turnout.deadline import Limit

#: A line of its own: inside JSON no line ends.
_DONE: Final = re.compile(rb"\ndata: ?\[DONE\][ \r]*(?:\n|\Z)")
#: The mark may come in pieces.
_TAIL_BYTES: Final = 32


class EndWatch(Watch):
    """A Watch that looks for the provider's own end mark, ``done``. What came compressed cannot be told."""

    __slots__ = ("_tail", "done")

    def __init__(self, limit: Limit | None) -> None:
        super().__init__(limit)
        self._tail = b"\n"
        self.done = False

    def note(self, part: bytes) -> None:
        whole = self._tail + part
        self.done = self.done or _DONE.search(whole) is not None
        self._tail = whole[-_TAIL_BYTES:]


class EndTransport(LimitedTransport):
    """A LimitedTransport that shows an EndWatch what it reads."""

    def pieces(self, parts: Iterator[bytes], watch: Watch | None) -> Iterator[bytes]:
        for part in super().pieces(parts, watch):
            if isinstance(watch, EndWatch):
                watch.note(part)
            yield part
