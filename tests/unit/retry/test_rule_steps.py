"""The steps of a decision with named policies: each reason, their order, who pays and how much."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

from retry.engine.decide import Decision, Mode, Settings, counters_after
from retry.engine.decision import Payment
from retry.evidence.termination import Termination
from retry.policies.matching import NamedPolicy
from retry.policies.merge import Bound, Layer, MergedBounds
from tests.unit.retry.build import NOW, PREEMPTED, ROOT_CREATED_AT, a_chain, decided, exited
from tests.unit.retry.named import named, on_causes, read

Case = dict[str, Any]


def on_code(action: str, code: int, **rule: Any) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": "In", "values": [code]}, **rule}


NO = '{"reprise": {"retry": false}}'
SPENT = {"inline/failure": 5}
# What makes each step refuse, in the order of the steps.
LADDER: dict[str, Case] = {
    "not_batch": {"chain": {"session_type": "interactive"}},
    "never_retried": {"end": {"reason": "QuotaExceeded"}},
    "retries_disabled": {"settings": {"mode": Mode.OFF}},
    "workload_said_no": {"end": {"message": NO}},
    "repeating_failure": {
        "chain": {"signature": "a", "failures": ["a"]},
        "policy": {"stop_after_same": 2},
    },
    "global_limit": {"settings": {"global_max_retries": 0}},
    "rule_fail": {"rules": [on_code("Fail", 1)]},
    "rule_limit": {"rules": [on_code("Retry", 1, retryLimit=0)]},
    "cause_not_eligible": {"policy": {"max_retries": 5, "eligible_causes": []}},
    "exit_code_excluded": {"policy": {"max_retries": 5, "no_retry_on_exit_codes": [1]}},
    "preemption_budget": {
        "end": {"conditions": ("Preempted",)},
        "policy": {"max_preemption_retries": 5},
        "chain": {"retry_count": 5, "counters": {"inline/preemption": 5}},
    },
    "max_retries": {
        "policy": {"max_retries": 5},
        "chain": {"retry_count": 5, "counters": {"inline/failure": 5}},
    },
    "default_fail": {"spec": {"defaultAction": "Fail"}},
    "default_limit": {"spec": {"defaultAction": "Retry", "retryLimit": 0}},
    "no_policy": {},
}
LATE = {"policy": {"max_chain_duration": 0.001}}
RETRY_REASONS: dict[str, Case] = {
    "rule_retry": {"rules": [on_code("Retry", 1)]},
    "inline_retry": {"policy": {"max_retries": 6}},
    "default_retry": {"spec": {"defaultAction": "Retry"}},
}
# A platform cause has no exit code that is looked at, and no other budget once it has its own.
APART = {
    ("exit_code_excluded", "preemption_budget"),
    ("preemption_budget", "max_retries"),
    ("default_fail", "default_limit"),
    # A platform cause is no failure that could be the same.
    ("repeating_failure", "preemption_budget"),
}
PAIRS = [pair for pair in combinations(LADDER, 2) if pair not in APART]


def decide_case(*cases: Case) -> Decision:
    """Decide with all the cases' facts at once; of equal ones the earlier case's."""
    found: Case = {"end": {}, "chain": {}, "settings": {}, "policy": {}, "spec": {}, "rules": []}
    for case in reversed(cases):
        for part, facts in case.items():
            found[part] = [*facts, *found[part]] if part == "rules" else found[part] | facts
    return decided(
        Termination(**{"exit_code": 1, **found["end"]}),
        chain=a_chain(**found["chain"]),
        settings=Settings(**found["settings"]),
        named=[named(*found["rules"], **found["spec"])],
        **found["policy"],
    )


@pytest.mark.parametrize("reason", LADDER)
def test_each_refusal(reason: str) -> None:
    decision = decide_case(LADDER[reason])
    assert (decision.action, decision.reason, decision.state) == ("fail", reason, "final")
    assert (decision.paid_by, decision.delay, decision.due_at) == (None, None, None)
    assert (decision.avoid_node, decision.resources) == ("", None)


@pytest.mark.parametrize("reason", RETRY_REASONS)
def test_each_retry(reason: str) -> None:
    decision = decide_case(RETRY_REASONS[reason])
    assert (decision.action, decision.reason, decision.state) == ("retry", reason, "scheduled")


@pytest.mark.parametrize(("earlier", "later"), PAIRS)
def test_of_two_refusals_the_earlier_step_names_it(earlier: str, later: str) -> None:
    assert decide_case(LADDER[earlier], LADDER[later]).reason == earlier


@pytest.mark.parametrize("reason", LADDER)
@pytest.mark.parametrize("retry", RETRY_REASONS)
def test_the_chains_time_is_judged_last(reason: str, retry: str) -> None:
    late = decide_case(LATE, RETRY_REASONS[retry])
    assert (late.reason, late.retry_state) == ("chain_deadline", "exhausted")
    if reason != "no_policy":
        assert decide_case(LADDER[reason], LATE).reason == reason


def test_every_step_before_the_verdict_is_traced() -> None:
    decision = decide_case(LADDER["no_policy"])
    assert [step["step"] for step in decision.trace] == [
        "classify",
        "session_type",
        "never_cause",
        "switch",
        "global_limit",
        "policy",
        "inline_budget",
        "no_policy",
        "decision",
    ]


def test_a_rule_asks_for_equal_failures_before_its_limit() -> None:
    rule = on_code("Retry", 1, name="r", stopAfterSame=2, retryLimit=0)
    alike = {"chain": {"signature": "a", "failures": ["a"]}}
    stopped = decide_case({"rules": [rule]}, alike)
    assert (stopped.reason, stopped.rule) == ("repeating_failure", "infra/r")
    assert stopped.retry_state == "exhausted"
    assert decide_case({"rules": [rule]}).reason == "rule_limit"


def test_a_rule_counts_within_its_window() -> None:
    rule = on_code("Retry", 1, name="r", retryLimit=1, retryWindow="1m")
    for age, reason in ((59, "rule_limit"), (60, "rule_retry")):
        paid = [Payment("infra/r", NOW - timedelta(seconds=age))]
        chain = {"paid": paid, "retry_count": 1, "counters": {"infra/r": 1}}
        assert decide_case({"rules": [rule], "chain": chain}).reason == reason


@pytest.mark.parametrize(("mark", "used"), [(0, 2), (1, 1), (2, 0)])
def test_a_rule_counts_since_the_last_progress_if_it_asks(mark: int, used: int) -> None:
    backoff = {"initialDelay": "1m", "jitter": "none"}
    spent = {"retry_count": 2, "counters": {"infra/r": 2}, "marks": {"infra/r": mark}}
    for asks, counted in ((True, used), (False, 2)):
        rule = on_code("Retry", 1, name="r", retryLimit=2, resetOnProgress=asks, backoff=backoff)
        decision = decide_case({"rules": [rule], "chain": spent})
        assert (decision.used, decision.limit) == (counted, 2)
        assert decision.reason == ("rule_limit" if counted == 2 else "rule_retry")
        assert decision.delay == (None if counted == 2 else 60 * 2**counted)


@pytest.mark.parametrize("refusal", ["cause_not_eligible", "exit_code_excluded", "max_retries"])
@pytest.mark.parametrize("default", ["Retry", "Fail"])
def test_an_inline_budget_decides_instead_of_any_default(refusal: str, default: str) -> None:
    decision = decide_case(LADDER[refusal], {"spec": {"defaultAction": default}})
    assert decision.reason == refusal


@pytest.mark.parametrize(
    ("end", "policy", "reason"),
    [
        # Each class has its own budget, and without one the default decides.
        (PREEMPTED, {"max_retries": 5, "max_preemption_retries": 0}, "default_retry"),
        (exited(1), {"max_retries": 0, "max_preemption_retries": 5}, "default_retry"),
        (PREEMPTED, {"max_retries": 0}, "default_retry"),
        (PREEMPTED, {"max_retries": 5}, "inline_retry"),
        (PREEMPTED, {"max_retries": 0, "max_preemption_retries": 5}, "inline_retry"),
    ],
)
def test_a_default_is_for_causes_without_an_inline_budget(
    end: Termination, policy: dict[str, Any], reason: str
) -> None:
    assert decided(end, named=[named(defaultAction="Retry")], **policy).reason == reason


@pytest.mark.parametrize(
    ("actions", "reason", "rule"),
    [
        ((None, None), "no_policy", None),
        ((None, "Fail", "Retry"), "default_fail", "p1/default"),
        (("Retry", "Fail"), "default_retry", "p0/default"),
        ((None, None, "Retry"), "default_retry", "p2/default"),
    ],
)
def test_the_first_explicit_default_action_decides(
    actions: Sequence[str | None], reason: str, rule: str | None
) -> None:
    policies = [named(name=f"p{at}", defaultAction=action) for at, action in enumerate(actions)]
    decision = decided(named=policies)
    assert (decision.reason, decision.rule) == (reason, rule)


def test_the_first_match_over_all_policies_decides() -> None:
    policies = [
        named(on_code("Retry", 7), name="a", defaultAction="Fail"),
        named(on_code("Retry", 1, name="second"), on_code("Fail", 1), name="b"),
        named(on_code("Fail", 1), name="c"),
    ]
    decision = decided(named=policies)
    assert (decision.reason, decision.rule) == ("rule_retry", "b/second")
    assert decided(named=policies[::-1]).reason == "rule_fail"


def test_only_what_somebody_enabled_is_exhausted() -> None:
    spent = LADDER["global_limit"]
    nobody: list[Case] = [
        {},
        {"spec": {"defaultAction": "Fail", "retryLimit": 5}},
        {"rules": [on_code("Fail", 2)]},
        {"policy": {"max_retries": 0, "max_preemption_retries": 0}},
    ]
    for case in nobody:
        assert decide_case(spent, case).retry_state == "not_retried"
    somebody: list[Case] = [
        {"spec": {"defaultAction": "Retry"}},
        {"rules": [on_code("Retry", 2)]},
        {"rules": [on_code("Fail", 2), on_code("Retry", 2, retryLimit=0)]},
        {"policy": {"max_retries": 1}},
        {"policy": {"max_preemption_retries": 1}},
    ]
    for case in somebody:
        assert decide_case(spent, case).retry_state == "exhausted"
    never: Case = {"rules": [on_code("Retry", 2)]}
    for reason in ("not_batch", "never_retried", "retries_disabled", "workload_said_no"):
        assert decide_case(LADDER[reason], never).retry_state == "not_retried"


# Limits and counters.


@pytest.mark.parametrize(
    ("rule", "policy", "highest", "limit"),
    [
        (3, 5, 150, 3),
        (0, 5, 150, 0),
        (9, 5, 150, 9),
        (None, 5, 150, 5),
        (None, 0, 150, 0),
        (None, None, 150, 150),
        (None, None, 20, 20),
        (1000, None, 20, 1000),
    ],
)
def test_the_closest_limit_counts(
    rule: int | None, policy: int | None, highest: int, limit: int
) -> None:
    fields = {} if rule is None else {"retryLimit": rule}
    spec = {} if policy is None else {"retryLimit": policy}
    policies = [named(on_code("Retry", 1, name="r", **fields), **spec)]
    chain = a_chain(retry_count=1, counters={"infra/r": 1})
    settings = Settings(global_max_retries=highest)
    decision = decided(chain=chain, named=policies, settings=settings)
    assert (decision.used, decision.limit) == (1, limit)
    assert decision.reason == ("rule_retry" if limit > 1 else "rule_limit")


@pytest.mark.parametrize(("policy", "limit"), [(None, 20), (0, 0), (4, 4)])
def test_a_default_action_has_its_policys_limit(policy: int | None, limit: int) -> None:
    decision = decided(
        named=[named(defaultAction="Retry", retryLimit=policy)],
        settings=Settings(global_max_retries=20),
    )
    assert decision.limit == limit
    assert decision.paid_by == ("infra/default" if limit else None)


def test_the_global_limit_can_be_lowered_at_any_time() -> None:
    policies = [named(on_code("Retry", 1, name="r"))]
    chain = a_chain(retry_count=5, counters={"infra/r": 5})
    before, after = Settings(global_max_retries=20), Settings(global_max_retries=5)
    assert decided(chain=chain, named=policies, settings=before).limit == 20
    decision = decided(chain=chain, named=policies, settings=after)
    assert (decision.reason, decision.used, decision.limit) == ("global_limit", 5, 5)
    assert decision.retry_state == "exhausted"


@pytest.mark.parametrize(
    ("rule", "counter"),
    [
        # printf '<canonical JSON>' | sha256sum | cut -c1-8
        ({"onConditions": ["OOMKilled"]}, "195630c3"),
        (
            {
                "onExitCodes": {"values": [137, 143], "operator": "In"},
                "containerName": "main",
                "includeInitContainers": True,
            },
            "24634849",
        ),
        ({"onTerminationMessage": {"pattern": "ä"}}, "49a452fb"),
        ({"name": "oom", "onConditions": ["OOMKilled"]}, "oom"),
    ],
)
def test_a_rule_without_a_name_is_known_by_what_it_matches(
    rule: dict[str, Any], counter: str
) -> None:
    (found,) = read({"action": "Retry", **rule}).spec.rules or ()
    assert found.counter == counter


OOM = Termination(containers=(), conditions=("OOMKilled",), exit_code=137)
OOM_RULE: dict[str, Any] = {"action": "Retry", "onConditions": ["OOMKilled"]}
OTHER = on_code("Retry", 9)


@pytest.mark.parametrize(
    "edited",
    [
        named(OTHER, OOM_RULE),
        named({**OOM_RULE, "retryLimit": 7}, OTHER),
        named({**OOM_RULE, "backoff": {"initialDelay": "1m"}, "resources": None}, retryLimit=3),
        named({**OOM_RULE, "antiAffinity": {"mode": "node"}, "name": None}),
        named(on_code("Fail", 3), {**OOM_RULE, "includeInitContainers": True}),
    ],
)
def test_a_count_survives_moving_a_rule_and_changing_its_limits(edited: NamedPolicy) -> None:
    first = decided(OOM, named=[named(OOM_RULE, OTHER)])
    assert first.paid_by == "infra/195630c3"
    chain = a_chain(retry_count=1, counters=counters_after({}, first.paid_by))
    again = decided(OOM, chain=chain, named=[edited])
    assert (again.paid_by, again.used) == ("infra/195630c3", 1)


def test_a_named_rule_keeps_its_count_when_its_matchers_change() -> None:
    chain = a_chain(retry_count=2, counters={"infra/oom": 2})
    wider = {**OOM_RULE, "name": "oom", "onConditions": ["OOMKilled", "Evicted"]}
    assert decided(OOM, chain=chain, named=[named(wider)]).used == 2
    renamed = {**OOM_RULE, "name": "memory"}
    assert decided(OOM, chain=chain, named=[named(renamed)]).used == 0


def test_the_same_rule_in_two_policies_counts_twice() -> None:
    chain = a_chain(retry_count=2, counters={"a/oom": 2})
    rule = {**OOM_RULE, "name": "oom", "retryLimit": 2}
    assert decided(OOM, chain=chain, named=[named(rule, name="a")]).reason == "rule_limit"
    assert decided(OOM, chain=chain, named=[named(rule, name="b")]).reason == "rule_retry"


# The three designs that the engine joins.


def run(
    ends: Sequence[Termination], policies: Sequence[NamedPolicy] = (), **fields: Any
) -> list[Decision]:
    """Decide about the ends of one chain, each retry paid, until one is refused."""
    settings = fields.pop("settings", Settings())
    counters: dict[str, int] = {}
    decisions: list[Decision] = []
    for retry_count, end in enumerate(ends):
        decision = decided(
            end,
            chain=a_chain(retry_count=retry_count, counters=counters),
            named=policies,
            settings=settings,
            **fields,
        )
        decisions.append(decision)
        if decision.paid_by is None:
            break
        counters = counters_after(counters, decision.paid_by)
        assert sum(counters.values()) == retry_count + 1
    return decisions


INFRA = named(
    {"name": "preempted", "action": "Retry", "onConditions": ["Preempted", "Evicted"]},
    name="infra",
    retryLimit=10,
)
TRAINING = named({**OOM_RULE, "name": "oom", "retryLimit": 3}, name="ml-training", retryLimit=5)


@pytest.mark.parametrize("last", [PREEMPTED, OOM])
def test_armadas_example_counts_ten_preemptions_and_three_ooms_apart(last: Termination) -> None:
    ends = [OOM, *[PREEMPTED] * 4, OOM, *[PREEMPTED] * 6, OOM, last]
    *granted, refused = run(ends, [INFRA, TRAINING], settings=Settings(global_max_retries=20))
    assert len(granted) == 13
    assert {decision.reason for decision in granted} == {"rule_retry"}
    assert (refused.reason, refused.retry_state) == ("rule_limit", "exhausted")
    expected = ("infra/preempted", 10, 10) if last is PREEMPTED else ("ml-training/oom", 3, 3)
    assert (refused.rule, refused.used, refused.limit) == expected


def test_armadas_global_limit_caps_the_sum() -> None:
    ends = [OOM, OOM, OOM, *[PREEMPTED] * 20]
    *granted, refused = run(ends, [INFRA, TRAINING], settings=Settings(global_max_retries=12))
    assert len(granted) == 12
    assert (refused.reason, refused.used, refused.limit) == ("global_limit", 12, 12)


@pytest.mark.parametrize(
    ("last", "reason"), [(exited(1), "max_retries"), (PREEMPTED, "preemption_budget")]
)
def test_flusters_job_fails_three_times_and_is_preempted_a_hundred(
    last: Termination, reason: str
) -> None:
    ends = [*[PREEMPTED] * 50, *[exited(1)] * 3, *[PREEMPTED] * 50, last]
    *granted, refused = run(ends, max_retries=3, max_preemption_retries=100)
    assert len(granted) == 103
    assert (refused.reason, refused.retry_state) == (reason, "exhausted")


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_backendais_count_is_the_distance_from_the_root(max_retries: int) -> None:
    ends = [(exited(1), PREEMPTED, OOM, Termination(lease_expired=True))[at % 4] for at in range(9)]
    *granted, refused = run(ends, max_retries=max_retries)
    assert len(granted) == max_retries
    assert refused.reason == ("max_retries" if max_retries else "no_policy")


# Bounds.


def test_changes_by_bounds_are_traced_when_a_rule_decides_too() -> None:
    bounds = MergedBounds(
        max_retries=Bound(1, Layer.CLUSTER), max_chain_duration=Bound(900.0, Layer.DOMAIN)
    )
    decision = decided(
        bounds=bounds, named=[named(on_code("Retry", 1))], max_retries=3, max_chain_duration=9000
    )
    bound_steps = [step for step in decision.trace if step["step"] == "bound"]
    assert [(step["field"], step["was"], step["now"]) for step in bound_steps] == [
        ("max_retries", 3, 1),
        ("max_chain_duration", 9000.0, 900.0),
    ]
    age = (NOW - ROOT_CREATED_AT).total_seconds()
    late = decided(
        bounds=MergedBounds(max_chain_duration=Bound(age - 1, Layer.DOMAIN)),
        named=[named(on_causes("Retry", "kernel_nonzero_exit", name="code"))],
    )
    assert (late.reason, late.rule, late.paid_by) == ("chain_deadline", "infra/code", None)
