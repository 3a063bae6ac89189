"""Whose failures another provider had to stand in for."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

from turnout.calls import Reason

_MADE_FOR_ANOTHER: Final = frozenset({Reason.FAILOVER, Reason.STREAM_RESTART, Reason.HEDGE})
#: Attempts whose other half may still come. It comes soon where rows are told oldest first, or never.
MOST_OPEN: Final = 32_768

_Place = tuple[Hashable, int]


class Failovers:
    """Puts attempts that failed beside those that were made in their stead: the next of the same invocation, at another
    provider. Both may come in any order, with any others in between; beyond ``MOST_OPEN`` of either that wait for their
    other half, the ones told first are forgotten."""

    def __init__(self) -> None:
        self._failed: OrderedDict[_Place, str] = OrderedDict()
        self._followed: OrderedDict[_Place, str] = OrderedDict()

    def told(
        self, invocation: Hashable, number: int, reason: str, provider_id: str, *, failed: bool
    ) -> Iterator[str]:
        """Take in an attempt; the providers whose failures turn out to have had another attempt made in their stead."""
        if failed:
            follower = self._followed.pop((invocation, number), None)
            if follower is None:
                _keep(self._failed, (invocation, number), provider_id)
            elif follower != provider_id:
                yield provider_id
        if reason in _MADE_FOR_ANOTHER:
            before = (invocation, number - 1)
            cause = self._failed.pop(before, None)
            if cause is None:
                _keep(self._followed, before, provider_id)
            elif cause != provider_id:
                yield cause


def _keep(waiting: OrderedDict[_Place, str], place: _Place, provider_id: str) -> None:
    waiting[place] = provider_id
    if len(waiting) > MOST_OPEN:
        waiting.popitem(last=False)
