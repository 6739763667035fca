"""The steps of a decision about named policies: their rules, then their default action."""

from typing import Any

from retry.engine.case import Case, Verdict, check_budget
from retry.engine.same_failure import repeats
from retry.policies.backoff import Backoff
from retry.policies.matching import CompiledRule, NamedPolicy

# Maximum number of rules without a match in a trace; policies may have a hundred.
_TRACED_MISSES = 50


def named_rules(case: Case) -> Verdict | None:
    """Apply the first rule that matches, over the rules of all policies in order."""
    for policy in case.named:
        rule = _first_match(case, policy)
        if rule is not None:
            return _by_rule(case, rule)
    return None


def default_action(case: Case) -> Verdict | None:
    """Apply the first policy with a default action, which decides when no rule matches."""
    policy = next((policy for policy in case.named if policy.default is not None), None)
    if policy is None or policy.default is None:
        return None
    if not policy.default.retries:
        case.note("default_action", "default_fail", rule=policy.default.label)
        return Verdict("default_fail", rule=policy.default)
    return _payment(case, policy.default, "default_action", "default_limit", "default_retry")


def _first_match(case: Case, policy: NamedPolicy) -> CompiledRule | None:
    missed: list[str] = []
    found = None
    facts = case.facts
    # The loops are written out, since most of a decision's time is spent here.
    for rule in policy.rules:
        for wanted, holds in rule.tests:
            if not holds(facts):
                missed.append(wanted)
                break
        else:
            found = rule
            break
    step = {
        "step": "policy",
        "policy": policy.name,
        "revision": policy.revision,
        "looked_at": len(missed) + (found is not None),
        "missed": missed[:_TRACED_MISSES],
        "result": "none" if found is None else "match",
    }
    if policy.names_container and not facts.termination.containers:
        step["containers"] = 0
    case.trace.append(step)
    return found


def _by_rule(case: Case, rule: CompiledRule) -> Verdict:
    if not rule.retries:
        case.note("rule", "rule_fail", rule=rule.label, matched=list(rule.matchers))
        return Verdict("rule_fail", rule=rule)
    if refused := repeats(case, rule.stop_after_same, rule=rule.label):
        return refused._replace(rule=rule)
    return _payment(case, rule, "rule", "rule_limit", "rule_retry")


def _payment(case: Case, rule: CompiledRule, step: str, refusal: str, retry: str) -> Verdict:
    limit = case.settings.global_max_retries if rule.retry_limit is None else rule.retry_limit
    window, resets = rule.retry_window, rule.reset_on_progress
    used = case.used(rule.label, window, resets=resets)
    facts: dict[str, Any] = {"rule": rule.label, "matched": list(rule.matchers)}
    if refused := check_budget(
        case, step, refusal, used, limit, window=window, resets=resets, **facts
    ):
        return refused._replace(rule=rule)
    backoff = rule.backoff or Backoff.from_policy(case.policy)
    return Verdict(retry, rule.label, used, limit, rule, backoff)
