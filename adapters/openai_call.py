"""What the OpenAI adapters share: one native call, within a Limit, through the provider's one SDK client."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from loguru import logger

from turnout.adapters.openai_client import ClientSource, SdkClient
from turnout.adapters.openai_end import EndWatch
from turnout.adapters.openai_faults import Seam
from turnout.adapters.openai_stream import WatchedStream
from turnout.adapters.openai_words import error_in
from turnout.clock import Clock, SystemClock
from turnout.config import ProviderConfig
from turnout.deadline import Limit
from turnout.errors import ProviderError, TurnoutError, named

_RAW: Final = "with_raw_response."
_SENDS_NOTHING: Final = (
    'called, it sends nothing; use "create" itself, with stream=True where the answer is to stream'
)
_RAW_STREAM: Final = (
    "a raw response is not watched while it streams; leave out with_raw_response, or stream=True"
)


class OpenAIAdapter(ABC):
    """Makes native calls through the openai SDK for one provider, from any number of threads.

    The SDK is imported, and its client built, at the first call.
    """

    #: The class of stream that a streaming answer becomes.
    stream_class: type[WatchedStream]
    #: The operation whose answers have a shape that is known here.
    known_operation: str
    #: The class of an error that the provider declares under HTTP 200.
    declared_as: type[ProviderError] = ProviderError

    def __init__(self, config: ProviderConfig, *, clock: Clock | None = None) -> None:
        self._config = config
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._seam = Seam(config, self._clock, self.declared_as)
        self._clients = ClientSource(config)
        self._told: dict[str, object] = {}

    def invoke(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        limit: Limit | None = None,
    ) -> Any:
        """The SDK's own answer to ``operation`` (a dotted path on its client), or a watched stream of it.

        The attempt ends with ``limit``; without one, after ``timeout`` or else the provider's ``timeout_seconds``. A
        stream's content moves that end on.
        Raises ProviderError, whatever went wrong; MissingApiKeyError where there is no key.
        """
        if limit is not None:
            self._seam.refuse_late(limit)
        before = self._clock.monotonic()
        client = self._client()
        if limit is not None:
            # The first call imports the SDK and builds the client: that time is not the provider's.
            limit.until = min(limit.until + self._clock.monotonic() - before, limit.latest)
        stream = None
        if limit is None:
            # Only now: the first call also imports the SDK and builds the client, which is not the provider's doing.
            granted = self._config.timeout_seconds if timeout is None else timeout
            limit = Limit(self._clock.monotonic() + granted, self._clock)
        else:
            granted = limit.remaining()
        watch = EndWatch(limit)
        try:
            native = self._operation(client, operation)
            sent, watch.own = self._sent_arguments(arguments, granted if limit.until != math.inf else None)
            answer = self._called(client, native, sent, watch, granted)
            if isinstance(answer, client.stream_type):
                stream = self._stream(answer, client, watch, granted, operation, arguments)
                return stream
            if not watch.sent:
                raise self._seam.unsupported(operation, _SENDS_NOTHING)
            if _RAW in operation:
                self._judge_raw(answer, operation, watch, granted)
            else:
                self._judge(answer, operation)
            return answer
        finally:
            if stream is None:
                watch.let_go()
                client.leave()

    def close(self) -> None:
        """Close the SDK client, once calls in flight and open streams are done with it."""
        self._clients.close()

    @abstractmethod
    def _refusal(self, operation: str) -> str | None:
        """Why an operation is not routed on this protocol; None where it is."""

    @abstractmethod
    def _judge(self, answer: Any, operation: str) -> None:
        """Raise the failure that a whole answer declares."""

    def _judge_raw(self, raw: Any, operation: str, watch: EndWatch, granted: float) -> None:
        """As ``_judge``, for the SDK's raw response. One whose body is still to come would be left to nobody's care."""
        if not raw.http_response.is_closed:
            raw.http_response.close()
            raise self._seam.unsupported(operation, _RAW_STREAM)
        if operation.replace(_RAW, "") != self.known_operation:
            return
        try:
            answer = raw.parse()
        except Exception as error:
            raise self._seam.mapped(error, watch, seconds=granted) from error
        self._judge(answer, self.known_operation)

    def _refuse_error(self, answer: Any) -> None:
        """Raise what a whole answer declares in the shape of an error: some servers put theirs under HTTP 200."""
        if (error := error_in(answer)) is not None:
            raise self._seam.declared(error)

    def _client(self) -> SdkClient:
        try:
            return self._clients.take()
        except TurnoutError:
            raise
        except Exception as error:
            raise self._seam.unbuilt(error) from error

    def _operation(self, client: SdkClient, operation: str) -> Any:
        why = self._refusal(operation)
        if why is None:
            native = client.operation(operation)
            if native is not None:
                return native
            why = "the installed openai SDK has no such public method"
        raise self._seam.unsupported(operation, why)

    def _called(
        self, client: SdkClient, native: Any, sent: dict[str, Any], watch: EndWatch, granted: float
    ) -> Any:
        here = client.here
        before, here.watch = here.watch, watch
        try:
            answer = native(**sent)
        except Exception as error:
            raise self._seam.mapped(error, watch, seconds=granted) from error
        finally:
            here.watch = before
        if watch.limit is not None and watch.limit.reason is not None:
            if isinstance(answer, client.stream_type):
                answer.close()  # type: ignore[attr-defined]
            raise self._seam.cut(watch.limit.reason)
        return answer

    def _sent_arguments(
        self, arguments: Mapping[str, Any], granted: float | None
    ) -> tuple[dict[str, Any], bool]:
        """The arguments with the time given to them, and whether that time is ours."""
        sent = dict(arguments)
        if granted is None:
            return sent, False
        timeout = sent.get("timeout")
        if not all(seconds > 0 for seconds in _seconds_in(timeout)):
            raise self._seam.untimely()
        if timeout is not None and (
            hasattr(timeout, "as_dict") or (isinstance(timeout, int | float) and timeout < granted)
        ):
            # A timeout with parts needs no merging: each wait is clamped to the Limit anyway.
            return sent, False
        sent["timeout"] = granted
        return sent, True

    def _stream(
        self,
        native: Any,
        client: SdkClient,
        watch: EndWatch,
        granted: float,
        operation: str,
        arguments: Mapping[str, Any],
    ) -> WatchedStream:
        return self.stream_class(
            native,
            client,
            watch,
            self._seam,
            granted_seconds=granted,
            idle_seconds=self._config.idle_timeout_seconds or self._config.timeout_seconds,
            asked=answers_asked(operation, arguments),
            known=operation == self.known_operation,
            on_unreadable=lambda: self._tell_unreadable(operation),
        )

    def _tell_unreadable(self, operation: str) -> None:
        # Of threads that come at once, one finds the token that is its own.
        mine = object()
        if self._told.setdefault(operation, mine) is not mine:
            return
        config = self._config
        logger.warning(
            "{}: the stream of {} has a shape that is not known here, so a cut answer cannot be told from a whole one",
            named(config.name, config.provider_id),
            operation,
        )


def answers_asked(operation: str, arguments: Mapping[str, Any]) -> int:
    """How many answers a call asks for at once: ``n`` to each of its prompts."""
    more = arguments.get("extra_body")
    # What is given beside the arguments is what is sent.
    given = {**arguments, **more} if isinstance(more, Mapping) else arguments
    n = given.get("n")
    asked = n if isinstance(n, int) and n > 1 else 1
    prompts = given.get("prompt")
    if operation != "completions.create" or not isinstance(prompts, list) or not prompts:
        return asked
    # A list of tokens is one prompt.
    return asked if isinstance(prompts[0], int) else asked * len(prompts)


def _seconds_in(timeout: object) -> list[float]:
    """The times that a timeout gives: one, one for each of its parts, or none."""
    parts = timeout.as_dict().values() if hasattr(timeout, "as_dict") else [timeout]
    return [part for part in parts if isinstance(part, int | float)]
