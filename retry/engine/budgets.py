"""The retry budgets of a chain, and the counters of retries that each has paid."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from retry.engine.decision import Chain, Settings
from retry.evidence.causes import FAILURE_CAUSES, PLATFORM_CAUSES
from retry.policies.inline import InlinePolicy
from retry.policies.limits import UNLIMITED, Limit, most_of
from retry.policies.matching import CompiledRule, NamedPolicy

FAILURE_BUDGET = "inline/failure"
PREEMPTION_BUDGET = "inline/preemption"
MANUAL_BUDGET = "manual"
SCHEDULER_BUDGET = "scheduler/preemption"
"""Pays for attempts that Reprise itself stopped to make room. It has no limit."""


class Budget(NamedTuple):
    """A counter of a chain. `limit` None: only the limit of all chains applies.

    The limit counts within the newest `window` seconds; None: it counts for the whole chain. If it
    `resets`, it counts since an attempt last made progress.
    """

    name: str
    used: int
    limit: int | None
    window: float | None = None
    resets: bool = False

    @property
    def left(self) -> int | None:
        """Return how many retries it can still pay for; None if nothing limits their number."""
        if self.limit is None or ((self.window is not None or self.resets) and self.limit):
            return None
        return max(0, self.limit - self.used)


def used_of(
    chain: Chain, name: str, window: float | None, now: datetime, *, resets: bool = False
) -> int:
    """Return how many retries a budget has paid; with a window (seconds), those within it.

    If it `resets`, only those since an attempt last made progress.
    """
    used = chain.counters.get(name, 0) - (chain.marks.get(name, 0) if resets else 0)
    if window is None:
        return used
    within = 0
    for paid in chain.paid:
        if paid.budget == name and (now - paid.at).total_seconds() < window:
            within += 1
    return min(used, within)


def marks_after(
    counters: Mapping[str, int], marks: Mapping[str, int], *, advanced: bool
) -> dict[str, int]:
    """Return the counters when an attempt last made progress; `advanced`: the newest one did.

    Manual retries have no limit, so they have no mark.
    """
    if not advanced:
        return dict(marks)
    return {name: count for name, count in counters.items() if name != MANUAL_BUDGET}


def counters_after(counters: Mapping[str, int], paid_by: str) -> dict[str, int]:
    """Return the child's counters: the chain's, with one more retry paid by the budget."""
    return {**counters, paid_by: counters.get(paid_by, 0) + 1}


def retries_enabled(policy: InlinePolicy, named: Sequence[NamedPolicy] = ()) -> bool:
    """Return whether any policy asks for retries; without that, an ended chain is not exhausted."""
    inline = policy.max_retries or policy.max_preemption_retries
    return bool(inline) or any(each.payers() for each in named)


def endless(policy: InlinePolicy, settings: Settings) -> bool:
    """Return whether the inline policy sets its chain no limit at all, in number or in time.

    What else ends such a chain are causes that are never retried, breakers and shared budgets.
    """
    return (
        policy.max_retries == UNLIMITED
        and policy.max_preemption_retries in {None, UNLIMITED}
        and policy.max_chain_duration is None
        and settings.global_max_retries is None
    )


def open_budgets(
    session_type: str,
    counters: Mapping[str, int],
    policy: InlinePolicy,
    named: Sequence[NamedPolicy],
    marks: Mapping[str, int] | None = None,
) -> list[Budget]:
    """List the budgets that a failure of such a session may spend, spent ones too.

    `marks` are the counters when an attempt last made progress.

    Omits budgets that no decision can reach: any budget of a session that is not a batch session,
    an inline one without eligible causes, and a default action behind a full inline policy.
    """
    if session_type != "batch":
        return []
    limits: dict[str, _Limit] = {
        rule.label: _limit_of(rule) for each in named for rule in _rules(each)
    }
    limits |= _inline_limits(policy)
    default = next((each.default for each in named if each.default is not None), None)
    if default is not None and default.retries and not _inline_decides_all(policy):
        limits[default.label] = _limit_of(default)
    return [_budget(name, counters, limit, marks) for name, limit in limits.items()]


class _Limit(NamedTuple):
    """A number of retries, the window in which it counts, and whether progress resets it.

    Without a number, only the limit of all chains applies.
    """

    retries: int | None
    window: float | None = None
    resets: bool = False


def _limit_of(rule: CompiledRule) -> _Limit:
    return _Limit(rule.retry_limit, rule.retry_window, rule.reset_on_progress)


def _budget(
    name: str, counters: Mapping[str, int], limit: _Limit, marks: Mapping[str, int] | None
) -> Budget:
    mark = (marks or {}).get(name, 0) if limit.resets else 0
    return Budget(name, counters.get(name, 0) - mark, *limit)


def _rules(policy: NamedPolicy) -> list[CompiledRule]:
    return [rule for rule in policy.rules if rule.retries]


def _inline_limits(policy: InlinePolicy) -> dict[str, _Limit]:
    """Return the inline budgets that some eligible cause spends, with their limits."""
    eligible, preemptions = set(policy.eligible_causes), policy.max_preemption_retries
    spenders = FAILURE_CAUSES if preemptions is not None else FAILURE_CAUSES | PLATFORM_CAUSES
    limits: dict[str, _Limit] = {}
    if policy.max_retries and eligible & spenders:
        limits[FAILURE_BUDGET] = _inline_limit(policy, policy.max_retries)
    if preemptions and eligible & PLATFORM_CAUSES:
        limits[PREEMPTION_BUDGET] = _inline_limit(policy, preemptions)
    return limits


def _inline_limit(policy: InlinePolicy, limit: Limit) -> _Limit:
    return _Limit(most_of(limit), policy.retry_window, policy.reset_on_progress)


def _inline_decides_all(policy: InlinePolicy) -> bool:
    """Return whether an inline budget exists for every class, so no default applies."""
    return policy.max_retries != 0 and policy.max_preemption_retries != 0


def max_attempts(
    retry_count: int, budgets: Sequence[Budget], settings: Settings, *, followed: bool = False
) -> int | None:
    """Return the maximum number of attempts of the chain without manual retries; None if unlimited.

    `budgets` are those of `open_budgets`; `followed` says that the next attempt exists or waits.
    The result adds up what is left of each budget, up to the limit of all chains. A chain with only
    that limit counts as unlimited. A manual retry adds one when it happens.
    """
    made = retry_count + (2 if followed else 1)
    allowed = _left_of_all(retry_count, settings)
    left = [budget.left for budget in budgets]
    if allowed != 0 and None in left:
        return None
    open_ones = sum(each or 0 for each in left)
    more = open_ones if allowed is None else min(allowed, open_ones)
    return max(made, retry_count + 1 + more)


def _left_of_all(retry_count: int, settings: Settings) -> int | None:
    """Return how many retries the limit of all chains still allows; None if there is none."""
    most = settings.global_max_retries
    return None if most is None else max(0, most - retry_count)


def budgets(
    counters: Mapping[str, int],
    policy: InlinePolicy,
    named: Sequence[NamedPolicy],
    settings: Settings,
    marks: Mapping[str, int] | None = None,
) -> list[dict[str, Any]]:
    """List the budgets that are open or were used, as `{name, used, limit}`.

    A null limit is none. A budget that counts within a window has also `window` (seconds). `used`
    are all retries that it ever paid; those since an attempt last made progress, if that resets it
    (`marks` are the counters at that time). A budget of a removed rule stays in the list, with the
    limit null, if the chain has spent on it.
    """
    preemptions = policy.max_preemption_retries
    limits: dict[str, _Limit] = dict(_rule_limits(named, settings))
    if policy.max_retries:
        limits[FAILURE_BUDGET] = _inline_limit(policy, policy.max_retries)
    if preemptions is not None:
        limits[PREEMPTION_BUDGET] = _inline_limit(policy, preemptions)
    unlimited = [name for name in sorted(counters) if name not in limits and counters[name]]
    limits |= {
        name: _inline_limit(policy, policy.max_retries) if name == FAILURE_BUDGET else _Limit(None)
        for name in unlimited
    }
    return [_shown(_budget(name, counters, limit, marks)) for name, limit in limits.items()]


def _shown(budget: Budget) -> dict[str, Any]:
    shown = {"name": budget.name, "used": budget.used, "limit": budget.limit}
    return shown if budget.window is None else {**shown, "window": budget.window}


def _rule_limits(named: Sequence[NamedPolicy], settings: Settings) -> dict[str, _Limit]:
    """Return the limit of each budget of the named policies, by its counter's name."""
    most = settings.global_max_retries
    return {
        payer.label: _limit_of(payer)._replace(
            retries=most if payer.retry_limit is None else payer.retry_limit
        )
        for policy in named
        for payer in policy.payers()
    }
