"""A watched SDK stream: the SDK's own chunks, and what they say of the answer's end."""

import contextlib
import json
import os
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel

from turnout.adapters.contract import NormalizedStream
from turnout.adapters.openai_awaited import Awaited
from turnout.adapters.openai_client import SdkClient, keep_over_fork
from turnout.adapters.openai_end import BLANK, EndWatch
from turnout.adapters.openai_faults import Seam
from turnout.adapters.openai_words import error_in, message_of
from turnout.errors import ProviderError

#: The longest that whatever may follow the mark of an answer's end is waited for: usage most often comes at once, but
#: the verdict of a filter that runs beside the answer comes seconds later.
AFTER_MARK_SECONDS: Final = 10.0


class WatchedStream(NormalizedStream):
    """Hands out the chunks of an SDK stream, one reader at a time; ``close`` may come from any thread.

    The first content must come before the attempt's Limit, and each next within ``idle_seconds`` of the one before:
    bytes and chunks without content gain no time, and none passes while nobody reads. Once all answers that were
    ``asked`` for are marked whole, what may follow is waited for ``AFTER_MARK_SECONDS`` at most.

    A stream that ends without one chunk of a known shape counts as whole, and ``on_unreadable`` is told. Of an
    operation whose shape is ``known`` such chunks are no content before that.
    """

    def __init__(
        self,
        native: Any,
        client: SdkClient,
        watch: EndWatch,
        seam: Seam,
        *,
        granted_seconds: float,
        idle_seconds: float,
        asked: int,
        known: bool,
        on_unreadable: Callable[[], None],
    ) -> None:
        self._native = native
        self._client = client
        self._watch = watch
        self._seam = seam
        self._seconds = granted_seconds
        self._idle_seconds = idle_seconds
        self._after_mark_seconds = min(idle_seconds, AFTER_MARK_SECONDS)
        self._left_seconds = granted_seconds if watch.limit is None else watch.limit.remaining()
        self._awaited = Awaited.FIRST_TOKEN
        self._asked = asked
        self._known = known
        self._on_unreadable = on_unreadable
        self._usage: Any = None
        self._content = False
        self._readable = False
        self._strange = False
        self._ran_out = False
        self._ended = False
        self._closing = False
        # Never waited for: whoever finds it taken leaves the work to its holder.
        self._turn = threading.Lock()
        self._open: list[None] = [None]
        keep_over_fork(self)

    @abstractmethod
    def _note(self, chunk: Any) -> bool:
        """Read a chunk's marks, or raise the failure that it declares. Gives back whether it holds content."""

    @property
    @abstractmethod
    def _marked(self) -> bool:
        """Whether the mark of the end of every answer that was asked for was read."""

    @property
    def _closed_off(self) -> bool:
        """Whether what came is whole where its provider says that no more comes, be it less than was asked for."""
        return self._marked

    @property
    def completed(self) -> bool:
        # Where a mark is missing, the end itself may be one; while such a stream runs, nothing says that it is whole.
        return self._marked or self._ran_out

    @property
    def usage(self) -> Any:
        return self._usage

    @property
    def has_content(self) -> bool:
        return self._content

    def __next__(self) -> Any:
        if not self._turn.acquire(blocking=False):
            if self._closing:
                # Whoever closes it has the turn.
                raise StopIteration
            raise RuntimeError("this stream is being read by another thread; a stream has one reader")
        try:
            if self._ended or self._closing:
                raise StopIteration
            return self._read()
        except BaseException:
            self._end()
            raise
        finally:
            self._turn.release()
            if self._closing:
                self.close()

    def close(self) -> None:
        self._closing = True
        if self._turn.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._turn.release()
        else:
            # A reader is inside: wake it, and it ends the stream on its way out.
            self._watch.shut()

    def _read(self) -> Any:
        if os.getpid() != self._client.pid:
            raise self._seam.interrupted(
                "was reached by a stream opened before fork(); open another in the child"
            )
        limit = self._watch.limit
        if limit is not None:
            limit.extend(self._left_seconds)
        try:
            chunk = next(self._native)
            says = self._note(chunk)
        except StopIteration:
            self._at_end()
            raise
        except ProviderError:
            self._seam.raise_if_ended(self._watch, self._seconds, self._awaited)
            raise
        except Exception as error:
            if self._over_anyway(error):
                raise StopIteration from None
            raise self._seam.mapped(
                error, self._watch, seconds=self._seconds, awaited=self._awaited
            ) from error
        if says:
            self._content = True
            self._awaited = Awaited.MORE
            self._seconds = self._left_seconds = self._idle_seconds
        else:
            if limit is not None:
                self._left_seconds = limit.remaining()
            if self._marked:
                self._left_seconds = min(self._left_seconds, self._after_mark_seconds)
        return chunk

    def _at_end(self) -> None:
        """A cut may look like a clean end."""
        if self._closing:
            return
        if not self._over_anyway(None):
            self._seam.raise_if_ended(self._watch, self._seconds, self._awaited)
            self._refuse_body()
        if self._strange and not self._readable:
            self._ran_out = self._content = True
            self._on_unreadable()

    def _over_anyway(self, error: Exception | None) -> bool:
        """Whether the answer needs nothing more: its reader left, or it is whole and only the connection went wrong."""
        if self._closing:
            return True
        limit = self._watch.limit
        if (limit is not None and limit.reason is not None) or self._seam.declares(error):
            return False
        # Where a chunk could not be read, the end mark may be of an answer that was in the chunks after it.
        read = not isinstance(error, ValueError)
        if read and not self._marked and self._closed_off and self._watch.done:
            self._ran_out = True
        return self.completed

    def _strange_chunk(self, chunk: Any) -> bool:
        """Note a chunk of no known shape: content, unless others of the stream could be read, or should be."""
        if self._known and not isinstance(chunk, BaseModel):
            # JSON, but no object: nobody could read a field of it.
            raise json.JSONDecodeError("a chunk is no object", "", 0)
        # What was read may be ahead of this chunk, which may be a remark.
        if self._known and self._watch.error and message_of(chunk):
            raise self._seam.declared(chunk)
        self._strange = True
        return not self._readable and not self._known

    def _refuse_error(self, chunk: Any) -> None:
        """Raise what a chunk declares in a shape that the SDK lets pass, where chunks should have another."""
        if self._known and (error := error_in(chunk)) is not None:
            raise self._seam.declared(error)

    def _refuse_body(self) -> None:
        """Raise what an answer declares that is no stream, and that the SDK read over."""
        body: object = None
        if self._watch.body:
            with contextlib.suppress(ValueError):
                body = json.loads(self._watch.body.strip(BLANK))
        if (error := error_in(body)) is not None:
            raise self._seam.declared(error)

    def _end(self) -> None:
        """Give everything back, once."""
        self._ended = True
        try:
            self._open.pop()
        except IndexError:
            return
        if os.getpid() == self._client.pid:
            # What a broken connection says while it is closed tells nobody anything.
            with contextlib.suppress(Exception):
                self._native.close()
            self._watch.let_go()
            self._client.leave()
