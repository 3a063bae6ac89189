"""The end mark that the SDK keeps to itself: whether a stream's bytes held the line ``data: [DONE]``."""

import re
from collections.abc import Iterator
from typing import Final

from turnout.adapters.transport import LimitedTransport
from turnout.adapters.wire import Watch
from turnout.deadline import Limit

#: A line of its own, perhaps the first, after a byte order mark: inside JSON no line ends.
_DONE: Final = re.compile(rb"[\r\n](?:\xef\xbb\xbf)?data: ?\[DONE\] *(?P<end>[\r\n]|\Z)")
#: The name of an event that tells of an error, whatever its data look like.
_ERROR: Final = re.compile(rb"[\r\n](?:\xef\xbb\xbf)?event: ?error *[\r\n]")
#: A byte order mark among it.
BLANK: Final = b"\xef\xbb\xbf \t\r\n"
#: Either may come in pieces.
_TAIL_BYTES: Final = 32
#: The longest JSON object that is looked at in place of a stream.
_BODY_BYTES: Final = 65_536


class EndWatch(Watch):
    """A Watch that looks for the provider's own end mark, ``done``, and for an event that is named ``error``. It keeps
    a ``body`` that may be a JSON object in place of a stream; None where it is none. What came compressed cannot be
    told."""

    __slots__ = ("_ended", "_tail", "body", "done", "error")

    def __init__(self, limit: Limit | None) -> None:
        super().__init__(limit)
        self._tail = b"\n"
        self._ended = False
        self.done = self.error = False
        self.body: bytes | None = b""

    def note(self, part: bytes) -> None:
        if self.body is not None:
            body = self.body + part
            self.body = body if body.lstrip(BLANK)[:1] in (b"", b"{") and len(body) <= _BODY_BYTES else None
        whole = self._tail + part
        self.error = self.error or _ERROR.search(whole) is not None
        mark = None if self._ended else _DONE.search(whole)
        # What has not ended yet may be the beginning of another line.
        self._ended = self._ended or (mark is not None and mark["end"] != b"")
        self.done = self._ended or mark is not None
        self._tail = whole[-_TAIL_BYTES:]


class EndTransport(LimitedTransport):
    """A LimitedTransport that shows an EndWatch what it reads."""

    def pieces(self, parts: Iterator[bytes], watch: Watch | None) -> Iterator[bytes]:
        for part in super().pieces(parts, watch):
            if isinstance(watch, EndWatch):
                watch.note(part)
            yield part
