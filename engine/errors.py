"""Every error that turnout raises.

    TurnoutError
    ├── ConfigError                              the configuration is wrong (also a ValueError)
    │   ├── MissingApiKeyError
    │   ├── NoProvidersConfiguredError
    │   └── UnsupportedProtocolError
    ├── CallError                                the call is malformed; no provider was contacted (also a ValueError)
    │   ├── InvalidCallError
    │   ├── NoCallVariantError
    │   ├── ModelArgumentConflictError
    │   ├── DuplicateCallVariantProtocolError
    │   └── MixedCallTypeError
    ├── RouteError                               an invocation got no answer
    │   ├── NoEligibleProvidersError             every provider was excluded beforehand
    │   ├── RouterExhaustedError                 every provider tried failed, or one failure stopped the walk
    │   └── DeadlineExceededError                the invocation's time was over (also a TimeoutError)
    ├── RouterBusyError                          the queue at the door is full, or there is no thread to be had
    ├── RouterClosedError                        the router no longer takes work
    ├── ReentrantCallError                       a wait that could never end, refused
    ├── ThreadsStillRunningError                 close() could not end these threads in time
    ├── ProviderError                            one provider's failure
    │   ├── ProviderTimeoutError
    │   ├── ProviderConnectionError
    │   ├── ProviderHTTPError
    │   ├── ProviderResponsesError               a native ``response.failed`` or ``error`` event
    │   ├── ProviderStreamInterruptedError
    │   ├── UnsupportedOperationError
    │   ├── InvalidOperationArgumentsError
    │   └── ProviderSDKNotInstalledError
    └── StorageError                             the ledger's store cannot do what was asked
        ├── StorageDriverMissingError
        ├── StorageLockedError
        ├── DatabaseExistsError                  what was to be made is there already; it was left untouched
        └── SchemaMismatchError

No message holds a key, a header or a request body. Causes are kept: ``__cause__``, and ``original`` on provider errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnout.faults import Fault
from turnout.portable import packed, portable, unpacked


class TurnoutError(Exception):
    """Base of every error that turnout raises. Pickled, it leaves the SDK's own objects behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        return packed(self)

    def __copy__(self) -> BaseException:
        return unpacked(type(self), self.args, vars(self))

    def __deepcopy__(self, memo: object) -> BaseException:
        return self.__copy__()


class ConfigError(TurnoutError, ValueError):
    """The configuration cannot be used as it stands."""


class MissingApiKeyError(ConfigError):
    """Neither ``api_key`` nor a filled ``api_key_env`` gives a key."""


class NoProvidersConfiguredError(ConfigError):
    """A router was built without providers."""


class UnsupportedProtocolError(ConfigError):
    """No adapter is known for a protocol."""


class CallError(TurnoutError, ValueError):
    """The call cannot be routed as the caller wrote it; no provider was contacted."""


class InvalidCallError(CallError):
    """A field of a variant has a value that it cannot have."""


class NoCallVariantError(CallError):
    """The call holds no variant at all."""


class ModelArgumentConflictError(CallError):
    """``arguments`` holds ``"model"``, which the router always injects itself."""


class DuplicateCallVariantProtocolError(CallError):
    """Two variants name the same protocol."""


