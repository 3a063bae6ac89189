"""The end mark that the SDK keeps to itself: whether a stream's bytes ended with ``[DONE]``."""

import re
from collections.abc import Iterator
from typing import Final

from turnout.adapters.transport import LimitedTransport
from turnout.adapters.wire import Watch
from turnout.deadline import Limit

_DONE: Final = re.compile(rb"data: ?\[DONE\]\s*\Z")
#: The mark, with as many line ends after it as anybody sends; it may come in pieces.
_TAIL_BYTES: Final = 64


class EndWatch(Watch):
    """A Watch that keeps the last bytes of the answer."""

    __slots__ = ("_tail",)

    def __init__(self, limit: Limit | None) -> None:
        super().__init__(limit)
        self._tail = b""

    def note(self, part: bytes) -> None:
        whole = part if len(part) >= _TAIL_BYTES else self._tail + part
        self._tail = whole[-_TAIL_BYTES:]

    @property
    def done(self) -> bool:
        """Whether they are the provider's own end mark. What came compressed cannot be told."""
        return _DONE.search(self._tail) is not None


class EndTransport(LimitedTransport):
    """A LimitedTransport that shows an EndWatch what it reads."""

    def pieces(self, parts: Iterator[bytes], watch: Watch | None) -> Iterator[bytes]:
        for part in super().pieces(parts, watch):
            if isinstance(watch, EndWatch):
                watch.note(part)
            yield part
