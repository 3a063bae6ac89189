"""One configured provider behind the Provider contract: its settings, and the adapter that makes its calls."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Self
from weakref import ref

from turnout.adapters.contract import AnyAdapter
from turnout.calls import ApiProtocol, Attempt, CallType, CallVariant, FilterReason, Outcome
from turnout.config import ProviderConfig
from turnout.deadline import Limit
from turnout.errors import (
    DuplicateCallVariantProtocolError,
    MixedCallTypeError,
    ModelArgumentConflictError,
    NoCallVariantError,
    ProviderError,
    ProviderTimeoutError,
    ReentrantCallError,
    told,
)
from turnout.faults import Failure, Fault


class NativeCall(NamedTuple):
    """One invocation's variants, one per protocol."""

    variants: Mapping[ApiProtocol, CallVariant]
    call_type: CallType

    @classmethod
    def of(cls, calls: CallVariant | Iterable[CallVariant]) -> Self:
        """The caller's variants, checked. Raises a ``CallError`` before any provider is contacted."""
        variants: dict[ApiProtocol, CallVariant] = {}
        call_type: CallType | None = None
        try:
            given = iter((calls,) if isinstance(calls, CallVariant) else calls)
        except TypeError:
            raise NoCallVariantError(f"CallVariants were expected, not {type(calls).__name__}") from None
        for variant in given:
            if not isinstance(variant, CallVariant):
                raise NoCallVariantError(f"a CallVariant was expected, not {type(variant).__name__}")
            if "model" in variant.arguments:
                raise ModelArgumentConflictError(
                    f'the arguments for {variant.protocol} hold "model"; leave it out: each provider\'s own is put in'
                )
            if variant.protocol in variants:
                raise DuplicateCallVariantProtocolError(
                    f"two variants are for {variant.protocol}; give one a protocol"
                )
            if call_type is not None and variant.call_type is not call_type:
                raise MixedCallTypeError("the variants of one call must all be regular or all be streaming")
            call_type = variant.call_type
            variants[variant.protocol] = variant
        if call_type is None:
            raise NoCallVariantError(
                "the call holds no CallVariant; give one for each protocol that may answer"
            )
        return tuple.__new__(cls, (variants, call_type))


#: Asked before the fault table: which fault an error is, or None to leave it to the table.
Classifier = Callable[[Exception], Fault | None]


