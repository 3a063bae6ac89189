"""How long a probe may take: the life of its permit, and how its stream, as long as it is read, prolongs that."""

import math
from typing import Any, Final

from turnout.actors.health import Renewed
from turnout.adapters.contract import NormalizedStream
from turnout.clock import Clock
from turnout.invocation import Target
from turnout.runtime.contract import ActorRef

#: A permit outlives the attempt that it is for by this much: time to tell of its end.
_SLACK_SECONDS: Final = 5.0


def permit_seconds(target: Target) -> float:
    """How long a permit lasts that is not renewed: longer than an attempt at ``target`` may keep silent."""
    longest = max(target.timeout_seconds, target.first_token_seconds or 0.0, target.idle_seconds or 0.0)
    return longest + _SLACK_SECONDS


class ProbeStream(NormalizedStream):
    """The stream of a probe. While it gives chunks its permit is renewed, so that no other call probes beside it; where
    nobody reads it any more, the permit lapses."""

    def __init__(
        self, stream: NormalizedStream, target: Target, permit: int, health: ActorRef, clock: Clock
    ) -> None:
        self._stream = stream
        self._provider_id = target.provider_id
        self._permit = permit
        self._health = health
        self._clock = clock
        self._longest_seconds = permit_seconds(target)
        self._renew_at = -math.inf

    def __next__(self) -> Any:
        chunk = next(self._stream)
        now = self._clock.monotonic()
        if now >= self._renew_at:
            self._renew(now)
        return chunk

    def _renew(self, now: float) -> None:
        # For twice the longest silence, and again after half of that: the chunk that is to renew it comes in time.
        renewal = Renewed(self._provider_id, self._permit, now + 2 * self._longest_seconds)
        # Told, not asked: its reader is not to wait. Where it was not taken, the next chunk tells it.
        if self._health.tell(renewal):
            self._renew_at = now + self._longest_seconds

    @property
    def completed(self) -> bool:
        return self._stream.completed

    @property
    def usage(self) -> Any:
        return self._stream.usage

    @property
    def has_content(self) -> bool:
        return self._stream.has_content

    def close(self) -> None:
        self._stream.close()
