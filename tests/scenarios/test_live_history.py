"""What ``router.stats().providers`` tells of the latest attempts, with a ledger and without."""

from typing import Any

import pytest

from turnout import MemoryMetricsStore
from turnout.testing import ScriptedAdapters
from turnout.testing.simulator import Answer, Status

BROKEN = RuntimeError("broken")


@pytest.mark.parametrize("store", [None, MemoryMetricsStore()], ids=["no ledger", "a ledger"])
def test_a_router_tells_how_each_provider_did_of_late(rig: Any, store: Any) -> None:
    adapters = ScriptedAdapters({"a": [BROKEN, "answer", "answer"], "b": ["answer"]})
    router = rig.scripted(adapters, "ab", metrics_store=store, policy="preference")
    assert router.stats().providers == {}
    for _ in range(3):
        assert router.invoke(rig.chat()) == "answer"
    of = router.stats().providers
    assert {name: (one.attempts, one.successes, one.failures) for name, one in of.items()} == {
        "a": (3, 2, 1),
        "b": (1, 1, 0),
    }
    assert (of["a"].success_rate, of["a"].faults, of["a"].failovers_caused) == (2 / 3, {"unknown": 1}, 1)
    assert of["a"].p50_ms is not None
    assert of["a"].input_tokens is None


def test_tokens_and_first_chunks_are_told_as_well(rig: Any) -> None:
    sim = rig.simulate(a=[Status(429)], b=Answer(text="hi"))
    router = rig.router(rig.providers(sim), policy="preference")
    for chunk in router.invoke(rig.chat(stream=True, stream_options={"include_usage": True})):
        assert chunk is not None
    of = router.stats().providers
    assert of["a"].faults == {"rate_limit": 1}
    assert of["b"].ttft_p50_ms is not None
    assert of["b"].output_tokens is not None
