"""The circuit against a naive model, over any history that Hypothesis finds."""

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from turnout.decisions.circuit import (
    CLEAN,
    Admission,
    Permit,
    State,
    Thresholds,
    after_failure,
    after_success,
    renewed,
    with_permit,
    without_permit,
)
from turnout.faults import FAULTS, Effect, Failure, Fault

RULES = Thresholds(
    failure_threshold=2,
    failure_cooldown_seconds=10.0,
    rate_limit_cooldown_seconds=20.0,
    quota_cooldown_seconds=200.0,
    max_cooldown_seconds=50.0,
    max_retry_after_seconds=100.0,
    half_open_probes=2,
)
NEVER = -math.inf


class CircuitMachine(RuleBasedStateMachine):
    """What happens to a provider, in the words of the rules: a bench is a time and nothing else, permits are a set."""

    def __init__(self) -> None:
        super().__init__()
        self.circuit, self.now, self.epoch, self.numbers = CLEAN, 0.0, 1, 0
        self.benched_until: float | None = None
        self.disabled = False
        self.failures = 0
        self.failed_probes = 0
        self.benched_for: Effect | None = None
        self.opened_in = 0
        self.permits: dict[int, float] = {}
        #: Those given before it opened anew, or was disabled: no renewal saves them.
        self.late: set[int] = set()
        #: By permit, the epoch in which a probe began whose outcome is not known, be its permit good or not.
        self.probing: dict[int, int] = {}

    @property
    def state(self) -> State:
        if self.disabled:
            return State.DISABLED
        if self.benched_until is None:
            return State.CLOSED
        return State.OPEN if self.now < self.benched_until else State.HALF_OPEN

    @rule(seconds=st.sampled_from([0.0, 0.5, 5.0, 10.0, 50.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(for_seconds=st.sampled_from([1.0, 20.0, 1e6]), ahead=st.booleans())
    def somebody_asks_for_a_permit(self, for_seconds: float, ahead: bool) -> None:
        self.numbers += 1
        permit = Permit(self.numbers, self.now + for_seconds)
        out = {number: end for number, end in self.permits.items() if end > self.now}
        due = self.state is State.HALF_OPEN or (ahead and self.state is State.OPEN)
        given = due and len(out) < RULES.half_open_probes
        before = self.circuit
        self.circuit = with_permit(before, permit, self.now, RULES, ahead_of_time=ahead)
        assert (self.circuit is not before) == given
        if given:
            self.permits = {**out, permit.number: permit.expires_at}
            self.probing[permit.number] = self.epoch

    @rule(
        lateness=st.integers(0, 3),
        fault=st.sampled_from(Fault),
        asked=st.sampled_from([None, -1.0, 0.0, 15.0, 1e9]),
    )
    def an_attempt_fails(self, lateness: int, fault: Fault, asked: float | None) -> None:
        self._fail(fault, asked, max(self.epoch - lateness, 0), None)

    @precondition(lambda self: self.probing)
    @rule(fault=st.sampled_from(Fault), asked=st.sampled_from([None, 0.0, 15.0]), data=st.data())
    def a_probe_fails(self, fault: Fault, asked: float | None, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.probing)))
        self._fail(fault, asked, self.probing[number], number)

    @rule(lateness=st.integers(0, 3))
    def an_attempt_succeeds(self, lateness: int) -> None:
        began = max(self.epoch - lateness, 0)
        self.circuit = after_success(self.circuit, began)
        if self.state is State.CLOSED and began >= self.opened_in:
            self.failures = 0
        self.epoch += 1

    @precondition(lambda self: self.probing)
    @rule(data=st.data())
    def a_probe_succeeds(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.probing)))
        began = self.probing.pop(number)
        self.circuit = after_success(self.circuit, began, number)
        self.epoch += 1
        self.permits.pop(number, None)
        if not self.disabled and began >= self.opened_in:
            self.benched_until, self.failures, self.failed_probes, self.permits = None, 0, 0, {}
            self.benched_for = None

    @precondition(lambda self: self.probing)
    @rule(data=st.data())
    def a_permit_comes_back(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.probing)))
        self.circuit = without_permit(self.circuit, number)
        del self.probing[number]
        self.permits.pop(number, None)

    @precondition(lambda self: self.probing)
    @rule(for_seconds=st.sampled_from([1.0, 20.0]), data=st.data())
    def a_permit_is_renewed(self, for_seconds: float, data: st.DataObject) -> None:
        permit = Permit(data.draw(st.sampled_from(sorted(self.probing))), self.now + for_seconds)
        self.circuit = renewed(self.circuit, permit)
        if permit.number in self.permits and permit.number not in self.late:
            self.permits[permit.number] = permit.expires_at

    def _fail(self, fault: Fault, asked: float | None, began: int, permit: int | None) -> None:
        failure = Failure(fault, retry_after_seconds=asked)
        effect = FAULTS[fault].effect
        late = began < self.opened_in or self.benched_until is not None
        word = permit is not None and began >= self.opened_in and self.benched_until is not None
        ahead = word and self.state is State.OPEN
        probed = word and not ahead
        self.epoch += 1
        self.circuit = after_failure(self.circuit, failure, began, self.epoch, self.now, RULES, permit)
        if permit is not None:
            del self.probing[permit]
            self.permits.pop(permit, None)
        if self.disabled or effect is Effect.NONE:
            return
        if effect is Effect.DISABLE:
            self.disabled = True
            self._are_late()
            return
        if effect is Effect.COUNT:
            if late and not probed:
                return
            self.failures += 1
            if not probed and self.failures < RULES.failure_threshold:
                return
        if probed:
            self.failed_probes += 1
        if ahead:
            until = self.now + self._news(effect, asked)
        else:
            until = self.now + self._cooldown(effect, asked, again=probed and self.benched_for is effect)
        if self.benched_until is not None and not probed:
            if until > self.benched_until:
                self.benched_until, self.benched_for = until, effect
            return
        self.benched_until, self.benched_for = max(until, self.benched_until or NEVER), effect
        self.opened_in = self.epoch
        self._are_late()

    def _are_late(self) -> None:
        self.permits = {number: end for number, end in self.permits.items() if end > self.now}
        self.late |= self.permits.keys()

    def _news(self, effect: Effect, asked: float | None) -> float:
        obeyed = min(asked, RULES.max_retry_after_seconds) if asked is not None and asked > 0 else None
        if effect is self.benched_for:
            return obeyed or 0.0
        if effect is Effect.QUOTA:
            return max(obeyed or 0.0, RULES.quota_cooldown_seconds)
        return obeyed or RULES.rate_limit_cooldown_seconds

    def _cooldown(self, effect: Effect, asked: float | None, *, again: bool) -> float:
        def grown(seconds: float) -> float:
            longer = min(seconds * 2.0 ** min(self.failed_probes, 30), RULES.max_cooldown_seconds)
            return max(seconds, longer)

        base = {Effect.COUNT: 10.0, Effect.RATE_LIMIT: 20.0, Effect.QUOTA: 200.0}[effect]
        obeyed = min(asked, RULES.max_retry_after_seconds) if asked is not None and asked > 0 else None
        if obeyed is None or effect is Effect.COUNT:
            return grown(base)
        if effect is Effect.QUOTA:
            return max(obeyed, grown(base))
        return grown(obeyed) if again else obeyed

    @invariant()
    def it_stands_where_the_model_stands(self) -> None:
        circuit = self.circuit
        assert circuit.state_at(self.now) is self.state
        assert circuit.disabled or circuit.consecutive_failures == self.failures
        if self.state is State.OPEN:
            assert self.benched_until is not None
            assert circuit.open_until == self.benched_until
        out = sum(end > self.now for end in self.permits.values())
        assert circuit.probes_out(self.now) == out <= RULES.half_open_probes
        admission = circuit.admission(self.now, RULES.half_open_probes)
        assert (admission is Admission.FREE) == (self.state is State.CLOSED)
        assert (admission is Admission.PROBE) == (
            self.state is State.HALF_OPEN and out < RULES.half_open_probes
        )


TestCircuit = CircuitMachine.TestCase
TestCircuit.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
