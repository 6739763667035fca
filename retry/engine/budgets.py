"""The retry budgets of a chain, and the counters of retries that each has paid."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from retry.engine.decision import Settings
from retry.evidence.causes import FAILURE_CAUSES, PLATFORM_CAUSES
from retry.policies.inline import InlinePolicy
from retry.policies.matching import CompiledRule, NamedPolicy

FAILURE_BUDGET = "inline/failure"
PREEMPTION_BUDGET = "inline/preemption"
MANUAL_BUDGET = "manual"


class Budget(NamedTuple):
    """A counter of a chain. `limit` None: only the limit of all chains applies."""

    name: str
    used: int
    limit: int | None

    @property
    def left(self) -> int | None:
        """Return how many retries it can still pay for; None if it has no limit of its own."""
        return None if self.limit is None else max(0, self.limit - self.used)


def counters_after(counters: Mapping[str, int], paid_by: str) -> dict[str, int]:
    """Return the child's counters: the chain's, with one more retry paid by the budget."""
    return {**counters, paid_by: counters.get(paid_by, 0) + 1}


def retries_enabled(policy: InlinePolicy, named: Sequence[NamedPolicy] = ()) -> bool:
    """Return whether any policy asks for retries; without that, an ended chain is not exhausted."""
    inline = policy.max_retries > 0 or (policy.max_preemption_retries or 0) > 0
    return inline or any(each.payers() for each in named)


def open_budgets(
    session_type: str,
    counters: Mapping[str, int],
    policy: InlinePolicy,
    named: Sequence[NamedPolicy],
) -> list[Budget]:
    """List the budgets that a failure of such a session may spend, spent ones too.

    Omits budgets that no decision can reach: any budget of a session that is not a batch session,
    an inline one without eligible causes, and a default action behind a full inline policy.
    """
    if session_type != "batch":
        return []
    limits = {rule.label: rule.retry_limit for each in named for rule in _rules(each)}
    limits |= _inline_limits(policy)
    default = next((each.default for each in named if each.default is not None), None)
    if default is not None and default.retries and not _inline_decides_all(policy):
        limits[default.label] = default.retry_limit
    return [Budget(name, counters.get(name, 0), limit) for name, limit in limits.items()]


def _rules(policy: NamedPolicy) -> list[CompiledRule]:
    return [rule for rule in policy.rules if rule.retries]


def _inline_limits(policy: InlinePolicy) -> dict[str, int | None]:
    """Return the inline budgets that some eligible cause spends, with their limits."""
    eligible, preemptions = set(policy.eligible_causes), policy.max_preemption_retries
    spenders = FAILURE_CAUSES if preemptions is not None else FAILURE_CAUSES | PLATFORM_CAUSES
    limits: dict[str, int | None] = {}
    if policy.max_retries and eligible & spenders:
        limits[FAILURE_BUDGET] = policy.max_retries
    if preemptions and eligible & PLATFORM_CAUSES:
        limits[PREEMPTION_BUDGET] = preemptions
    return limits


def _inline_decides_all(policy: InlinePolicy) -> bool:
    """Return whether an inline budget exists for every class, so no default applies."""
    return policy.max_retries > 0 and policy.max_preemption_retries != 0


def max_attempts(
    retry_count: int, budgets: Sequence[Budget], settings: Settings, *, followed: bool = False
) -> int | None:
    """Return the maximum number of attempts of the chain without manual retries; None if unlimited.

    `budgets` are those of `open_budgets`; `followed` says that the next attempt exists or waits.
    The result adds up what is left of each budget, up to the limit of all chains. A chain with only
    that limit counts as unlimited. A manual retry adds one when it happens.
    """
    made = retry_count + (2 if followed else 1)
    allowed = max(0, settings.global_max_retries - retry_count)
    left = [budget.left for budget in budgets]
    if allowed and None in left:
        return None
    return max(made, retry_count + 1 + min(allowed, sum(each or 0 for each in left)))


def budgets(
    counters: Mapping[str, int],
    policy: InlinePolicy,
    named: Sequence[NamedPolicy],
    settings: Settings,
) -> list[dict[str, Any]]:
    """List the budgets that are open or were used, as `{name, used, limit}`; null is no limit.

    A budget of a removed rule stays in the list, with the limit null, if the chain has spent on it.
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


def _rule_limits(named: Sequence[NamedPolicy], settings: Settings) -> dict[str, int]:
    """Return the limit of each budget of the named policies, by its counter's name."""
    return {
        payer.label: settings.global_max_retries if payer.retry_limit is None else payer.retry_limit
        for policy in named
        for payer in policy.payers()
    }
