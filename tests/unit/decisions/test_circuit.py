"""The circuit's rules, one sentence each."""

import math

import pytest

from turnout.decisions.circuit import (
    CLEAN,
    Admission,
    Circuit,
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
    failure_threshold=3,
    failure_cooldown_seconds=60,
    rate_limit_cooldown_seconds=30,
    quota_cooldown_seconds=3600,
)


def failed(
    circuit: Circuit,
    fault: Fault,
    *,
    now: float = 0.0,
    began: int = 99,
    epoch: int = 100,
    permit: int | None = None,
    retry_after: float | None = None,
    rules: Thresholds = RULES,
) -> Circuit:
    failure = Failure(fault, fault.value, retry_after)
    return after_failure(circuit, failure, began, epoch, now, rules, permit)


def half_open(permit: int = 1, *, expires_at: float = math.inf, rules: Thresholds = RULES) -> Circuit:
    """Benched until 60, with one probe out."""
    opened = CLEAN
    for _ in range(rules.failure_threshold):
        opened = failed(opened, Fault.TIMEOUT, epoch=10, rules=rules)
    return with_permit(opened, Permit(permit, expires_at), 60.0, rules)


def test_a_rate_limit_opens_at_once_and_does_not_count() -> None:
    circuit = failed(CLEAN, Fault.RATE_LIMIT, now=10)
    assert (circuit.state_at(10), circuit.open_until, circuit.consecutive_failures) == (State.OPEN, 40, 0)


def test_the_third_counted_failure_opens() -> None:
    twice = failed(failed(CLEAN, Fault.TIMEOUT), Fault.SERVER_ERROR)
    assert twice.state_at(0) is State.CLOSED
    assert failed(twice, Fault.CONNECTION, now=5).open_until == 65


def test_a_success_between_failures_starts_the_count_anew() -> None:
    twice = failed(failed(CLEAN, Fault.TIMEOUT), Fault.TIMEOUT)
    again = after_success(twice, 99)
    assert again.clean
    assert failed(failed(again, Fault.TIMEOUT), Fault.TIMEOUT).state_at(0) is State.CLOSED


def test_quota_opens_for_the_long_cooldown() -> None:
    assert failed(CLEAN, Fault.QUOTA).open_until == 3600


def test_refused_credentials_disable_whatever_the_time() -> None:
    circuit = failed(CLEAN, Fault.AUTH)
    assert circuit.state_at(1e12) is State.DISABLED
    assert circuit.admission(1e12, 1) is Admission.REFUSED
    assert after_success(circuit, 101) is circuit


def test_a_rate_limit_opens_for_the_time_that_the_provider_names() -> None:
    assert failed(CLEAN, Fault.RATE_LIMIT, now=10, retry_after=7.0).open_until == 17


def test_the_time_that_a_provider_names_is_obeyed_up_to_a_cap() -> None:
    assert failed(CLEAN, Fault.RATE_LIMIT, retry_after=1e9).open_until == 3600


@pytest.mark.parametrize("named", [0.0, -3.0, math.nan])
@pytest.mark.parametrize(("fault", "until"), [(Fault.RATE_LIMIT, 35.0), (Fault.QUOTA, 3605.0)])
def test_now_or_a_time_in_the_past_names_no_time(fault: Fault, until: float, named: float) -> None:
    assert failed(CLEAN, fault, now=5, retry_after=named).open_until == until


def test_a_time_that_may_not_be_obeyed_at_all_names_none() -> None:
    deaf = Thresholds(rate_limit_cooldown_seconds=30, max_retry_after_seconds=0)
    assert failed(CLEAN, Fault.RATE_LIMIT, retry_after=7.0, rules=deaf).open_until == 30


def test_the_time_that_a_provider_names_lengthens_a_quotas_cooldown_and_never_shortens_it() -> None:
    short = Thresholds(quota_cooldown_seconds=600)
    assert failed(CLEAN, Fault.QUOTA, retry_after=1.0, rules=short).open_until == 600
    assert failed(CLEAN, Fault.QUOTA, retry_after=900.0, rules=short).open_until == 900
    assert failed(CLEAN, Fault.QUOTA, retry_after=1e9, rules=short).open_until == 3600


def probed_again(circuit: Circuit, number: int, retry_after: float | None) -> tuple[Circuit, float]:
    """The circuit after a probe at the end of its bench that met a rate limit, and how long it is benched then."""
    now = circuit.open_until
    probed = with_permit(circuit, Permit(number, math.inf), now, RULES)
    after = failed(probed, Fault.RATE_LIMIT, now=now, permit=number, retry_after=retry_after)
    return after, after.open_until - now


