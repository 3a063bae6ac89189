"""How good a provider has been, between 0 and 1: how often it answered, and how soon."""

from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from turnout.calls import CallType
from turnout.decisions.stats import ProviderStats
from turnout.errors import ConfigError

_MAY_BE_ZERO: Final = frozenset({"success_weight", "speed_weight", "optimistic_start"})
#: Sums of what is not larger stay finite.
_MOST: Final = 1e100


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """What a score is made from.

    ``success_weight`` and ``speed_weight`` say how much the two count against each other. A latency as long as its
    reference (ms: of a whole answer, or of a stream's first content) is a speed of one half. A provider begins as
    though it had made ``optimistic_start_pretend_attempts`` attempts as good as ``optimistic_start``. Raises
    ``ConfigError`` for what is out of range, and where neither weight is above 0.
    """

    success_weight: float = 1.0
    speed_weight: float = 1.0
    regular_latency_reference_ms: float = 2000.0
    streaming_ttft_reference_ms: float = 500.0
    optimistic_start: float = 0.75
    optimistic_start_pretend_attempts: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value, may_be_zero = getattr(self, field.name), field.name in _MAY_BE_ZERO
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value <= _MOST
                or (value == 0 and not may_be_zero)
            ):
                least = "from" if may_be_zero else "above"
                raise ConfigError(f"{field.name} must be a number {least} 0, up to {_MOST:g}, not {value!r}")
        if self.optimistic_start > 1:
            raise ConfigError(f"optimistic_start must be a number from 0 to 1, not {self.optimistic_start!r}")
        if self.success_weight == self.speed_weight == 0:
            raise ConfigError("success_weight or speed_weight must be above 0")

    def reference_ms(self, call_type: CallType) -> float:
        match call_type:
            case CallType.REGULAR:
                return self.regular_latency_reference_ms
            case CallType.STREAMING:
                return self.streaming_ttft_reference_ms


class ProviderScore(NamedTuple):
    """Each between 0 and 1; ``total`` is what providers are compared by."""

    total: float
    success_quality: float
    speed_quality: float


def calculate_provider_score(
    stats: ProviderStats, weights: ScoreWeights | None = None, call_type: CallType = CallType.REGULAR
) -> ProviderScore:
    """The score of a provider for calls of one type: the two are never blended."""
    weights = ScoreWeights() if weights is None else weights
    match CallType(call_type):
        case CallType.REGULAR:
            seen = stats.regular_attempts, stats.regular_successes, stats.regular_latency_ms
        case CallType.STREAMING:
            seen = stats.streaming_attempts, stats.streaming_successes, stats.streaming_ttft_ms
    return score_of(*seen, weights, call_type)


def score_of(
    attempts: float, successes: float, latency_ms: float | None, weights: ScoreWeights, call_type: CallType
) -> ProviderScore:
    """A provider's score from its ``attempts`` and those of them that were ``successes`` (0 <= successes <= attempts;
    decayed counts are as good), and the mean latency of the successes (None where none is known; to the first content
    for streams)::

        success_quality = (pretend * start + successes) / (pretend + attempts)
        speed           = reference / (reference + latency), 0 where none is known
        speed_quality   = (pretend * start + successes * speed) / (pretend + successes)
        total           = (success_weight * success_quality + speed_weight * speed_quality)
                          / (success_weight + speed_weight)

    This is the formula of llm-provider-router 0.1.1, as read in its source; tests/vectors holds scores observed there.
    More successes make a provider surer, not always better: of one slower than ``optimistic_start``, the speed falls.
    """
    reference = weights.reference_ms(call_type)
    pretend = weights.optimistic_start_pretend_attempts
    start = pretend * weights.optimistic_start
    speed = 0.0 if latency_ms is None else reference / (reference + latency_ms)
    success_quality = (start + successes) / (pretend + attempts)
    speed_quality = (start + successes * speed) / (pretend + successes)
    total = (weights.success_weight * success_quality + weights.speed_weight * speed_quality) / (
        weights.success_weight + weights.speed_weight
    )
    return ProviderScore(total, success_quality, speed_quality)
