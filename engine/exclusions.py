"""Whom a call does not go to, and why."""

from collections.abc import Sequence

from turnout.calls import FilterReason
from turnout.decisions.walk import may_hold_more
from turnout.errors import Exclusion
from turnout.invocation import Progress, Target


def excluded(target: Target, reason: FilterReason, detail: str) -> Exclusion:
    """A provider that is not tried."""
    return Exclusion(target.provider_id, target.identity.name, reason, detail)


def _too_small(target: Target, failed: Target) -> Exclusion:
    """A provider that is not tried because ``failed``, which can hold as much, found the request too long."""
    found = f"{failed.identity.described}, which found the request too long"
    detail = f"runs the same model as {found}; declare its context_window if that is larger"
    if target.context_window is not None and failed.context_window is not None:
        detail = f"has a context_window of {target.context_window} tokens, no more than {found}"
    return excluded(target, FilterReason.CONTEXT_TOO_SMALL, detail)


def note_omitted(eligible: Sequence[Target], planned: Sequence[Target], progress: Progress) -> None:
    """Note whom the policy left out."""
    progress.exclusions += [
        excluded(target, FilterReason.OMITTED_BY_POLICY, "left out by the policy")
        for target in eligible
        if all(target is not chosen for chosen in planned)
    ]


def note_used_up(remaining: Sequence[Target], progress: Progress, attempts: int) -> None:
    """Note who is not tried because the call has had its attempts."""
    detail = f"the call has had its {attempts} attempts (max_attempts_per_call)"
    progress.exclusions += [excluded(target, FilterReason.ATTEMPTS_USED_UP, detail) for target in remaining]


def keep_larger(failed: Target, remaining: list[Target], progress: Progress) -> None:
    """Leave of ``remaining`` those that may hold what was too long for ``failed``; the others are noted."""
    progress.outgrown = (*progress.outgrown, failed.size)
    told = {one.provider_id for one in progress.failed} | {one.provider_id for one in progress.exclusions}
    for target in tuple(remaining):
        if may_hold_more(target.size, failed.size):
            continue
        remaining[:] = [one for one in remaining if one is not target]
        if target.provider_id not in told:
            progress.exclusions.append(_too_small(target, failed))