def test_a_rate_limit_that_probes_find_again_grows_whatever_time_it_names() -> None:
    circuit, benched = failed(CLEAN, Fault.RATE_LIMIT, retry_after=0.5), []
    for number in range(1, 12):
        circuit, seconds = probed_again(circuit, number, 0.5)
        benched.append(seconds)
    assert benched[:4] == pytest.approx([1.0, 2.0, 4.0, 8.0])
    assert benched[-2:] == pytest.approx([300.0, 300.0])


def test_a_rate_limit_that_names_now_each_time_grows_like_any_other() -> None:
    circuit = failed(CLEAN, Fault.RATE_LIMIT, retry_after=0.0)
    circuit, second = probed_again(circuit, 1, 0.0)
    assert (second, probed_again(circuit, 2, 0.0)[1]) == (60.0, 120.0)


def test_growth_never_shortens_the_time_that_a_provider_names() -> None:
    circuit = failed(CLEAN, Fault.RATE_LIMIT, retry_after=2.0)
    assert probed_again(circuit, 1, 900.0)[1] == 900.0


def test_a_probes_first_rate_limit_of_an_outage_is_taken_at_its_word() -> None:
    assert failed(half_open(), Fault.RATE_LIMIT, now=61, permit=1, retry_after=3.0).open_until == 64


def test_the_time_that_a_provider_names_is_passed_over_where_that_was_asked() -> None:
    deaf = Thresholds(rate_limit_cooldown_seconds=30, honor_retry_after=False)
    assert failed(CLEAN, Fault.RATE_LIMIT, retry_after=7.0, rules=deaf).open_until == 30


def test_a_bench_that_is_over_admits_as_many_probes_as_there_may_be() -> None:
    opened = failed(CLEAN, Fault.RATE_LIMIT)
    assert opened.admission(29.9, 1) is Admission.REFUSED
    assert opened.admission(30, 1) is Admission.PROBE
    probed = with_permit(opened, Permit(1, 100.0), 30, RULES)
    assert probed.state_at(30) is State.HALF_OPEN
    assert probed.admission(30, 1) is Admission.REFUSED
    assert probed.admission(30, 2) is Admission.PROBE


def test_no_permit_is_given_beyond_the_number_nor_before_the_time_nor_where_none_is_needed() -> None:
    opened = failed(CLEAN, Fault.RATE_LIMIT)
    probed = with_permit(opened, Permit(1, 100.0), 30, RULES)
    for circuit, now in ((probed, 31.0), (opened, 29.0), (CLEAN, 0.0), (failed(CLEAN, Fault.AUTH), 99.0)):
        assert with_permit(circuit, Permit(2, 200.0), now, RULES) is circuit


def test_a_permit_is_given_ahead_of_time_where_every_provider_is_benched() -> None:
    opened = failed(CLEAN, Fault.RATE_LIMIT)
    probed = with_permit(opened, Permit(1, 100.0), 1.0, RULES, ahead_of_time=True)
    assert probed.probes_out(1.0) == 1
    assert after_success(probed, 100, 1).clean


def test_a_permit_that_was_lost_lapses() -> None:
    lost = half_open(expires_at=70.0)
    assert lost.admission(69.9, 1) is Admission.REFUSED
    assert lost.admission(70.0, 1) is Admission.PROBE
    assert with_permit(lost, Permit(2, 200.0), 70.0, RULES).probes == (Permit(2, 200.0),)


def test_a_permit_that_is_renewed_lapses_later_and_is_the_same_one() -> None:
    longer = renewed(half_open(expires_at=70.0), Permit(1, 90.0))
    assert longer.admission(89.9, 1) is Admission.REFUSED
    assert longer.admission(90.0, 1) is Admission.PROBE
    assert without_permit(longer, 1).probes == ()


def test_a_permit_that_another_has_meanwhile_is_not_renewed() -> None:
    pruned = with_permit(half_open(expires_at=70.0), Permit(2, 200.0), 70.0, RULES)
    assert renewed(pruned, Permit(1, 300.0)) is pruned
    again = failed(half_open(), Fault.TIMEOUT, now=61, permit=1)
    assert renewed(again, Permit(1, 300.0)) is again


