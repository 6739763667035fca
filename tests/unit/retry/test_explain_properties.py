"""Tests of what holds of every explanation: it tells every step that settled something, none
raises."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from retry.engine.decide import Decision, Mode, Settings
from retry.engine.reasons import REASONS
from retry.evidence.termination import Termination
from retry.explain.sentences import explain
from retry.policies.categories import FailureCategory
from retry.policies.documents import PolicyDocument
from retry.policies.inline import Bounds, InlinePolicy
from retry.policies.matching import compile_category, compile_policy
from retry.policies.merge import Layer, merge, merge_bounds
from tests.unit.retry import worlds
from tests.unit.retry.build import NOW, a_chain, decided
from tests.unit.retry.strategies import json_values


def sentences_of(decision: Decision) -> list[str]:
    stored = json.loads(json.dumps(decision._asdict(), default=str))
    return explain(stored, stored["trace"])


decisions = st.builds(
    lambda end, layers, bounds, policies, categories, mode, highest, counters, resources: decided(
        Termination.from_json({**end, "status": "error"}),
        chain=a_chain(
            retry_count=sum(counters.values()),
            counters=counters,
            resources=resources,
            preempted_at=NOW,
            confirmed=False,
            grace_period=10.0,
        ),
        bounds=merge_bounds([(Layer.CLUSTER, Bounds.model_validate(each)) for each in bounds]),
        settings=Settings(mode, highest),
        named=[
            compile_policy(PolicyDocument.model_validate(each), revision=1) for each in policies
        ],
        categories=[compile_category(FailureCategory.model_validate(each)) for each in categories],
        **merge(
            [(Layer.CLUSTER, InlinePolicy.model_validate(each)) for each in layers]
        ).policy.model_dump(mode="json"),
    ),
    end=worlds.ends,
    layers=worlds.layers,
    bounds=worlds.bounds,
    policies=worlds.policy_lists,
    categories=worlds.categories,
    mode=st.sampled_from((Mode.ON, Mode.ON, Mode.ON, Mode.PAUSED, Mode.OFF)),
    highest=st.sampled_from((150, 150, 150, 1)),
    counters=st.dictionaries(
        st.sampled_from(("inline/failure", "p0/default", "p0/rule 0")), st.integers(0, 2)
    ),
    resources=worlds.resources,
)
SILENT = {
    "session_type",
    "never_cause",
    "switch",
    "global_limit",
    "same_failure",
    "inline_budget",
    "eligible",
}


@settings(deadline=None)
@given(decisions)
def test_every_step_that_refused_or_gave_something_is_told(decision: Decision) -> None:
    assert decision.reason in REASONS
    sentences = sentences_of(decision)
    assert all(not sentence[0].islower() and sentence.endswith(".") for sentence in sentences)
    *steps, last = decision.trace
    for step in steps:
        words = explain({"action": "retry", "held_for": decision.held_for}, [step])[:-1]
        if step.get("result") == "pass" and step["step"] in SILENT | {"exit_code", "workload"}:
            continue
        assert len(words) == 1, step
        assert words[0] in sentences
    if decision.action == "fail":
        assert steps[-1].get("result") != "pass"
    assert last["step"] == "decision"


STEPS = [
    *("classify", "session_type", "never_cause", "switch", "workload", "global_limit", "policy"),
    *("rule", "bound", "inline_budget", "eligible", "exit_code", "failure_budget"),
    *("preemption_budget", "default_action", "no_policy", "delay", "grace", "chain_deadline"),
    *("avoid_node", "memory", "decision", "divination"),
]
FACTS = [
    *("result", "exit_code", "container", "node", "failure_category", "session_type", "cause"),
    *("mode", "after", "category", "defined", "used", "limit", "policy", "revision", "looked_at"),
    *("missed", "rule", "matched", "field", "was", "now", "layer", "class", "budget", "denied"),
    *("source", "backoff", "delay", "multiplier", "n", "base", "jitter", "extra", "cap", "floor"),
    *("asked", "preempted_at", "confirmed", "grace_period", "age", "factor", "held_by"),
    *("action", "state", "due_at", "reason", "retry_state", "dispatched_by", "requested_by"),
]
values = json_values | st.sampled_from(
    ["pass", "none", "match", "retry", "exponential", "0001-01-01T00:00:00+23:59", 10**300, -1e308]
)
garbled = st.builds(
    lambda step, facts: {**facts, "step": step},
    st.sampled_from(STEPS) | values,
    st.dictionaries(st.sampled_from(FACTS), values, max_size=8),
)


@example({}, [{"step": "delay", "source": []}])
@given(st.dictionaries(st.sampled_from(FACTS), values), st.lists(garbled, max_size=5))
def test_no_trace_makes_it_raise(fields: dict[str, Any], trace: list[dict[str, Any]]) -> None:
    assert all(explain(fields, trace))
