"""Two at random, and of these the one that is likely to answer sooner.

Whoever asks everybody for the shortest line sends all callers there at once; two drawn for each call spread them, and
still leave alone who is slow (Mitzenmacher, "The power of two choices in randomized load balancing").
"""

import math
from dataclasses import dataclass
from typing import Final

_MASK: Final = 2**64 - 1
#: How far, in decay times, a reference may lie behind: a double holds e ** 709.
MOST_DECAYS: Final = 500.0


@dataclass(frozen=True, slots=True)
class Cost:
    """A latency that rises at once and sinks by time: ``latency`` as of ``at``, both in seconds."""

    latency: float
    at: float


def after_answer(known: Cost | None, latency: float, now: float, decay_seconds: float) -> Cost:
    """What an answer's latency teaches. A higher one counts whole; towards a lower one the cost sinks the further, the
    longer ago the last was."""
    if known is None:
        return Cost(latency, now)
    share = math.exp(-max(now - known.at, 0.0) / decay_seconds)
    averaged = known.latency * share + latency * (1.0 - share)
    return Cost(latency if latency > known.latency else averaged, max(now, known.at))


def after_failure(known: Cost | None, latency: float, now: float, decay_seconds: float) -> Cost | None:
    """The same for a failure: it may cost more than was known, and never makes anybody cheaper."""
    if known is None or latency <= known.latency * math.exp(-max(now - known.at, 0.0) / decay_seconds):
        return known
    return Cost(latency, max(now, known.at))


def comparable(cost: Cost, reference: float, decay_seconds: float) -> float:
    """The cost as it compares with others of the same ``reference``, at any time: all of them sink alike. The reference
    may lie ``MOST_DECAYS`` behind."""
    return cost.latency * math.exp((cost.at - reference) / decay_seconds)


def drawn(ticket: int, among: int) -> tuple[int, int]:
    """Two different places from 0 up to ``among`` (2 or more), as good as random: the same for the same ticket."""
    # The finalizer of SplitMix64: neighbouring numbers come out unlike in every bit.
    bits = (ticket * 0x9E3779B97F4A7C15) & _MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    bits ^= bits >> 31
    one = (bits >> 32) % among
    other = (bits & 0xFFFFFFFF) % (among - 1)
    return one, other + (other >= one)