def test_somebody_may_come_once_the_bench_is_over_or_the_first_permit_lapses() -> None:
    opened = failed(CLEAN, Fault.RATE_LIMIT)
    assert (CLEAN.free_at(5.0, 1), opened.free_at(5.0, 1), opened.free_at(31.0, 1)) == (5.0, 30.0, 31.0)
    rules = Thresholds(half_open_probes=2)
    first = with_permit(opened, Permit(1, 100.0), 31.0, rules)
    both = with_permit(first, Permit(2, 90.0), 31.0, rules)
    assert (first.free_at(31.0, 2), both.free_at(31.0, 2), both.free_at(90.0, 2)) == (31.0, 90.0, 90.0)
    assert failed(CLEAN, Fault.AUTH).free_at(1e12, 1) == math.inf


def test_a_probe_that_succeeds_closes() -> None:
    closed = after_success(half_open(), 10, 1)
    assert closed.clean
    assert closed.since == 10


def test_a_success_without_a_permit_closes_nothing() -> None:
    circuit = half_open()
    assert after_success(circuit, 99) is circuit


def test_a_probe_closes_whose_permit_lapsed_while_it_was_made() -> None:
    lapsed = half_open(expires_at=70.0)
    pruned = with_permit(lapsed, Permit(2, 200.0), 70.0, RULES)
    assert after_success(lapsed, 10, 1).clean
    assert after_success(pruned, 10, 1).clean


def test_a_probe_fails_whose_permit_lapsed_while_it_was_made() -> None:
    pruned = with_permit(half_open(expires_at=70.0), Permit(2, 200.0), 70.0, RULES)
    again = failed(pruned, Fault.TIMEOUT, now=80, began=10, permit=1)
    assert (again.state_at(80), again.open_until, again.probes) == (State.OPEN, 200, ())
    # And the other is late, whatever it finds.
    ended = without_permit(again, 2)
    assert failed(again, Fault.TIMEOUT, now=81, began=11, epoch=101, permit=2) == ended
    assert after_success(again, 11, 2) == ended


def test_a_probe_of_an_earlier_bench_proves_nothing() -> None:
    again = failed(half_open(), Fault.TIMEOUT, now=61, permit=1, epoch=20)
    probed = with_permit(again, Permit(2, 999.0), 181, RULES)
    assert after_success(probed, 19, 1) is probed
    assert failed(probed, Fault.TIMEOUT, now=182, began=19, permit=1) is probed


def test_a_probe_that_is_still_out_after_another_failed_keeps_its_place() -> None:
    rules = Thresholds(half_open_probes=2)
    both = with_permit(half_open(rules=rules), Permit(2, 999.0), 60.0, rules)
    again = failed(both, Fault.TIMEOUT, now=61, permit=1, rules=rules)
    assert (again.probes_out(61), again.lets(2, 61)) == (1, False)
    third = with_permit(again, Permit(3, 999.0), 181, rules)
    assert third.probes_out(181) == 2
    assert third.lets(3, 181)
    assert with_permit(third, Permit(4, 999.0), 181, rules) is third
    # Until it lapses.
    assert renewed(third, Permit(2, 2000.0)) is third
    assert failed(third, Fault.AUTH, now=182, permit=3, rules=rules).probes_out(182) == 1
    assert with_permit(without_permit(third, 2), Permit(4, 999.0), 181, rules).probes_out(181) == 2


def test_a_probe_that_had_lapsed_when_another_failed_is_not_renewed() -> None:
    rules = Thresholds(half_open_probes=2)
    both = with_permit(half_open(expires_at=70.0, rules=rules), Permit(2, 200.0), 60.0, rules)
    again = failed(both, Fault.TIMEOUT, now=80, permit=2, rules=rules)
    assert renewed(again, Permit(1, 999.0)) is again


def test_a_success_of_before_the_bench_says_nothing_of_a_circuit_that_has_closed_since() -> None:
    closed = after_success(half_open(), 10, 1)
    counted = failed(closed, Fault.TIMEOUT, now=62, began=10)
    assert after_success(counted, closed.since - 1) is counted
    assert after_success(counted, 10).clean


def test_a_late_probe_that_fails_beside_the_one_that_closed_counts_once_like_any_other() -> None:
    closed = after_success(half_open(), 10, 1)
    counted = failed(closed, Fault.TIMEOUT, now=62, began=10, permit=2)
    assert (counted.state_at(62), counted.consecutive_failures) == (State.CLOSED, 1)