class MixedCallTypeError(CallError):
    """The variants of one call do not all declare the same call type."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A provider that was not tried, and why. ``reason`` is a stable word, ``detail`` the sentence for people."""

    provider_id: str
    provider_name: str
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{named(self.provider_name, self.provider_id)}: {self.detail}"


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A provider that was tried and failed, with the error itself; ``message`` is its text, cleared of keys."""

    provider_id: str
    provider_name: str
    model: str | None
    fault: Fault
    error: BaseException
    message: str

    def __reduce__(self) -> tuple[Any, ...]:
        error = portable(self.error, self.message)
        return type(self), (self.provider_id, self.provider_name, self.model, self.fault, error, self.message)

    def __str__(self) -> str:
        # turnout's own errors name their provider already.
        who = named(self.provider_name, self.provider_id)
        return self.message if self.message.startswith(who) else f"{who}: {self.message}"


def named(name: str, provider_id: str) -> str:
    """How a provider is named to people: both its display name and its identity, unless they are one."""
    return name if name == provider_id else f'{name} (id="{provider_id}")'


def told(error: BaseException) -> str:
    """An error as one clause: turnout's own speak for themselves, others are led by their type."""
    text = str(error)
    if isinstance(error, TurnoutError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class RouteError(TurnoutError):
    """An invocation ended without an answer. ``attempts`` were tried, ``exclusions`` were not."""

    def __init__(
        self, message: str, *, attempts: Sequence[FailedAttempt] = (), exclusions: Sequence[Exclusion] = ()
    ) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)
        self.exclusions = tuple(exclusions)


def _again(retry_after_seconds: float | None) -> str:
    return "" if retry_after_seconds is None else f"; try again in {retry_after_seconds:.1f} s"


def _listed(attempts: Sequence[FailedAttempt], exclusions: Sequence[Exclusion]) -> str:
    lines = [f"  {number}. {attempt}" for number, attempt in enumerate(attempts, 1)]
    lines += [f"  not tried: {exclusion}" for exclusion in exclusions]
    return "\n".join(lines)


class NoEligibleProvidersError(RouteError):
    """Every configured provider was excluded before any call. ``exclusions`` has one reason for each;
    ``retry_after_seconds`` is when the first of their benches ends, None where waiting will not help."""

    def __init__(self, exclusions: Sequence[Exclusion], retry_after_seconds: float | None = None) -> None:
        super().__init__(
            f"no provider can take this call{_again(retry_after_seconds)}:\n" + _listed((), exclusions),
            exclusions=exclusions,
        )
        self.retry_after_seconds = retry_after_seconds


