"""The one seam where exceptions of the openai SDK, and of the HTTP library under it, become turnout's errors."""

import importlib
import json
from dataclasses import dataclass
from typing import Any

from turnout.adapters.openai_awaited import Awaited
from turnout.adapters.openai_codes import fault_of_code, fault_of_status
from turnout.adapters.openai_exceptions import (
    is_of_a_header,
    is_of_http,
    of_parsing,
    plain,
    refuses_arguments,
)
from turnout.adapters.openai_words import (
    NEXT_STEP,
    field,
    message_of,
    phrase,
    retry_after_seconds,
    rewritten,
    said,
    should_retry,
    text_of,
)
from turnout.adapters.shortage import shortage
from turnout.adapters.wire import Watch
from turnout.clock import Clock
from turnout.config import ProviderConfig
from turnout.deadline import DEADLINE, Limit
from turnout.errors import (
    InvalidOperationArgumentsError,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderResponsesError,
    ProviderStreamInterruptedError,
    ProviderTimeoutError,
    UnsupportedOperationError,
    named,
)
from turnout.faults import Fault


@dataclass(frozen=True, slots=True)
class Seam:
    """Makes the errors of one provider. Every text names the provider and the model and hides the provider's key."""

    config: ProviderConfig
    clock: Clock
    #: The class of an error that the provider declares in words of its own, under HTTP 200.
    declared_as: type[ProviderError] = ProviderError

    def mapped(
        self, error: Exception, watch: Watch, *, seconds: float, awaited: Awaited = Awaited.ANSWER
    ) -> ProviderError:
        """The ProviderError for whatever came out of the SDK. ``seconds`` is the time that the wait was given.

        What the attempt's Limit says outranks the exception itself.
        """
        mid_stream = awaited is not Awaited.ANSWER
        ended = self.ended(watch, seconds, awaited, error)
        if ended is not None:
            return ended
        if is_of_a_header(error) or is_of_a_header(error.__cause__):
            return self.unsendable(error)
        if watch.sent and (unparsed := of_parsing(error)) is not None:
            fault, text = unparsed
            return self._error(ProviderError, text, error, fault=fault)
        openai = importlib.import_module("openai")
        if isinstance(error, openai.APIStatusError):
            return self._status(error)
        if isinstance(error, openai.APITimeoutError) or is_of_http(error, "TimeoutException"):
            return self._error(
                ProviderTimeoutError,
                "did not answer within the timeout that the call's arguments give",
                error,
                by_caller=True,
            )
        if isinstance(error, openai.APIConnectionError) or is_of_http(error, "RequestError"):
            return self._broken(error, mid_stream)
        if watch.sent and isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            return self.unreadable(error, mid_stream=mid_stream)
        if type(error) is openai.APIError:
            return self.declared(field(error, "body"), error)
        if not watch.sent and refuses_arguments(error):
            return self.unfit(error)
        return self._error(ProviderError, f"failed: {plain(error)}", error, fault=Fault.UNKNOWN)

    def ended(
        self, watch: Watch, seconds: float, awaited: Awaited, error: BaseException | None = None
    ) -> ProviderError | None:
        """The error of an attempt that its own Limit ended; None where the Limit did not."""
        limit = watch.limit
        if limit is None:
            return None
        if limit.reason is not None:
            return self.cut(limit.reason, error)
        if not watch.over:
            return None
        if awaited is Awaited.MORE and limit.until >= limit.latest:
            awaited = Awaited.WHOLE
        return self.late(seconds, awaited, error)

    def raise_if_ended(self, watch: Watch, seconds: float, awaited: Awaited) -> None:
        """Raise what the attempt's own Limit says, where it says anything."""
        if watch.over or (watch.limit is not None and watch.limit.reason is not None):
            raise self.ended(watch, seconds, awaited) or self.late(seconds, awaited)

    def refuse_late(self, limit: Limit) -> None:
        """Raise for an attempt whose Limit is over before anything is sent."""
        if limit.reason is not None:
            raise self.cut(limit.reason)
        if limit.expired():
            raise self.late(0.0)

    def cut(self, reason: str, error: BaseException | None = None) -> ProviderError:
        fault = Fault.DEADLINE if reason == DEADLINE else Fault.CANCELLED
        return self._error(ProviderError, f"was cut off: {reason}", error, fault=fault)

    def late(
        self, seconds: float, awaited: Awaited = Awaited.ANSWER, error: BaseException | None = None
    ) -> ProviderError:
        given = f"{round(seconds, 1 if seconds >= 1.0 else 2):g} s"
        missed, longer = awaited.value
        return self._error(
            ProviderTimeoutError, f"{missed.format(given)}; give it longer with {longer}", error
        )

    def interrupted(self, why: str) -> ProviderError:
        return self._error(ProviderStreamInterruptedError, why, None)

    def unreadable(self, error: Exception | None = None, *, mid_stream: bool = False) -> ProviderError:
        """The error for bytes that are no JSON."""
        if mid_stream:
            return self._error(ProviderStreamInterruptedError, "sent a malformed chunk", error)
        text = "answered with something that is not JSON; check its base_url and protocol"
        return self._error(ProviderError, text, error, fault=Fault.UNKNOWN)

    def no_answer(self) -> ProviderError:
        """The error for an answer without what every answer of its operation has."""
        text = "answered with JSON that is no answer; check its base_url and protocol"
        return self._error(self.declared_as, text, None, fault=Fault.SERVER_ERROR)

    def declares(self, error: Exception | None) -> bool:
        """Whether an exception out of a stream is the provider's own word, not a mishap on the way."""
        return isinstance(error, ProviderError) or type(error).__name__ == "APIError"

    def unbuilt(self, error: Exception) -> ProviderError:
        """The error for an SDK client that could not be made: its provider's own matter, whatever was asked."""
        text = f"could not be asked, the SDK's client for it could not be built: {plain(error)}"
        step = "check its base_url (or OPENAI_BASE_URL), and the proxy and certificates that the environment names"
        return self._error(ProviderError, f"{text}; {step}", error, fault=Fault.TERMINAL)

    def unsupported(self, operation: str, why: str) -> ProviderError:
        return self._error(UnsupportedOperationError, f'cannot be asked for "{operation}": {why}', None)

    def unfit(self, error: Exception) -> ProviderError:
        """The error for arguments that the SDK refused before it sent anything."""
        # Only these texts are known to hold names, never the caller's values.
        spoken = isinstance(error, TypeError | UnicodeError)
        why = f"{type(error).__name__}: {error}" if spoken else type(error).__name__
        return self._error(
            InvalidOperationArgumentsError, f"was sent nothing, the SDK refuses the arguments: {why}", error
        )

    def untimely(self) -> ProviderError:
        """The error for arguments with a timeout in which nothing can be done."""
        text = "was sent nothing: the timeout= that the call's arguments give must be more than 0 seconds"
        return self._error(InvalidOperationArgumentsError, text, None)

    def unsendable(self, error: Exception) -> ProviderError:
        """The error for a header that HTTP does not allow. It is the caller's: such a key never comes so far."""
        # The exception's own text would quote the header, which is the caller's, and a secret perhaps.
        rewritten(error, lambda _: "a header that HTTP does not allow")
        text = "could not be asked: a header that the call's arguments give cannot be sent; correct its extra_headers"
        return self._error(InvalidOperationArgumentsError, text, error)

    def declared(self, body: object, error: Exception | None = None) -> ProviderError:
        """The error for an error object that came in a stream, or as the answer, under HTTP 200."""
        code, error_type, message = (
            self._word(field(body, "code") or field(body, "error_code")),
            self._word(field(body, "type")),
            message_of(body),
        )
        known: dict[str, Any] = {}
        if self.declared_as is ProviderResponsesError:
            known["param"] = self._word(field(body, "param"))
        return self._error(
            self.declared_as,
            f"declared an error ({code or error_type or 'no code'}){said(message)}",
            error,
            fault=fault_of_code(code, error_type, message),
            message=self.config.without_key(message),
            error_type=error_type,
            error_code=code or error_type,
            body=self._body(body),
            **known,
        )

    def failed(self, event: Any, response: Any) -> ProviderError:
        """The error for a Responses call that ended as failed: a typed event, or a whole response (``event`` None)."""
        source = field(response, "error") if response is not None else event
        code, message = self._word(field(source, "code")), message_of(source)
        text = f"declared the response failed ({code or 'no code'}){said(message)}"
        return self._error(
            ProviderResponsesError,
            text,
            None,
            fault=fault_of_code(code, None, message),
            error_code=code,
            message=self.config.without_key(message),
            param=self._word(field(source, "param")),
            event=event,
            response=response,
        )

    def _word(self, value: object) -> str | None:
        """A code or type as text. Some servers echo the key even there, and codes go to the ledger."""
        word = text_of(value)
        return None if word is None else self.config.without_key(word)

    def _body(self, body: Any) -> Any:
        """A parsed error object with the key taken out of its texts; nothing where it is nested deeper than can be
        followed: what it means is known without it."""
        try:
            return self._without_key(body)
        except (RecursionError, ValueError):
            return None

    def _without_key(self, body: Any) -> Any:
        """One that the SDK typed becomes plain again."""
        if isinstance(body, str):
            return self.config.without_key(body)
        if isinstance(body, dict):
            return {self._without_key(name): self._without_key(value) for name, value in body.items()}
        if isinstance(body, list):
            return [self._without_key(value) for value in body]
        return self._without_key(body.to_dict(warnings=False)) if hasattr(body, "to_dict") else body

    def _status(self, error: Any) -> ProviderError:
        body, status = error.body, int(error.status_code)
        code, error_type = self._word(field(body, "code")), self._word(field(body, "type"))
        message = message_of(body)
        fault = fault_of_status(status, code, error_type, message)
        wait = retry_after_seconds(error.response.headers, self.clock.wall())
        step = "check its model and base_url" if status == 404 else NEXT_STEP.get(fault)
        if step is None and wait is not None:
            step = f"it asks to be left alone for {wait:g} s"
        return self._error(
            ProviderHTTPError,
            f"answered HTTP {phrase(status)}{said(message, step)}",
            error,
            fault=fault,
            status_code=status,
            error_type=error_type,
            error_code=code,
            message=self.config.without_key(message),
            body=self._body(body),
            response=error.response,
            retry_after_seconds=wait,
            should_retry=should_retry(error.response.headers),
        )

    def _broken(self, error: Exception, mid_stream: bool) -> ProviderError:
        cause = (
            error.__cause__
            if error.__cause__ is not None and not is_of_http(error, "RequestError")
            else error
        )
        why = plain(cause)
        if mid_stream:
            return self._error(
                ProviderStreamInterruptedError, f"broke off in the middle of the stream: {why}", error
            )
        if (short := shortage(error)) is not None:
            # Another provider would fare no better, and none is to be benched for it.
            text = (
                f"could not be asked, this process has run out of what a connection needs: {short.strerror}"
            )
            step = "raise its limit (ulimit -n), or lower PoolConfig.max_workers"
            return self._error(ProviderError, f"{text}; {step}", error, fault=Fault.TERMINAL)
        text = f"could not be reached, or hung up: {why}; check its base_url and the network"
        return self._error(ProviderConnectionError, text, error)

    def _error(
        self, kind: type[ProviderError], text: str, original: BaseException | None, **known: Any
    ) -> ProviderError:
        config = self.config
        who = named(config.name, config.provider_id)
        rewritten(original, config.without_key)
        return kind(
            config.without_key(f"{who}, model {config.model}, {text}"),
            provider_id=config.provider_id,
            provider_name=config.name,
            model=config.model,
            original=original,
            **known,
        )
