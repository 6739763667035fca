from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from retry.evidence.termination import Termination
from retry.policies.unreachable_rules import unreachable_rules
from tests.unit.retry import worlds
from tests.unit.retry.build import decided
from tests.unit.retry.named import category, named, read

CATEGORY = category("cuda_error", {"onExitCodes": {"operator": "In", "values": [9]}})


def rule(**matchers: Any) -> dict[str, Any]:
    return {"action": "Fail", **matchers}


def codes(operator: str, *values: int) -> dict[str, Any]:
    return {"operator": operator, "values": list(values)}


def says(text: str) -> dict[str, Any]:
    return {"onTerminationMessage": {"pattern": text}}


EVICTED = {"onConditions": ["Evicted"]}
BOTH = {"onConditions": ["Evicted", "Preempted"]}
OOM = {"onConditions": ["OOMKilled"]}
ANY = {"onExitCodes": codes("NotIn", 255)}


@pytest.mark.parametrize(
    ("earlier", "later", "found"),
    [
        (rule(**EVICTED), rule(**EVICTED), True),
        (rule(**BOTH), rule(**EVICTED), True),
        (rule(**EVICTED), rule(**BOTH), False),
        # A matcher more is a narrower rule.
        (rule(**EVICTED), rule(**EVICTED, **ANY), True),
        (rule(**EVICTED, **ANY), rule(**EVICTED), False),
        (rule(**EVICTED), rule(**ANY), False),
        (rule(onExitCodes=codes("In", 1, 2)), rule(onExitCodes=codes("In", 2)), True),
        (rule(onExitCodes=codes("In", 1)), rule(onExitCodes=codes("In", 1, 2)), False),
        (rule(onExitCodes=codes("NotIn", 1)), rule(onExitCodes=codes("In", 2)), True),
        (rule(onExitCodes=codes("NotIn", 1)), rule(onExitCodes=codes("In", 1)), False),
        (rule(onExitCodes=codes("NotIn", 1)), rule(onExitCodes=codes("NotIn", 1, 2)), True),
        (rule(onExitCodes=codes("NotIn", 1, 2)), rule(onExitCodes=codes("NotIn", 1)), False),
        # Codes beyond a byte exist.
        (
            rule(onExitCodes=codes("In", *range(1, 256))),
            rule(onExitCodes=codes("NotIn", 1)),
            False,
        ),
        (rule(onCauses=["unknown", "evicted"]), rule(onCauses=["evicted"]), True),
        (rule(onCauses=["evicted"]), rule(**EVICTED), False),
        (rule(onSignatures=["0" * 12, "1" * 12]), rule(onSignatures=["1" * 12]), True),
        (rule(onSignatures=["1" * 12]), rule(onSignatures=["0" * 12]), False),
        (rule(onFailureCategory=["a", "b"]), rule(onFailureCategory=["b"]), True),
        (rule(**says("a")), rule(**says("a")), True),
        (rule(**says("a")), rule(**says("ab")), False),
        # The container is a part of what is matched, where containers are looked at.
        (rule(**ANY, containerName="a"), rule(**ANY), False),
        (rule(**ANY), rule(**ANY, containerName="a"), False),
        (rule(**ANY, containerName="a"), rule(**ANY, containerName="a"), True),
        (rule(**ANY, includeInitContainers=True), rule(**ANY), False),
        (rule(**ANY, includeInitContainers=False), rule(**ANY), True),
        (rule(**OOM), rule(**OOM, containerName="a"), False),
        (rule(**EVICTED), rule(**EVICTED, containerName="a"), True),
        (rule(**EVICTED, containerName="a"), rule(**EVICTED), True),
        # What a rule does is no part of it.
        (rule(**EVICTED, name="a"), rule(**EVICTED, retryLimit=3), True),
    ],
)
def test_a_rule_is_shadowed_by_a_wider_one_before_it(
    earlier: dict[str, Any], later: dict[str, Any], found: bool
) -> None:
    assert bool(unreachable_rules(read(earlier, {**later, "action": "Retry"}))) == found


def test_a_warning_names_both_rules() -> None:
    rules = [rule(**ANY), rule(**BOTH, name="wide"), rule(**EVICTED), rule(**EVICTED, name="last")]
    wide = "is never reached: whatever it matches, spec.rules[1] (wide) matches before"
    assert unreachable_rules(read(*rules)) == [
        f"spec.rules[2] (unnamed, counted as 6db053c4) {wide}",
        f"spec.rules[3] (last) {wide}",
    ]


def test_a_policy_without_rules_has_no_unreachable_rules() -> None:
    assert unreachable_rules(read()) == []


@st.composite
def overlapping(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rules of which the later ones are often narrower or wider than an earlier one."""
    rules: list[dict[str, Any]] = [draw(worlds.rules)]
    for _ in range(draw(st.integers(1, 4))):
        base, other = draw(st.sampled_from(rules)), draw(worlds.rules)
        kept = draw(st.sets(st.sampled_from(sorted(base))))
        rules.append({**other, **{name: base[name] for name in kept}, "action": "Retry"})
    return [{**each, "name": f"r{at}", "retryLimit": 9} for at, each in enumerate(rules)]


@settings(max_examples=settings().max_examples * 2, deadline=None)
@given(rules=overlapping(), ends=st.lists(worlds.ends, min_size=3, max_size=6))
def test_a_rule_reported_as_shadowed_never_decides(
    rules: list[dict[str, Any]], ends: list[dict[str, Any]]
) -> None:
    warnings = unreachable_rules(read(*rules))
    silent = {f"infra/{warning.split('(')[1].split(')')[0]}" for warning in warnings}
    event(f"{len(silent)} shadowed")
    policies = [named(*rules)]
    for end in ends:
        facts = Termination.from_json({**end, "status": "error"})
        decision = decided(facts, named=policies, categories=[CATEGORY])
        assert decision.rule not in silent
