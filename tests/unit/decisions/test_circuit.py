"""The circuit's rules, one sentence each; and its invariants over any history."""

from hypothesis import given
from hypothesis import strategies as st

from turnout.decisions.circuit import CLEAN, Circuit, State, Thresholds, after_failure, after_success
from turnout.faults import FAULTS, Effect, Failure, Fault

RULES = Thresholds(
    failure_threshold=3,
    failure_cooldown_seconds=60,
    rate_limit_cooldown_seconds=30,
    quota_cooldown_seconds=3600,
)


def failed(circuit: Circuit, fault: Fault, *, now: float = 0.0, began: int = 99, epoch: int = 100) -> Circuit:
    return after_failure(circuit, Failure(fault, fault.value), began, epoch, now, RULES)


def test_a_rate_limit_opens_at_once_and_does_not_count() -> None:
    circuit = failed(CLEAN, Fault.RATE_LIMIT, now=10)
    assert (circuit.state, circuit.open_until, circuit.consecutive_failures) == (State.OPEN, 40, 0)


def test_the_third_counted_failure_opens() -> None:
    twice = failed(failed(CLEAN, Fault.TIMEOUT), Fault.SERVER_ERROR)
    assert twice.state is State.CLOSED
    assert failed(twice, Fault.CONNECTION, now=5).open_until == 65


def test_a_success_between_failures_starts_the_count_anew() -> None:
    twice = failed(failed(CLEAN, Fault.TIMEOUT), Fault.TIMEOUT)
    again = after_success(twice, 99)
    assert again.clean
    assert failed(failed(again, Fault.TIMEOUT), Fault.TIMEOUT).state is State.CLOSED


def test_quota_opens_for_the_long_cooldown() -> None:
    assert failed(CLEAN, Fault.QUOTA).open_until == 3600


def test_refused_credentials_disable_whatever_the_time() -> None:
    circuit = failed(CLEAN, Fault.AUTH)
    assert circuit.state is State.DISABLED
    assert not circuit.admits(1e12)
    assert after_success(circuit, 101) is circuit


def test_a_lapsed_bench_admits_and_one_failure_more_opens_again() -> None:
    circuit = CLEAN
    for _ in range(3):
        circuit = failed(circuit, Fault.TIMEOUT, epoch=10)
    assert not circuit.admits(59.9)
    assert circuit.admits(60)
    again = failed(circuit, Fault.TIMEOUT, now=60, began=10, epoch=11)
    assert (again.state, again.open_until, again.consecutive_failures) == (State.OPEN, 120, 4)


def test_failures_in_flight_when_it_opened_count_once_together() -> None:
    circuit = CLEAN
    for _ in range(3):
        circuit = failed(circuit, Fault.TIMEOUT, began=5, epoch=10)
    late = failed(circuit, Fault.TIMEOUT, now=30, began=5, epoch=11)
    assert late is circuit


def test_a_late_success_neither_closes_nor_shortens() -> None:
    circuit = failed(CLEAN, Fault.RATE_LIMIT, epoch=10)
    assert after_success(circuit, 5) is circuit


def test_a_success_that_began_after_it_opened_closes_it() -> None:
    circuit = failed(CLEAN, Fault.RATE_LIMIT, epoch=10)
    closed = after_success(circuit, 10)
    assert closed.state is State.CLOSED
    assert not closed.outage
    assert closed.since == 10


def test_a_rate_limit_beside_the_success_that_closed_a_circuit_is_not_late() -> None:
    opened = failed(CLEAN, Fault.RATE_LIMIT, epoch=10)
    closed = after_success(opened, 10)
    again = failed(closed, Fault.RATE_LIMIT, now=61, began=10, epoch=12)
    assert again.state is State.OPEN


def test_a_new_cooldown_never_shortens_a_longer_one() -> None:
    circuit = failed(CLEAN, Fault.QUOTA, epoch=10)
    assert failed(circuit, Fault.RATE_LIMIT, now=1, began=10, epoch=11).open_until == 3600


def test_faults_without_effect_change_nothing() -> None:
    for fault, rule in FAULTS.items():
        if rule.effect is Effect.NONE:
            assert failed(CLEAN, fault) is CLEAN


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*Fault, None]),
            st.floats(0, 500, allow_nan=False),
            st.integers(0, 3),
        ),
        max_size=40,
    )
)
def test_over_any_history_a_bench_only_ends_by_time_or_by_a_success_that_began_since(
    history: list[tuple[Fault | None, float, int]],
) -> None:
    circuit, now = CLEAN, 0.0
    for epoch, (fault, step, lateness) in enumerate(history, 1):
        now += step
        began = max(epoch - 1 - lateness, 0)
        before = circuit
        if fault is None:
            circuit = after_success(before, began)
        else:
            circuit = after_failure(before, Failure(fault), began, epoch, now, RULES)
        if before.state is State.DISABLED:
            assert circuit.state is State.DISABLED
        if before.state is State.OPEN and circuit.state is State.CLOSED:
            assert fault is None
            assert began >= before.since
        if before.state is State.OPEN and circuit.state is State.OPEN:
            assert circuit.open_until >= before.open_until
        assert circuit.since <= epoch
        assert circuit.remaining_seconds(now) <= 3600 + 1e-6
        assert circuit.clean == (
            circuit.state is State.CLOSED and not circuit.consecutive_failures and not circuit.outage
        )
