"""The providers of the demonstration: simulated ones, each with a habit of its own, and how a router reaches them."""

from functools import partial
from typing import Final

from pydantic import SecretStr

from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig
from turnout.testing.simulator import Answer, Cut, SimulatedProvider, Simulator, Status, Weighted

#: The providers, by what is wrong with them, and the protocol that each is called by.
PROTOCOLS: Final = {
    "healthy": ApiProtocol.OPENAI_CHAT,
    "slow": ApiProtocol.OPENAI_RESPONSES,
    "flaky": ApiProtocol.OPENAI_RESPONSES,
    "cutting": ApiProtocol.OPENAI_CHAT,
}
#: Far more than any of them takes; a bound for the case that something is wrong here.
_TIMEOUT_SECONDS: Final = 10.0


def simulated(seed: int) -> list[SimulatedProvider]:
    """The providers, whose failures ``seed`` decides."""
    refusals = Weighted(((Answer(), 6), (Status(429), 1), (Status(500), 3)), seed)
    cuts = Weighted(((Answer(), 5), (Cut(after_chunks=2), 5)), seed)
    quick = partial(SimulatedProvider, latency_seconds=0.1, chunk_interval_seconds=0.04)
    return [
        quick("healthy"),
        SimulatedProvider("slow", latency_seconds=0.4, first_token_seconds=0.2, chunk_interval_seconds=0.08),
        quick("flaky", refusals),
        quick("cutting", cuts),
    ]


def configured(simulator: Simulator) -> list[ProviderConfig]:
    """The same providers as a router is told of them."""
    return [
        ProviderConfig(
            provider_id=provider.name,
            name=provider.name,
            protocol=PROTOCOLS[provider.name],
            model="sim-1",
            base_url=simulator.base_url(provider.name),
            timeout_seconds=_TIMEOUT_SECONDS,
            api_key=SecretStr("any key will do"),
        )
        for provider in simulator.providers
    ]
