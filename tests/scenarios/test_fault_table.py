"""The fault table, row by row: what each fault does to its provider's circuit, and what the walk does next."""

from typing import Any, NamedTuple

import pytest
from pydantic import SecretStr

from turnout import ApiProtocol, Fault, PreferencePolicy, ProviderConfig, ProviderError, RouterExhaustedError
from turnout.decisions.circuit import State
from turnout.faults import FAULTS
from turnout.testing import ManualClock, ScriptedAdapters


class Row(NamedTuple):
    """Which of P, F and G are asked, all of one model but for G; and how P's circuit stands: after the first failure
    (state and seconds left), and how many such failures open it, if any do."""

    asked: str
    state: State = State.CLOSED
    seconds: float | None = None
    opens_after: int | None = None


COUNTED = Row("PF", opens_after=3)
STOPPED = Row("P")
PASSED_OVER = Row("PF")
ROWS = {
    Fault.TIMEOUT: COUNTED,
    Fault.CONNECTION: COUNTED,
    Fault.SERVER_ERROR: COUNTED,
    Fault.STREAM_INTERRUPTED: COUNTED,
    Fault.UNKNOWN: COUNTED,
    Fault.TRANSIENT: COUNTED,
    Fault.RATE_LIMIT: Row("PF", State.OPEN, 60.0, 1),
    Fault.QUOTA: Row("PF", State.OPEN, 3600.0, 1),
    Fault.AUTH: Row("PF", State.DISABLED, None, 1),
    Fault.CONTEXT_LENGTH: Row("PG"),
    Fault.CONTENT_FILTER: STOPPED,
    Fault.BAD_REQUEST: STOPPED,
    Fault.INVALID_OPERATION: STOPPED,
    Fault.TERMINAL: PASSED_OVER,
    Fault.UNSUPPORTED: PASSED_OVER,
    Fault.INVALID_RESULT: PASSED_OVER,
    Fault.BUDGET: STOPPED,
    Fault.CANCELLED: STOPPED,
    Fault.DEADLINE: STOPPED,
}


def provider(name: str, model: str) -> ProviderConfig:
    return ProviderConfig(
        provider_id=name, name=name, protocol=ApiProtocol.OPENAI_CHAT, model=model, api_key=SecretStr("key")
    )


def test_the_table_and_its_test_know_the_same_faults() -> None:
    assert set(FAULTS) == set(ROWS) == set(Fault)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_fault_does_to_the_circuit_and_to_the_walk_what_its_row_says(rig: Any, fault: Fault) -> None:
    row = ROWS[fault]
    adapters = ScriptedAdapters({"P": [ProviderError("P failed", fault=fault)], "F": ["F"], "G": ["G"]})
    router = rig.router(
        [provider(name, model="m" if name in "PF" else "another") for name in "PFG"],
        adapter_factory=adapters,
        policy=PreferencePolicy(),
        clock=ManualClock(),
    )

    future = router.submit(rig.chat())
    if row.asked == "P":
        with pytest.raises(RouterExhaustedError) as caught:
            future.result(30)
        (attempt,) = caught.value.attempts
        assert (attempt.provider_id, attempt.fault) == ("P", fault)
    else:
        assert future.result(30) == row.asked[-1]

    assert "".join(call.provider_id for call in adapters.calls) == row.asked
    assert future.report().attempts[0].fault is fault
    health = router.health_report()["P"]
    assert (health.state, health.cooldown_remaining_seconds) == (row.state, row.seconds)
    assert health.auth_disabled is (row.state is State.DISABLED)
    assert health.consecutive_failures == (1 if row == COUNTED else 0)
    assert health.why == (fault.value if row.opens_after else None)
    assert {router.health_report()[name].state for name in "FG"} == {State.CLOSED}


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.CANCELLED])
def test_so_many_failures_open_a_circuit_and_the_callers_own_never_do(rig: Any, fault: Fault) -> None:
    adapters = ScriptedAdapters({"P": [ProviderError("P failed", fault=fault)]})
    router = rig.scripted(adapters, "P", clock=ManualClock())

    calls = 0
    while router.health_report()["P"].state is State.CLOSED and calls < 20:
        with pytest.raises(RouterExhaustedError):
            router.invoke(rig.chat())
        calls += 1

    assert calls == (ROWS[fault].opens_after or 20)


@pytest.mark.parametrize("asked", [2.0, 0.5, 5000.0])
@pytest.mark.parametrize("fault", list(Fault))
def test_a_time_that_the_provider_names_is_obeyed_only_for_limits_and_up_to_a_cap(
    rig: Any, fault: Fault, asked: float
) -> None:
    refusal = ProviderError("P failed", fault=fault, retry_after_seconds=asked)
    adapters = ScriptedAdapters({"P": [refusal], "F": ["F"]})
    router = rig.scripted(adapters, "PF", policy=PreferencePolicy(), clock=ManualClock())

    router.submit(rig.chat()).exception(30)

    obeyed = {Fault.RATE_LIMIT: min(asked, 3600.0), Fault.QUOTA: 3600.0}
    left = router.health_report()["P"].cooldown_remaining_seconds
    assert left == obeyed.get(fault)
