"""What the ledger's writer is told to do, and how long it leaves a store in peace that fails."""

from collections.abc import Callable
from typing import Final, Protocol

_FIRST_RETRY_SECONDS: Final = 0.1
_LONGEST_RETRY_SECONDS: Final = 5.0


class Writing(Protocol):
    """The settings of the writer; see ``LedgerConfig``."""

    @property
    def batch_rows(self) -> int: ...
    @property
    def flush_seconds(self) -> float: ...
    @property
    def max_rows(self) -> int: ...
    @property
    def is_durable(self) -> bool: ...


def growing_waits() -> Callable[[int], float]:
    """The seconds until the next trial, from the number of failures in a row."""
    # Imported here: tenacity brings asyncio, which `import turnout` alone does not need.
    from tenacity import RetryCallState, Retrying, wait_exponential

    wait = wait_exponential(multiplier=_FIRST_RETRY_SECONDS, max=_LONGEST_RETRY_SECONDS)
    state = RetryCallState(Retrying(), None, (), {})

    def seconds(failures: int) -> float:
        state.attempt_number = failures
        return float(wait(state))

    return seconds
