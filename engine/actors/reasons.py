"""Why a provider is not tried now, in words."""

from turnout.decisions.circuit import Circuit, State


def exclusion_detail(circuit: Circuit, now: float) -> str:
    """Why a circuit does not admit, for an error message."""
    if circuit.state_at(now) is State.HALF_OPEN:
        return f"is being probed by another call; wait for its outcome{_because(circuit)}"
    return why_benched(circuit, circuit.remaining_seconds(now))


def why_benched(circuit: Circuit, cooldown_seconds: float) -> str:
    """Why a provider is benched, and for how long."""
    if circuit.disabled:
        return (
            "is disabled for this run: its credentials were refused; mend them, then reset_health()"
            f"{_because(circuit)}"
        )
    failure = circuit.last_failure
    trigger = "after repeated failures"
    if failure is not None:
        trigger = f"after {failure.fault.value.replace('_', ' ')}"
        if circuit.consecutive_failures:
            failures = (
                "1 failure"
                if circuit.consecutive_failures == 1
                else f"{circuit.consecutive_failures} failures"
            )
            trigger += f" ({failures} in a row)"
    return f"is benched for {cooldown_seconds:.1f} s {trigger}{_because(circuit)}"


def _because(circuit: Circuit) -> str:
    failure = circuit.last_failure
    return f"; last error: {failure.message or failure.fault.value}" if failure else ""