class NativeProvider:
    """A provider as the engine sees it. Answers stay native; failures are turnout's own errors."""

    def __init__(
        self,
        config: ProviderConfig,
        adapter_of: Callable[[ProviderConfig], AnyAdapter],
        supported_protocols: Collection[ApiProtocol],
        classifier: Classifier | None = None,
    ) -> None:
        self.config = config
        self._adapter_of = adapter_of
        # Kept apart from the configuration, whose fields are slow to look up: every call needs them.
        self._protocol, self._model, self._extra_body = config.protocol, config.model, config.extra_body
        self._classifier = classifier
        self._never = _never(config, supported_protocols)
        # A key in the environment may change while we run; one in the configuration cannot.
        self._keyed = config.api_key is not None and config.has_key()
        #: By the identity of an adapter's class, as long as that lives: a factory may define one for each call, and a
        #: dictionary of weak keys costs ten times as much.
        self._extras: dict[int, frozenset[str]] = {}
        self._classes: dict[int, ref[type]] = {}

    @property
    def name(self) -> str:
        return self.config.name

    def supports(self, request: NativeCall) -> bool:
        """Whether this provider can take the call, as far as that can be told without making it."""
        return (
            self._never is None
            and self._protocol in request.variants
            and (self._keyed or self.config.has_key())
        )

    def why_not(self, request: NativeCall) -> tuple[FilterReason, str]:
        """Why it cannot."""
        if self._never is not None:
            return self._never
        config = self.config
        if self._protocol not in request.variants:
            spoken = " or ".join(request.variants)
            return (
                FilterReason.NO_MATCHING_VARIANT,
                f"the call has no variant for {self._protocol}; add one, or a provider that speaks {spoken}",
            )
        where = "none is set"
        if config.api_key_env:
            where = f"the environment variable {config.api_key_env} is not set, or empty"
        return FilterReason.MISSING_API_KEY, f"no API key: {where}; set api_key or api_key_env"

    def invoke(self, request: NativeCall, deadline: Limit) -> Any:
        """The native call through the adapter, which is given the limit, or its seconds, where it takes them."""
        variant = request.variants[self._protocol]
        arguments: dict[str, Any] = {**variant.arguments, "model": self._model}
        if self._extra_body:
            arguments |= extra_body_beside(variant.arguments, self._extra_body)
        adapter: Any = self._adapter_of(self.config)
        extras = self._extras.get(id(type(adapter)))
        if extras is None:
            extras = self._extras_of(adapter)
        if "limit" in extras:
            return adapter.invoke(variant.operation, arguments, limit=deadline)
        if "timeout" in extras:
            return adapter.invoke(variant.operation, arguments, timeout=deadline.remaining())
        return adapter.invoke(variant.operation, arguments)

    def told(self, error: BaseException) -> str:
        """An error as text, without this provider's key."""
        return self.config.without_key(told(error))

    def classify(self, error: Exception) -> Failure:
        if self._classifier is not None and (fault := self._classifier(error)) is not None:
            return self._failure(error, Fault(fault))
        if isinstance(error, ProviderError):
            return self._failure(error, error.fault)
        if isinstance(error, ReentrantCallError):
            # An adapter that waits for its own router: no provider has done anything.
            return Failure(Fault.UNKNOWN, self.told(error), by_caller=True)
        return self._failure(error, Fault.TIMEOUT if isinstance(error, TimeoutError) else Fault.UNKNOWN)

    def assess(self, result: Any, attempt: Attempt) -> Outcome:
        return Outcome.OK

    def _extras_of(self, adapter: Any) -> frozenset[str]:
        """Which of our extras the adapter's ``invoke`` takes; learnt once per class."""
        known = frozenset(inspect.signature(adapter.invoke).parameters) & {"limit", "timeout"}
        kind = type(adapter)
        if hasattr(kind, "invoke"):
            key = id(kind)
            self._classes[key] = ref(kind, partial(_forget, key, self._extras, self._classes))
            self._extras[key] = known
        return known

    def _failure(self, error: Exception, fault: Fault) -> Failure:
        if not isinstance(error, ProviderError):
            return Failure(fault, self.told(error))
        return Failure(
            fault,
            self.config.without_key(str(error)),
            error.retry_after_seconds,
            error.status_code,
            None if error.error_code is None else self.config.without_key(str(error.error_code)),
            error.should_retry,
            isinstance(error, ProviderTimeoutError) and error.by_caller,
        )


def _forget(
    key: int, extras: dict[int, frozenset[str]], classes: dict[int, "ref[type]"], gone: object
) -> None:
    extras.pop(key, None)
    classes.pop(key, None)


def _never(config: ProviderConfig, supported: Collection[ApiProtocol]) -> tuple[FilterReason, str] | None:
    """Why a provider as configured can take no call at all."""
    if not config.enabled:
        return FilterReason.DISABLED, "disabled by its configuration (enabled=False)"
    if config.protocol not in supported:
        return FilterReason.UNSUPPORTED_PROTOCOL, f"no adapter for the protocol {config.protocol.value}"
    return None


def extra_body_beside(given: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """The argument ``extra_body`` of a provider that adds ``ours`` where the caller gave no such name, itself or in an
    ``extra_body`` of its own; none where the caller's is no mapping: the SDK says what is wrong with it."""
    theirs = given.get("extra_body") or {}
    if not isinstance(theirs, Mapping):
        return {}
    return {"extra_body": {**{name: value for name, value in ours.items() if name not in given}, **theirs}}