class RouterExhaustedError(RouteError):
    """Providers were tried and none answered. ``attempts`` are in physical order, each with its own error;
    ``retry_after_seconds`` is when the first bench ends that kept the call from anybody, None where that is none."""

    def __init__(
        self,
        attempts: Sequence[FailedAttempt],
        exclusions: Sequence[Exclusion] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        tries = "1 attempt" if len(attempts) == 1 else f"{len(attempts)} attempts"
        super().__init__(
            f"no provider answered after {tries}{_again(retry_after_seconds)}:\n"
            + _listed(attempts, exclusions),
            attempts=attempts,
            exclusions=exclusions,
        )
        self.retry_after_seconds = retry_after_seconds


class DeadlineExceededError(RouteError, TimeoutError):
    """The time given to the invocation was over before an answer came. ``spent`` says where it went: each place, and
    its seconds."""

    def __init__(
        self,
        timeout_seconds: float,
        attempts: Sequence[FailedAttempt] = (),
        exclusions: Sequence[Exclusion] = (),
        waiting_for: str = "",
        spent: Sequence[tuple[str, float]] = (),
    ) -> None:
        where = f" while waiting for {waiting_for}" if waiting_for else ""
        if spent:
            where += f" ({', '.join(f'{place} {seconds:.2f} s' for place, seconds in spent)})"
        text = f"no answer within {timeout_seconds:g} s{where}; give a longer timeout= or faster providers"
        listed = _listed(attempts, exclusions)
        super().__init__(f"{text}:\n{listed}" if listed else text, attempts=attempts, exclusions=exclusions)
        self.spent = tuple(spent)


class RouterBusyError(TurnoutError):
    """The queue of work is full: submit later, wait with ``block=True``, or raise ``PoolConfig.max_queue``. Or the
    system gives no more threads: try again once this process runs fewer."""


class RouterClosedError(TurnoutError):
    """The router was closed; build a new one."""


class ReentrantCallError(TurnoutError):
    """A thread of the router asked for something that only this very thread could give."""


class ThreadsStillRunningError(TurnoutError):
    """These threads did not end in the time that ``close`` was given. ``names`` lists them."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"still running after close: {', '.join(names)}; give close() more time")
        self.names = tuple(names)


class ProviderError(TurnoutError):
    """One provider's failure, in that provider's own words.

    ``fault`` says which kind it is, ``original`` is the SDK's exception (also ``__cause__``).
    ``retry_after_seconds`` is how long the provider asked to be left alone, ``should_retry`` whether it wants the same
    request again; None where it did not say. Where the provider itself declared an error, ``message``, ``error_type``,
    ``error_code`` and ``body`` (its error object, parsed) are as it sent them, but for the key.
    """

    fault: Fault = Fault.UNKNOWN

    def __init__(
        self,
        text: str,
        *,
        provider_id: str = "",
        provider_name: str = "",
        model: str | None = None,
        fault: Fault | None = None,
        original: BaseException | None = None,
        retry_after_seconds: float | None = None,
        status_code: int | None = None,
        message: str = "",
        error_type: str | None = None,
        error_code: str | None = None,
        body: object = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(text)
        self.provider_id = provider_id
        self.provider_name = provider_name
        self.model = model
        if fault is not None:
            self.fault = Fault(fault)
        self.original = original
        self.retry_after_seconds = retry_after_seconds
        self.status_code = status_code
        self.message = message
        self.error_type = error_type
        self.error_code = error_code
        self.body = body
        self.should_retry = should_retry


class ProviderTimeoutError(ProviderError):
    """The provider did not answer in the time it was given. ``by_caller`` says that the call's own arguments gave that
    time, which may be less than any provider can do with."""

    fault = Fault.TIMEOUT

    def __init__(self, text: str, *, by_caller: bool = False, **known: Any) -> None:
        super().__init__(text, **known)
        self.by_caller = by_caller


class ProviderConnectionError(ProviderError):
    """The provider could not be reached, or the connection broke."""

    fault = Fault.CONNECTION


class ProviderHTTPError(ProviderError):
    """The provider answered with a status other than 2xx: ``status_code``, and ``response``, the SDK's raw response."""

    def __init__(self, text: str, *, response: Any = None, **known: Any) -> None:
        super().__init__(text, **known)
        self.response = response


class ProviderResponsesError(ProviderError):
    """A Responses call that the provider itself declared failed.

    ``event`` is the typed ``response.failed`` or ``error`` event (None for a regular call), ``response`` the typed
    response inside it, ``param`` what the provider says was wrong.
    """

    def __init__(
        self, text: str, *, param: str | None = None, event: Any = None, response: Any = None, **known: Any
    ) -> None:
        super().__init__(text, **known)
        self.param = param
        self.event = event
        self.response = response


class ProviderStreamInterruptedError(ProviderError):
    """A stream ended, or broke, without the provider ever marking it finished."""

    fault = Fault.STREAM_INTERRUPTED


class UnsupportedOperationError(ProviderError):
    """The operation does not exist on the provider's SDK client, or is not one that is routed."""

    fault = Fault.INVALID_OPERATION


class InvalidOperationArgumentsError(ProviderError):
    """The SDK, or HTTP itself, refused the arguments: they are no request that could be sent."""

    fault = Fault.INVALID_OPERATION


class ProviderSDKNotInstalledError(ProviderError):
    """The SDK that a protocol needs is not installed; the message names the extra that brings it."""

    fault = Fault.INVALID_OPERATION


class StorageError(TurnoutError):
    """A metrics store could not do what was asked of it."""


class StorageDriverMissingError(StorageError):
    """The database driver is not installed; the message names the extra that brings it."""


class StorageLockedError(StorageError):
    """Another process holds the database."""


class DatabaseExistsError(StorageError):
    """There is something already where a database or a backup was to be made; it was left untouched."""


class SchemaMismatchError(StorageError):
    """The database is not one that this version can use; it was left untouched."""
