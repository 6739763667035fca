"""What a chain may spend on retries, and who paid for the ones it had."""

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
    """A counter of a chain; `limit` None: only the limit of all chains holds."""

    name: str
    used: int
    limit: int | None

    @property
    def left(self) -> int | None:
        """How many retries it still pays for; None: no limit of its own."""
        return None if self.limit is None else max(0, self.limit - self.used)


def counters_after(counters: Mapping[str, int], paid_by: str) -> dict[str, int]:
    """Give the child's counters: the chain's with one more retry paid by the budget."""
    return {**counters, paid_by: counters.get(paid_by, 0) + 1}


def retries_enabled(policy: InlinePolicy, named: Sequence[NamedPolicy] = ()) -> bool:
    """Somebody asked for retries; without that, a chain that ends is not exhausted."""
    inline = policy.max_retries > 0 or (policy.max_preemption_retries or 0) > 0
    return inline or any(each.payers() for each in named)


def open_budgets(
    session_type: str,
    counters: Mapping[str, int],
    policy: InlinePolicy,
    named: Sequence[NamedPolicy],
) -> list[Budget]:
    """List the budgets that a failure of such a session may spend, spent ones too.

    Left out is what no decision comes to: any budget of a session that is not a batch session, an
    inline one whose causes are not eligible, and a default action behind a full inline policy.
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
    """The inline budgets that some eligible cause spends, with their limits."""
    eligible, preemptions = set(policy.eligible_causes), policy.max_preemption_retries
    spenders = FAILURE_CAUSES if preemptions is not None else FAILURE_CAUSES | PLATFORM_CAUSES
    limits: dict[str, int | None] = {}
    if policy.max_retries and eligible & spenders:
        limits[FAILURE_BUDGET] = policy.max_retries
    if preemptions and eligible & PLATFORM_CAUSES:
        limits[PREEMPTION_BUDGET] = preemptions
    return limits


def _inline_decides_all(policy: InlinePolicy) -> bool:
    """Every class of causes has an inline budget, so that no default action is asked."""
    return policy.max_retries > 0 and policy.max_preemption_retries != 0


def max_attempts(
    retry_count: int, budgets: Sequence[Budget], settings: Settings, *, followed: bool = False
) -> int | None:
    """Give the most attempts that the chain can come to by itself; None if nothing says.

    `budgets` are those of `open_budgets`, `followed` says that the next attempt is there or waits.
    What is left of each budget counts, up to the limit of all chains; that limit alone says
    nothing about a chain. A retry by hand is one more when it happens.
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


def _rule_limits(named: Sequence[NamedPolicy], settings: Settings) -> dict[str, int]:
    """The limit of each budget of the named policies, by its counter's name."""
    return {
        payer.label: settings.global_max_retries if payer.retry_limit is None else payer.retry_limit
        for policy in named
        for payer in policy.payers()
    }
