"""Providers that do what a script says, without a network: an ``adapter_factory`` for tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any, Final

from turnout.adapters.contract import NormalizedStream
from turnout.config import ProviderConfig


class Mark(Enum):
    """Stands in a scripted stream where the provider marks its answer finished: with the chunk before it."""

    FINISHED = "finished"


FINISHED: Final = Mark.FINISHED


@dataclass(frozen=True, slots=True)
class Prelude:
    """Stands in a scripted stream for a chunk that holds no content yet, such as one that only names the role."""

    chunk: Any


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One call as it reached the adapter: whom, what, and with which arguments (the model among them)."""

    provider_id: str
    operation: str
    arguments: Mapping[str, Any]


class ScriptedStream(NormalizedStream):
    """A stream whose chunks, end mark and failures are listed.

    An exception in the list is raised in its place; a function is called with nothing, and what it returns is
    the chunk. Every chunk is content unless it stands in a ``Prelude``. ``closed`` says whether somebody closed it.
    """

    def __init__(self, script: Sequence[Any]) -> None:
        self._script = tuple(script)
        self._at = 0
        self.closed = False
        self._has_content = False
        self._completed = self._pass_marks()

    def __next__(self) -> Any:
        if self.closed or self._at == len(self._script):
            raise StopIteration
        step = self._script[self._at]
        self._at += 1
        chunk = _given(step)
        self._completed = self._pass_marks() or self._completed
        if isinstance(chunk, Prelude):
            return chunk.chunk
        self._has_content = True
        return chunk

    @property
    def completed(self) -> bool:
        return self._completed

    @property
    def has_content(self) -> bool:
        return self._has_content

    def close(self) -> None:
        self.closed = True

    def _pass_marks(self) -> bool:
        before = self._at
        while self._at < len(self._script) and self._script[self._at] is FINISHED:
            self._at += 1
        return self._at > before


class ScriptedAdapters:
    """Pass one as ``ProviderRouter(adapter_factory=...)``: each provider follows a script of results.

    ``scripts`` names them by ``provider_id``; after the last result it repeats. A result is

    - an exception, which is raised;
    - a list, which becomes a ``ScriptedStream``: ``["Hel", "lo", FINISHED]``, ``["Hel", ConnectionError()]``,
      ``[Prelude("role"), "Hello", FINISHED]``;
    - a function, called with the ``ScriptedCall`` on the calling thread: what it returns, or raises, is the
      result. It may wait for an event of the test; a coroutine function makes an async provider;
    - anything else: the answer itself.

    ``calls`` has every call so far, oldest first. Any number of threads may call at once; which of them gets
    which result is then open. Raises ``ValueError`` for an empty script.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Any]]) -> None:
        empty = sorted(provider_id for provider_id, script in scripts.items() if not script)
        if empty:
            raise ValueError(f"a script needs at least one result; these have none: {', '.join(empty)}")
        self._calls: list[ScriptedCall] = []
        self._adapters = {
            provider_id: _ScriptedAdapter(provider_id, tuple(script), self._calls)
            for provider_id, script in scripts.items()
        }

    def __call__(self, config: ProviderConfig) -> "_ScriptedAdapter":
        return self._adapters[config.provider_id]

    @property
    def calls(self) -> tuple[ScriptedCall, ...]:
        return tuple(self._calls)


class _ScriptedAdapter:
    def __init__(self, provider_id: str, script: tuple[Any, ...], calls: list[ScriptedCall]) -> None:
        self._provider_id = provider_id
        self._script = script
        self._calls = calls
        self._turns = count()

    def invoke(self, operation: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> Any:
        call = ScriptedCall(self._provider_id, operation, dict(arguments))
        self._calls.append(call)
        result = _given(self._script[min(next(self._turns), len(self._script) - 1)], call)
        return ScriptedStream(result) if isinstance(result, list) else result


def _given(step: Any, *call: ScriptedCall) -> Any:
    """What a step of a script gives, or raises."""
    if callable(step) and not isinstance(step, type):
        step = step(*call)
    if isinstance(step, BaseException):
        # Afresh each time: raised again and again, it would drag along every earlier traceback.
        raise step.with_traceback(None)
    return step
