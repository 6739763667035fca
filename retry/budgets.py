"""What a chain may spend on retries, and who paid for the ones it had."""

from collections.abc import Mapping, Sequence
from typing import Any

from retry.decision import Settings
from retry.matching import NamedPolicy
from retry.policy import InlinePolicy

FAILURE_BUDGET = "inline/failure"
PREEMPTION_BUDGET = "inline/preemption"
MANUAL_BUDGET = "manual"


def counters_after(counters: Mapping[str, int], paid_by: str) -> dict[str, int]:
    """Give the child's counters: the chain's with one more retry paid by the budget."""
    return {**counters, paid_by: counters.get(paid_by, 0) + 1}


def retries_enabled(policy: InlinePolicy, named: Sequence[NamedPolicy] = ()) -> bool:
    """Somebody asked for retries; without that, a chain that ends is not exhausted."""
    inline = policy.max_retries > 0 or (policy.max_preemption_retries or 0) > 0
    return inline or any(each.payers() for each in named)


def max_attempts(
    retry_count: int,
    counters: Mapping[str, int],
    policy: InlinePolicy,
    named: Sequence[NamedPolicy],
    settings: Settings,
) -> int:
    """Give how many attempts the chain can come to by itself.

    That is what its user and the named policies allow. A budget for preemptions is room for what
    others do to it, and each retry that it or a person pays adds one when it happens.
    """
    manual = counters.get(MANUAL_BUDGET, 0)
    limits = _rule_limits(named, settings)
    counted = {FAILURE_BUDGET, MANUAL_BUDGET, *limits}
    others = sum(used for name, used in counters.items() if name not in counted)
    allowed = policy.max_retries + sum(limits.values()) + others
    return max(1 + min(settings.global_max_retries, allowed) + manual, retry_count + 1)


def _rule_limits(named: Sequence[NamedPolicy], settings: Settings) -> dict[str, int]:
    """The limit of each budget of the named policies, by its counter's name."""
    return {
        payer.label: settings.global_max_retries if payer.retry_limit is None else payer.retry_limit
        for policy in named
        for payer in policy.payers()
    }


def budgets(
    counters: Mapping[str, int],
    policy: InlinePolicy,
    named: Sequence[NamedPolicy],
    settings: Settings,
) -> list[dict[str, Any]]:
    """List the budgets that are open or were used, as `{name, used, limit}`; null has no limit.

    Those of rules that are gone stay, with the limit null, as long as the chain has spent on them.
    """
    preemptions = policy.max_preemption_retries
    limits: dict[str, int | None] = dict(_rule_limits(named, settings))
    if policy.max_retries > 0:
        limits[FAILURE_BUDGET] = policy.max_retries
    if preemptions is not None:
        limits[PREEMPTION_BUDGET] = preemptions
    unlimited = [name for name in sorted(counters) if name not in limits and counters[name]]
    limits |= {name: policy.max_retries if name == FAILURE_BUDGET else None for name in unlimited}
    return [
        {"name": name, "used": counters.get(name, 0), "limit": limit}
        for name, limit in limits.items()
    ]
