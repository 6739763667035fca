"""Named policies and the workload's wishes about a failure, in plain English."""

from retry.explain.step_facts import (
    NO_LIMIT,
    Facts,
    count,
    lasting,
    listed,
    passed,
    seconds,
    texts,
    within,
)

_NAMED = 5
"""Maximum number of rules named for each condition that they lack."""

_WANTED = {
    "onConditions": "condition",
    "onExitCodes": "exit code",
    "onTerminationMessage": "termination message",
    "onPodMessage": "pod message",
    "onFailureCategory": "failure category",
    "onCauses": "cause",
    "onSignatures": "signature",
    "onSignatureTitle": "title of the signature",
}


def workload(step: Facts) -> str:
    if not passed(step):
        return "The workload asked in its termination message for no retry."
    wishes = []
    if seconds(step, "after") > 0:
        wishes.append(f"asked to wait at least {lasting(step, 'after')}")
    if step.get("category"):
        unknown = ", which nobody has defined" if step.get("defined") is False else ""
        wishes.append(f"gave its failure the category {step['category']}{unknown}")
    return f"In its termination message the workload {listed(wishes)}." if wishes else ""


def policy(step: Facts) -> str:
    """Say which rules were checked, and what those without a match wanted."""
    if "containers" not in step:
        return _checked(step)
    return (
        f"{_checked(step)} The end tells of no containers, so none has the containerName of a rule."
    )


def _checked(step: Facts) -> str:
    name = f"policy {step.get('policy')}"
    if step.get("revision") is not None:
        name += f" (revision {step['revision']})"
    looked_at, missed = count(step, "looked_at"), texts(step, "missed")
    if step.get("result") != "match":
        if not looked_at:
            return f"No rule matches: {name} has none."
        return f"No rule of {name} matches: {_misses(missed, looked_at)}."
    if looked_at < 2:
        return f"The first rule of {name} matches."
    before = looked_at - 1
    others = "the one before it does not" if before == 1 else f"the {before} before it do not"
    return f"Rule {looked_at} of {name} matches, {others}: {_misses(missed, before)}."


def _misses(missed: list[str], looked_at: int) -> str:
    """Say what the rules lacked: `a and b want another condition, c wants another exit code`."""
    found: dict[str, list[str]] = {}
    for each in missed:
        rule, _, matcher = each.rpartition(": ")
        found.setdefault(_WANTED.get(matcher, matcher), []).append(rule or "one")
    misses = [f"{_rules(rules)} another {wanted}" for wanted, rules in found.items()]
    if looked_at > len(missed):
        misses.append(f"{looked_at - len(missed)} more do not match either")
    return ", ".join(misses)


def _rules(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} wants"
    if len(names) <= _NAMED:
        return f"{listed(names)} want"
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more want"


def rule(step: Facts) -> str:
    label = step.get("rule")
    by = listed([f"the {_WANTED.get(name, name)}" for name in texts(step, "matched")])
    subject = f"Rule {label} (on {by})" if by else f"Rule {label}"
    if step.get("result") == "rule_fail":
        return f"{subject} says Fail."
    return f"{subject} says Retry: {_spent(step)}."


def default_action(step: Facts) -> str:
    label = str(step.get("rule"))
    subject = (
        f"No rule decides, and the defaultAction of policy {label.rpartition('/')[0] or label}"
    )
    if step.get("result") == "default_fail":
        return f"{subject} is Fail."
    return f"{subject} is Retry: {_spent(step)}."


def _spent(step: Facts) -> str:
    usage = f"{step.get('used')} of its {step.get('limit')} retries were used{within(step)}"
    if step.get("limit") is None:
        usage = f"{step.get('used')} of its retries were used{within(step)}, {NO_LIMIT}"
    return f"{usage}; this one pays from them" if passed(step) else f"{usage}, so none is left"
