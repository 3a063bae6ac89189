"""Who may be tried now: the hard filters, the health snapshot, and the room at each provider."""

import math
from collections.abc import Generator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from turnout.actors.health import AskPermit, Circuits, Health, Returned
from turnout.actors.reasons import exclusion_detail
from turnout.calls import FilterReason
from turnout.clock import Clock
from turnout.deadline import DEADLINE, Limit
from turnout.decisions.circuit import Admission, State
from turnout.decisions.walk import may_hold_more
from turnout.endings import exhausted, overdue
from turnout.exclusions import excluded
from turnout.invocation import Progress, Target
from turnout.probing import permit_seconds
from turnout.runtime.drivers import is_within_another
from turnout.runtime.lane import Lane, Token
from turnout.runtime.steps import Ask, Step, TakeLane
from turnout.turns import hand_on, waited_for_bench

#: A provider, and the token of its room where that is bounded.
Found = tuple[Target, Token | None]


class Admitted(NamedTuple):
    """A provider that is to be tried, its room taken; ``permit`` where the attempt is a probe."""

    target: Target
    token: Token | None
    permit: int | None = None


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Reads the published health at every attempt. Holds no state of its own."""

    targets: tuple[Target, ...]
    health: Health
    circuits: Circuits
    clock: Clock
    when_all_benched: Literal["raise", "wait", "soonest"]

    def able(self, progress: Progress) -> list[Target]:
        """The providers that can take the request at all; the others are noted with their reasons."""
        request = progress.invocation.request
        able: list[Target] = []
        for target in self.targets:
            try:
                refusal = None if target.supports(request) else excluded(target, *target.why_not(request))
            except Exception as error:
                # That provider's failure, not the route's.
                refusal = excluded(target, FilterReason.UNSUPPORTED, f"supports raised {target.told(error)}")
            if refusal is None:
                able.append(target)
            else:
                progress.exclusions.append(refusal)
        if not able:
            raise exhausted(progress, None)
        return able

    def not_benched(self, able: list[Target], progress: Progress) -> Generator[Step, Any, list[Target]]:
        """Those of ``able`` that may be tried now. Where all are benched it waits, or gives the one whose bench ends
        first of those that may be probed, as it was told to."""
        while True:
            known, seen = len(progress.exclusions), self.circuits.snapshot
            free = [target for target in able if not self.benched(target, progress)]
            if free:
                return free
            if self.when_all_benched == "soonest" and (soonest := self._soonest(able)) is not None:
                progress.ahead_of_time = True
                self._forget_exclusions([soonest], progress)
                return [soonest]
            now = self.clock.monotonic()
            until = min(self.circuits.free_at(target.provider_id, now) for target in able)
            if until == math.inf or self.when_all_benched != "wait":
                raise exhausted(progress, self.retry_after_seconds(able, progress))
            if until >= progress.invocation.deadline.at and not self._any_probed(able, now):
                raise exhausted(progress, until - now)
            yield from waited_for_bench(able, until, seen, progress, self.health, self.clock)
            self.refuse_to_go_on(progress, waiting_for="a provider's bench to end")
            del progress.exclusions[known:]

    def note_benched(self, failed: Target, progress: Progress) -> None:
        """Note a provider that the attempt which has just failed benched, though the bench be over by now."""
        if self.circuits.snapshot.circuits[failed.provider_id].opened:
            progress.benched |= {failed.provider_id}

    def another_round(
        self, able: list[Target], progress: Progress
    ) -> Generator[Step, Any, tuple[list[Target], bool]]:
        """Where nobody is left: whom to try once a bench has ended, and whether they have been tried before. Raises
        where a bench is not to be waited for, or was not what kept anybody."""
        tried = {attempt.by.provider_id for attempt in progress.attempts}
        spent = tried - progress.benched
        kept = [one for one in _open_to(able, progress) if one.provider_id not in spent]
        # Where nobody was tried yet, others had taken the permits of the soonest.
        goes_on = self.when_all_benched == "wait" or (self.when_all_benched == "soonest" and not tried)
        if not goes_on or not kept:
            raise exhausted(progress, self.retry_after_seconds(able, progress))
        progress.ahead_of_time = False
        found = yield from self.not_benched(kept, progress)
        self._forget_exclusions(found, progress)
        untried = [target for target in found if target.provider_id not in tried]
        return untried or found, not untried

    def admitted(
        self, found: Found | list[Lane] | None, remaining: list[Target], progress: Progress
    ) -> Generator[Step, Any, Admitted | None]:
        """What ``next_target`` found, once there is room for it and, where it is half-open, a permit; else the next.
        None where nobody is left."""
        while True:
            if isinstance(found, list):
                found = yield from self._waited_for_room(found, remaining, progress)
            if found is None:
                return None
            target, token = found
            given, permit = self._admission(target, progress), None
            if given is Admission.PROBE:
                permit = self.health.permit_number()
                given = yield from self._permitted(target, token, permit, progress)
                if given is Admission.FREE:
                    # Looked at again: it may have been benched anew.
                    continue
            elif given is Admission.REFUSED and token is not None:
                # Others have the permits, as anybody can see: the owner is not asked.
                token.put_back()
            if given is not Admission.REFUSED:
                return Admitted(target, token, permit)
            self.refuse_to_go_on(progress)
            if not self._noted_as_benched(target, progress):
                # The probe of another has come back meanwhile.
                remaining.insert(0, target)
            found = self.next_target(remaining, progress)

    def next_target(self, remaining: list[Target], progress: Progress) -> Found | list[Lane] | None:
        """Take the first provider left that is not benched by now and has room. Where all that are left are full:
        their lanes."""
        if progress.cut_reason is not None or progress.invocation.deadline.at != math.inf:
            self.refuse_to_go_on(progress)
        clean, pooled = self.circuits.snapshot.clean, progress.pooled
        full: list[Lane] = []
        index = 0
        while index < len(remaining):
            target = remaining[index]
            if not clean and self.benched(target, progress):
                del remaining[index]
                continue
            lane = target.pooled_lane if pooled else target.lane
            if lane is None or (token := lane.try_take()) is not None:
                del remaining[index]
                return target, None if lane is None else token
            full.append(lane)
            index += 1
        return full or None

    def benched(self, target: Target, progress: Progress) -> bool:
        """Whether ``target`` may not be tried now; if so, why is noted."""
        return not progress.ahead_of_time and self._noted_as_benched(target, progress)

    def retry_after_seconds(self, able: list[Target], progress: Progress) -> float | None:
        """Seconds until the first bench ends of those of ``able`` whom the call could have gone to; None where no bench
        keeps it from any."""
        now, circuits = self.clock.monotonic(), self.circuits.snapshot.circuits
        standing = [circuits[target.provider_id] for target in _open_to(able, progress)]
        left = [circuit.remaining_seconds(now) for circuit in standing if circuit.state_at(now) is State.OPEN]
        return min(left, default=None)

    def refuse_to_go_on(self, progress: Progress, waiting_for: str = "") -> None:
        """Raise where the invocation was cut, or its time is over."""
        if progress.cut_reason is not None and progress.cut_reason != DEADLINE:
            raise CancelledError
        if progress.invocation.deadline.expired():
            raise overdue(progress, self.clock.monotonic(), waiting_for)

    def _admission(self, target: Target, progress: Progress) -> Admission:
        now, ahead = self.clock.monotonic(), progress.ahead_of_time
        return self.circuits.admission(target.provider_id, now, ahead_of_time=ahead)

    def _any_probed(self, able: list[Target], now: float) -> bool:
        """Whether one of ``able`` may be free any time, since what becomes of a probe may be known any time."""
        circuits = self.circuits.snapshot.circuits
        return any(circuits[target.provider_id].state_at(now) is State.HALF_OPEN for target in able)

    def _soonest(self, able: list[Target]) -> Target | None:
        """The one whose bench ends first, of those that have a permit left for who comes before its end."""
        now, admission = self.clock.monotonic(), self.circuits.admission
        left = [
            target
            for target in able
            if admission(target.provider_id, now, ahead_of_time=True) is not Admission.REFUSED
        ]
        circuits = self.circuits.snapshot.circuits
        return min(left, key=lambda target: circuits[target.provider_id].open_until, default=None)

    @staticmethod
    def _forget_exclusions(found: list[Target], progress: Progress) -> None:
        names = {target.provider_id for target in found}
        progress.exclusions[:] = [one for one in progress.exclusions if one.provider_id not in names]

    def _noted_as_benched(self, target: Target, progress: Progress) -> bool:
        # Looked at once: what is noted must be what was found.
        now = self.clock.monotonic()
        circuit = self.circuits.refusing(target.provider_id, now)
        if circuit is None:
            return False
        reason = FilterReason.AUTH_DISABLED_THIS_RUN if circuit.disabled else FilterReason.IN_COOLDOWN
        if all(known.provider_id != target.provider_id for known in progress.exclusions):
            progress.exclusions.append(excluded(target, reason, exclusion_detail(circuit, now)))
        return True

    def _permitted(
        self, target: Target, token: Token | None, permit: int, progress: Progress
    ) -> Generator[Step, Any, Admission]:
        """Ask for leave to probe, or learn that none is needed. Where there is no attempt after all, the room that was
        taken for it goes back."""
        given: Admission | None = None
        follows = Admission.REFUSED
        unused = progress.unused = Returned(target.provider_id, permit)
        try:
            asked = AskPermit(target.provider_id, permit, permit_seconds(target), progress.ahead_of_time)
            given = yield Ask(self.health.actor, asked)
            # Looked at again: what the owner heard since may have benched it anew.
            needed = permit if given is Admission.PROBE else None
            if given is not None and self._may_begin(target, progress, needed):
                follows = given
        finally:
            if follows is Admission.REFUSED:
                if given is None or given is Admission.PROBE:
                    # Told, not asked: also where an interrupt lost the reply, and nothing can be waited for any more.
                    self.health.actor.tell(unused)
                if token is not None:
                    token.put_back()
            if follows is not Admission.PROBE:
                progress.unused = None
        return follows

    def _waited_for_room(
        self, lanes: list[Lane], remaining: list[Target], progress: Progress
    ) -> Generator[Step, Any, Found | None]:
        """Wait for room at any provider left, and take it; None where all were benched meanwhile."""
        if progress.pooled and is_within_another():
            # Nobody could give back what the call around it has.
            progress.pooled = False
            found = self.next_target(remaining, progress)
            if not isinstance(found, list):
                return found
            lanes = found
        while True:
            limit = progress.under(Limit(progress.invocation.deadline.at, self.clock))
            full = " or ".join(
                target.identity.described for target in remaining if progress.lane_at(target) in lanes
            )
            progress.waiting_for = f"room at {full}"
            # Others may have room for the permit that this call was woken for.
            hand_on(progress, self.health, self.clock)
            won: Token | None = yield TakeLane(lanes, limit)
            progress.waiting_for = ""
            if won is not None:
                lane = won.lane
                target = next(target for target in remaining if progress.lane_at(target) is lane)
                if self._may_begin(target, progress):
                    remaining.remove(target)
                    return target, won
                won.put_back()
            self.refuse_to_go_on(progress, waiting_for=f"room at {full}")
            found = self.next_target(remaining, progress)
            if not isinstance(found, list):
                return found
            lanes = found

    def _may_begin(self, target: Target, progress: Progress, permit: int | None = None) -> bool:
        """Whether an attempt whose room or permit was waited for is still to be made."""
        if progress.cut_reason is not None or progress.invocation.deadline.expired():
            return False
        now, circuit = self.clock.monotonic(), self.circuits.snapshot.circuits[target.provider_id]
        if permit is not None and not circuit.lets(permit, now):
            return False
        return progress.ahead_of_time or circuit.state_at(now) in (State.CLOSED, State.HALF_OPEN)


def _open_to(able: list[Target], progress: Progress) -> list[Target]:
    """Those of ``able`` that the call may still go to, were they not benched. Whom the policy left out stays out: it
    was asked, and every round must lead on."""
    omitted = {one.provider_id for one in progress.exclusions if one.reason is FilterReason.OMITTED_BY_POLICY}
    return [
        one
        for one in able
        if one.provider_id not in omitted and all(may_hold_more(one.size, size) for size in progress.outgrown)
    ]
