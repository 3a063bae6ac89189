"""Whether an attempt that failed is made again at the same provider."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable

from turnout.calls import CallType, Identity
from turnout.errors import ConfigError
from turnout.faults import Fault
from turnout.policies.bounds import named_ids

#: More attempts than this at one provider in one call are never made.
MOST_ATTEMPTS: Final = 8
_TRANSIENT: Final = frozenset({Fault.TIMEOUT, Fault.CONNECTION, Fault.SERVER_ERROR, Fault.TRANSIENT})

#: A wait of tenacity's (``wait_random_exponential(...)``): called with its ``RetryCallState``, it gives seconds.
Wait = Callable[[Any], float]


def seconds_of(wait: Wait, made: int, error: BaseException) -> float:
    """How long ``wait`` says to wait before the retry that follows ``made`` attempts, the last of which ended in
    ``error``. Raises what it raises, and where it gives no number."""
    # Imported here: tenacity brings asyncio, which a router without retries does not need.
    from tenacity import RetryCallState, Retrying

    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = made
    # Without its frames: what tenacity makes of it may be kept by a wait of the user's own.
    state.set_exception((type(error), error, None))
    seconds: object = wait(state)
    if isinstance(seconds, bool | str):
        raise TypeError(f"{seconds!r} is no number of seconds")
    return float(seconds)  # type: ignore[arg-type]


class RetryProviderScope(StrEnum):
    """Which providers of a call's order may be tried again."""

    #: The first of the order.
    FIRST = "first"
    ALL = "all"
    #: Those named by ``provider_ids``.
    SELECTED = "selected"


@dataclass(frozen=True, slots=True)
class RetryContext:
    """A failed attempt, as a retry policy sees it. ``attempts`` were made at this provider in this call so far;
    ``first`` says whether it leads the order, ``asked`` whether the provider itself asks to be tried again."""

    provider: Identity
    call_type: CallType
    fault: Fault
    error: BaseException
    attempts: int
    first: bool
    asked: bool = False


@runtime_checkable
class RetryPolicy(Protocol):
    """The seam for policies of one's own. Called on walking threads, by any number at once.

    It is asked only where a retry could be: never after a fault that stops the call or benches the provider, on a
    bench, once a stream has opened, beyond ``max_attempts`` (8 at most), or past the deadline.
    """

    @property
    def max_attempts(self) -> int:
        """Attempts at one provider in one call, the first included."""

    def should_retry(self, context: RetryContext) -> bool:
        """Exactly True or False; anything else, or an exception, is taken for False."""


@dataclass(frozen=True, slots=True)
class SameProviderRetryPolicy:
    """Tries the same provider again after a timeout, a broken connection or a server error.

    ``max_attempts`` counts the first one; above 8 it is 8, with one ``UserWarning``. ``wait`` says how long to wait
    before each retry (tenacity's ``wait_random_exponential(max=10)`` and its kind; None: not at all). A Retry-After
    of the provider is waited for where it is longer; above ``max_wait_seconds`` there is no retry.

    A retry repeats what the provider may have done already. Selecting this policy accepts that.
    """

    max_attempts: int = 3
    provider_scope: RetryProviderScope = RetryProviderScope.FIRST
    provider_ids: Sequence[str] = ()
    wait: Wait | None = None
    max_wait_seconds: float = 30.0

    def __post_init__(self) -> None:
        if (
            isinstance(self.max_attempts, bool)
            or not isinstance(self.max_attempts, int)
            or self.max_attempts < 2
        ):
            raise ConfigError(f"max_attempts must be a whole number of 2 or more, not {self.max_attempts!r}")
        if self.max_attempts > MOST_ATTEMPTS:
            warnings.warn(
                f"max_attempts={self.max_attempts} is taken for {MOST_ATTEMPTS}, the most there may be",
                stacklevel=3,
            )
            object.__setattr__(self, "max_attempts", MOST_ATTEMPTS)
        try:
            object.__setattr__(self, "provider_scope", RetryProviderScope(self.provider_scope))
        except ValueError:
            known = ", ".join(scope.value for scope in RetryProviderScope)
            raise ConfigError(f"provider_scope must be one of {known}, not {self.provider_scope!r}") from None
        if self.wait is not None and not callable(self.wait):
            raise ConfigError(
                f"wait must be one of tenacity's, as wait_random_exponential(max=10), not {self.wait!r}"
            )
        if (
            isinstance(self.max_wait_seconds, bool)
            or not isinstance(self.max_wait_seconds, int | float)
            or not 0 <= self.max_wait_seconds <= _LONGEST_WAIT_SECONDS
        ):
            raise ConfigError(f"max_wait_seconds must be a number from 0, not {self.max_wait_seconds!r}")
        object.__setattr__(self, "provider_ids", self._selected())

    def should_retry(self, context: RetryContext) -> bool:
        """Whether the fault may pass, or the provider asked for another try, within this policy's scope."""
        return (context.asked or context.fault in _TRANSIENT) and self._reaches(context)

    def _reaches(self, context: RetryContext) -> bool:
        match self.provider_scope:
            case RetryProviderScope.FIRST:
                return context.first
            case RetryProviderScope.ALL:
                return True
            case RetryProviderScope.SELECTED:
                return context.provider.provider_id in self.provider_ids

    def _selected(self) -> tuple[str, ...]:
        selects = self.provider_scope is RetryProviderScope.SELECTED
        if not selects and not self.provider_ids:
            return ()
        if not selects:
            raise ConfigError(f"provider_ids go with provider_scope=SELECTED, not {self.provider_scope.name}")
        return named_ids("provider_ids", self.provider_ids)


_LONGEST_WAIT_SECONDS: Final = 86_400.0
