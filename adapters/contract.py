"""What turnout asks of a provider, of a native adapter, and of a stream that wants to be watched."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self, TypeVar

from turnout.calls import Attempt, Outcome
from turnout.deadline import Limit
from turnout.faults import Failure

RequestT = TypeVar("RequestT", contravariant=True)
ResultT = TypeVar("ResultT")


class Provider(Protocol[RequestT, ResultT]):
    """One of several interchangeable sources of an answer. The engine knows nothing else of it."""

    @property
    def name(self) -> str: ...

    def supports(self, request: RequestT) -> bool:
        """Whether every constraint of the request can be honoured. False is no failure."""

    def invoke(self, request: RequestT, deadline: Limit) -> ResultT:
        """Do the work within ``deadline``, or raise.

        A coroutine, or a future of asyncio, is awaited on the router's loop; any other awaitable is the answer itself.
        """

    def classify(self, error: Exception) -> Failure:
        """Say which fault an exception is. There is no default: a guess is how a misconfiguration loops."""

    def assess(self, result: ResultT, attempt: Attempt) -> Outcome:
        """Judge an answer: OK, DEGRADED or INVALID."""


class NativeAdapter(Protocol):
    """Makes one native call. ``adapter_factory(config)`` returns one; it owns its own client reuse."""

    def invoke(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """The SDK's own answer. What is awaited is told at ``Provider.invoke``."""


class TimedAdapter(Protocol):
    """A ``NativeAdapter`` that is given the seconds that its attempt may last."""

    def invoke(self, operation: str, arguments: Mapping[str, Any], *, timeout: float) -> Any:
        """The same, within ``timeout`` seconds."""


class LimitedAdapter(Protocol):
    """A ``NativeAdapter`` that is given the ``Limit`` of its attempt, which may end it from another thread."""

    def invoke(self, operation: str, arguments: Mapping[str, Any], *, limit: Limit) -> Any:
        """The same, within ``limit``."""


#: Whatever an ``adapter_factory`` may make.
AnyAdapter = NativeAdapter | TimedAdapter | LimitedAdapter


class NormalizedStream(ABC):
    """A stream that turnout watches: return one from an adapter to opt into mid-stream care.

    ``__next__`` gives the SDK's own chunks, unchanged and in order, and raises only turnout's errors.
    """

    def __iter__(self) -> Iterator[Any]:
        return self

    @abstractmethod
    def __next__(self) -> Any:
        """The next chunk."""

    @property
    @abstractmethod
    def completed(self) -> bool:
        """Whether the provider has marked the answer finished (or no marker can be read from such a stream)."""

    @property
    def usage(self) -> Any:
        """The SDK's own usage object, or None where none came."""
        return None

    @property
    def has_content(self) -> bool:
        """Whether a chunk given so far held content (text, refusal, reasoning, a tool call).

        What comes before it is a prelude, which is kept from the caller until there is content, and thrown away unseen
        where the stream breaks first. A stream that cannot tell says True.
        """
        return True

    @abstractmethod
    def close(self) -> None:
        """Give the connection back. Never raises for a connection that is already gone."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
