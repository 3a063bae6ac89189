"""How many attempts are in flight at each provider, for a policy that goes by it."""

from collections.abc import Sequence
from dataclasses import replace

from turnout.invocation import Target
from turnout.policies.wiring import Load
from turnout.runtime.gauge import Gauge


def counted(targets: Sequence[Target]) -> tuple[tuple[Target, ...], Load]:
    """``targets`` that count what is in flight at them, and how to read it."""
    gauges = {target.provider_id: Gauge() for target in targets}
    marked = tuple(replace(target, in_flight=gauges[target.provider_id]) for target in targets)
    return marked, lambda provider_id: len(gauges[provider_id])
