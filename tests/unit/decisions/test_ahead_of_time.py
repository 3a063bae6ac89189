"""What a probe says that was sent before its bench was over."""

import pytest

from turnout.decisions.circuit import (
    CLEAN,
    Circuit,
    Permit,
    State,
    Thresholds,
    after_failure,
    after_success,
    with_permit,
)
from turnout.faults import Failure, Fault

RULES = Thresholds(failure_threshold=1, failure_cooldown_seconds=60, rate_limit_cooldown_seconds=60)


def benched(fault: Fault = Fault.RATE_LIMIT, asked: float | None = None) -> Circuit:
    """From 0 on."""
    return after_failure(CLEAN, Failure(fault, fault.value, asked), 1, 2, 0.0, RULES)


def probed(circuit: Circuit, fault: Fault, now: float, asked: float | None = None) -> Circuit:
    """After a probe that was sent and failed at ``now``."""
    circuit = with_permit(circuit, Permit(7, now + 1000.0), now, RULES, ahead_of_time=True)
    return after_failure(circuit, Failure(fault, fault.value, asked), 2, 3, now, RULES, 7)


@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.QUOTA])
def test_failures_ahead_of_time_neither_lengthen_a_bench_nor_grow_the_next(fault: Fault) -> None:
    circuit = before = benched(fault)
    for second in range(1, 60):
        circuit = probed(circuit, fault, float(second))
    assert (circuit.open_until, circuit.growth, circuit.probes) == (before.open_until, 1.0, ())


def test_a_counted_failure_ahead_of_time_does_not_push_away_the_end_of_a_limits_bench() -> None:
    assert probed(benched(), Fault.TIMEOUT, 59.0).open_until == 60.0


def test_a_time_that_is_asked_for_ahead_of_time_is_taken_at_its_word() -> None:
    circuit = benched(asked=3.0)
    for tenth in range(1, 20):
        circuit = probed(circuit, Fault.RATE_LIMIT, tenth / 10, 3.0)
    assert circuit.open_until == pytest.approx(4.9)
    assert circuit.growth == 1.0
    assert probed(circuit, Fault.RATE_LIMIT, 2.0, 1.0) is not circuit
    assert probed(circuit, Fault.RATE_LIMIT, 2.0, 1.0).open_until == circuit.open_until


def test_another_limit_that_is_met_ahead_of_time_benches_as_long_as_ever() -> None:
    circuit = probed(benched(), Fault.QUOTA, 10.0)
    assert (circuit.open_until, circuit.last_failure) == (3610.0, Failure(Fault.QUOTA, "quota"))
    assert probed(circuit, Fault.QUOTA, 20.0).open_until == 3610.0


def test_the_first_failure_after_the_bench_grows_the_next_once() -> None:
    circuit = probed(probed(benched(), Fault.RATE_LIMIT, 30.0), Fault.RATE_LIMIT, 60.0)
    assert (circuit.open_until, circuit.growth) == (180.0, 2.0)


def test_a_probe_that_was_sent_ahead_of_time_and_fails_after_the_bench_counts_as_one_of_it() -> None:
    out = with_permit(benched(), Permit(7, 1000.0), 30.0, RULES, ahead_of_time=True)
    circuit = after_failure(out, Failure(Fault.RATE_LIMIT), 2, 3, 61.0, RULES, 7)
    assert (circuit.open_until, circuit.growth) == (181.0, 2.0)


def test_a_success_ahead_of_time_closes_though_another_has_failed() -> None:
    rules = Thresholds(half_open_probes=2)
    circuit = benched()
    for number in (7, 8):
        circuit = with_permit(circuit, Permit(number, 1000.0), 1.0, rules, ahead_of_time=True)
    circuit = after_failure(circuit, Failure(Fault.TIMEOUT), 2, 3, 2.0, rules, 7)
    assert circuit.state_at(2.0) is State.OPEN
    assert after_success(circuit, 2, 8).clean
