"""What a policy may do with the providers that it is given, and what it may name."""

from collections.abc import Sequence
from typing import Any

from turnout.errors import ConfigError
from turnout.policies.contract import RankedT


def is_built_in(policy: object) -> bool:
    """Whether a policy is turnout's own, and so are those it goes by: it leaves out nobody and adds nobody, and never
    takes long."""
    if not type(policy).__module__.startswith("turnout.policies."):
        return False
    if getattr(policy, "ask_store_each_time", False):
        return False
    others = (getattr(policy, "fallback_policy", None), getattr(policy, "tie_break_policy", None))
    return all(other is None or is_built_in(other) for other in others)


def only(chosen: Sequence[Any], eligible: Sequence[RankedT]) -> list[RankedT]:
    """The policy's omissions and repetitions are kept; what was filtered out cannot come back."""
    known = {provider.provider_id: provider for provider in eligible}
    return [known[choice.provider_id] for choice in chosen if choice.provider_id in known]


def named_ids(setting: str, given: Sequence[str]) -> tuple[str, ...]:
    """The provider ids that a setting names, trimmed. Raises ``ConfigError`` for what is no list of them, for blanks
    and for repetitions."""
    if not isinstance(given, list | tuple) or not given:
        raise ConfigError(f"{setting} must be a list that names at least one provider")
    if any(not isinstance(name, str) or not name.strip() for name in given):
        raise ConfigError(f"{setting} must be texts that are not blank")
    names = tuple(name.strip() for name in given)
    if len(set(names)) < len(names):
        raise ConfigError(f"{setting} names a provider twice: {', '.join(names)}")
    return names


def number_above_zero(setting: str, given: float, at_most: float) -> float:
    """Raises ``ConfigError`` for what is no number above 0, up to ``at_most``."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= at_most:
        raise ConfigError(f"{setting} must be a number above 0, up to {at_most:g}, not {given!r}")
    return float(given)