def test_a_probe_that_fails_opens_again_for_longer() -> None:
    again = failed(half_open(), Fault.TIMEOUT, now=61, permit=1)
    assert (again.state_at(61), again.open_until, again.consecutive_failures) == (State.OPEN, 181, 4)
    assert again.probes == ()
    third = failed(with_permit(again, Permit(2, 999.0), 181, RULES), Fault.TIMEOUT, now=181, permit=2)
    assert third.open_until == 181 + 240


def test_growth_ends_at_the_longest_cooldown_and_never_overflows() -> None:
    circuit, now = half_open(), 60.0
    for number in range(2, 3000):
        circuit = failed(circuit, Fault.TIMEOUT, now=now, permit=number - 1)
        assert circuit.open_until - now <= 300
        now = circuit.open_until
        circuit = with_permit(circuit, Permit(number, math.inf), now, RULES)
    assert math.isfinite(circuit.growth)


def test_growth_never_shortens_a_cooldown_that_is_longer_than_the_longest() -> None:
    patient = Thresholds(quota_cooldown_seconds=3600, max_cooldown_seconds=300)
    again = failed(half_open(rules=patient), Fault.QUOTA, now=60, permit=1, rules=patient)
    assert again.open_until == 60 + 3600


def test_a_success_ends_the_growth() -> None:
    again = failed(half_open(), Fault.TIMEOUT, now=60, permit=1)
    closed = after_success(with_permit(again, Permit(2, 999.0), 180, RULES), 100, 2)
    assert failed(closed, Fault.RATE_LIMIT, now=200, began=200, epoch=201).open_until == 230


@pytest.mark.parametrize("fault", [Fault.BAD_REQUEST, Fault.CANCELLED])
def test_a_probe_that_proves_nothing_gives_its_permit_back(fault: Fault) -> None:
    returned = failed(half_open(), fault, now=61, permit=1)
    assert returned == without_permit(half_open(), 1)
    assert returned.admission(61, 1) is Admission.PROBE


def test_a_permit_comes_back_once() -> None:
    returned = without_permit(half_open(), 1)
    assert without_permit(returned, 1) is returned


def test_credentials_refused_to_a_probe_disable_and_take_the_permit_back() -> None:
    circuit = failed(half_open(), Fault.AUTH, now=61, permit=1)
    assert circuit.state_at(61) is State.DISABLED
    assert circuit.probes == ()


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.RATE_LIMIT, Fault.QUOTA])
def test_a_disabled_circuit_stays_as_it_is_whatever_fails_late(fault: Fault) -> None:
    disabled = failed(CLEAN, Fault.AUTH)
    for began in (5, 200):
        assert failed(disabled, fault, now=1, began=began, epoch=201, retry_after=2.0) is disabled


def test_failures_in_flight_when_it_opened_count_once_together() -> None:
    circuit = CLEAN
    for _ in range(3):
        circuit = failed(circuit, Fault.TIMEOUT, began=5, epoch=10)
    late = failed(circuit, Fault.TIMEOUT, now=30, began=5, epoch=11)
    assert late is circuit


def test_a_late_limit_lengthens_a_bench_and_never_shortens_it() -> None:
    opened = failed(CLEAN, Fault.RATE_LIMIT, epoch=10)
    lengthened = failed(opened, Fault.QUOTA, now=1, began=5, epoch=11)
    assert (lengthened.open_until, lengthened.last_failure) == (3601, Failure(Fault.QUOTA, "quota"))
    assert failed(opened, Fault.RATE_LIMIT, now=1, began=5, epoch=11, retry_after=2.0) is opened


def test_a_late_success_neither_closes_nor_shortens() -> None:
    circuit = failed(CLEAN, Fault.RATE_LIMIT, epoch=10)
    assert after_success(circuit, 5) is circuit


def test_a_rate_limit_beside_the_success_that_closed_a_circuit_is_not_late() -> None:
    closed = after_success(half_open(), 10, 1)
    again = failed(closed, Fault.RATE_LIMIT, now=61, began=10, epoch=12)
    assert again.state_at(61) is State.OPEN


def test_a_new_cooldown_never_shortens_a_longer_one() -> None:
    circuit = failed(CLEAN, Fault.QUOTA, epoch=10)
    assert failed(circuit, Fault.RATE_LIMIT, now=1, began=10, epoch=11).open_until == 3600


def test_faults_without_effect_change_nothing() -> None:
    for fault, rule in FAULTS.items():
        if rule.effect is Effect.NONE:
            assert failed(CLEAN, fault) is CLEAN
