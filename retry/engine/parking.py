"""Parked chains: exhausted, and kept for some time for somebody to decide about."""

from retry.engine.case import Case, Verdict
from retry.policies.inline import LONGEST_PARKED, WhenExhausted


def parked_for(case: Case, verdict: Verdict) -> float | None:
    """Return how many seconds an exhausted chain is parked; None if it ends.

    The policy of the rule that refused the retry says it first, then the inline policy, then the
    first named policy that says anything. A policy that gives no time takes the inline policy's.
    """
    says = [policy for policy in case.named if policy.parks is not None]
    of_rule = verdict.rule.label.rpartition("/")[0] if verdict.rule else None
    chosen = next((policy for policy in says if policy.name == of_rule), None)
    if chosen is None and case.policy.on_exhausted is not WhenExhausted.PARK:
        chosen = next(iter(says), None)
        if chosen is None:
            return None
    if chosen is not None and not chosen.parks:
        return None
    seconds = chosen.park_for if chosen is not None else None
    return min(case.policy.park_for if seconds is None else seconds, LONGEST_PARKED)
