"""The room that each provider has, so that one that hangs cannot take what the others need."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from turnout.decisions.share import default_share
from turnout.invocation import Target
from turnout.runtime.contract import Runtime
from turnout.runtime.lane import Claim, Lane
from turnout.runtime.pace import Pace, PacedLane


class Bulkheads:
    """Gives ``targets`` their lanes, and moves the default shares with the pool's size."""

    def __init__(self, targets: Sequence[Target], runtime: Runtime) -> None:
        self._runtime = runtime
        self._providers = sum(target.enabled for target in targets)
        self._shares: list[Lane] = []
        # Held only by those who resize, against each other.
        self._resizing = threading.Lock()
        self.targets = tuple(self._with_lanes(target) for target in targets)

    def resize(self, max_workers: int) -> None:
        """Change the number of workers, and with it the shares."""
        with self._resizing:
            self._runtime.workers.resize(max_workers)
            share = default_share(max_workers, self._providers)
            if share is not None:
                for lane in self._shares:
                    lane.resize(share)

    def waiting(self) -> tuple[int, dict[str, int]]:
        """How many calls wait for room, all told and by provider."""
        lines = {target.provider_id: _claims(target) for target in self.targets}
        return len(set().union(*lines.values())), {name: len(line) for name, line in lines.items()}

    def _with_lanes(self, target: Target) -> Target:
        pace = None
        if target.min_interval_seconds:
            pace = Pace(target.min_interval_seconds, self._runtime.clock, self._runtime.alarms)
        lane = _lane(target.max_concurrency, pace)
        share = default_share(self._runtime.workers.max_workers, self._providers)
        if target.max_concurrency is not None or share is None:
            return replace(target, lane=lane, pooled_lane=lane, pace=pace)
        pooled_lane = Lane(share) if pace is None else PacedLane(share, pace)
        self._shares.append(pooled_lane)
        return replace(target, lane=lane, pooled_lane=pooled_lane, pace=pace)


def _lane(width: int | None, pace: Pace | None) -> Lane | None:
    if pace is not None:
        return PacedLane(width, pace)
    return None if width is None else Lane(width)


def _claims(target: Target) -> set[Claim]:
    lanes = {lane for lane in (target.lane, target.pooled_lane) if lane is not None}
    return {claim for lane in lanes for claim in lane.waiting}
