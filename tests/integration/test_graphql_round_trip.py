"""Tests that GraphQL accepts inline policies as it gives them."""

from typing import Any

from graphene.utils.str_converters import to_camel_case

from retry.policies.inline import InlinePolicy
from sessions_app.models import Project, RetryDefaults
from tests.graphs import Graph
from tests.mutations import change, done, refusal

FIELDS = f"{{ {' '.join(map(to_camel_case, InlinePolicy.model_fields))} nulls }}"
BOUNDS = "{ maxRetries maxPreemptionRetries maxChainDuration minRetryDelay }"
HERE = {"project": "acme/work"}
STORED = {
    "max_retries": 3,
    "retry_delay": 5.0,
    "backoff": "exponential",
    "jitter": "none",
    "eligible_causes": ["evicted", "oom_killed"],
    "no_retry_on_exit_codes": [2],
    "max_retry_delay": None,
}
"""`max_chain_duration` and `max_preemption_retries` are not set; one that is null is."""


def stored(project: Project) -> dict[str, Any]:
    return dict(RetryDefaults.objects.get(project=project).policy)


def test_the_defaults_of_a_scope(graph: Graph, at: Project) -> None:
    RetryDefaults.objects.create(project=at, policy=STORED, bounds={"max_retries": 9})
    query = f'{{ retryDefaults(project: "acme/work") {{ policy {FIELDS} bounds {BOUNDS} }} }}'
    answer = graph.ask(query)["retryDefaults"]
    assert (answer["policy"]["retryDelay"], answer["policy"]["backoff"]) == (5, "exponential")
    assert answer["policy"]["nulls"] == ["maxRetryDelay"]
    assert (answer["policy"]["emitRetryEvents"], answer["bounds"]["minRetryDelay"]) == (None, None)
    RetryDefaults.objects.filter(project=at).delete()
    done(graph, "replaceRetryDefaults", "retryDefaults { version }", **HERE, **answer)
    assert stored(at) == STORED
    assert RetryDefaults.objects.get(project=at).bounds == {"max_retries": 9}
    assert graph.ask(query)["retryDefaults"] == answer


def test_the_merge_of_all_layers_and_the_policy_of_a_session(graph: Graph, at: Project) -> None:
    RetryDefaults.objects.create(project=at, policy=STORED, bounds={"max_retries": 9})
    select = f"effective {FIELDS} effectiveLayers {{ field layer }} effectiveBounds {BOUNDS}"
    query = f'{{ retryDefaults(project: "acme/work") {{ {select} }} }}'
    merged = graph.ask(query)["retryDefaults"]
    layers = {each["field"]: each["layer"] for each in merged["effectiveLayers"]}
    assert len(layers) == len(InlinePolicy.model_fields)
    assert (layers["maxRetries"], layers["retryDelay"]) == ("project", "project")
    assert (layers["jitterRatio"], merged["effective"]["jitterRatio"]) == ("shipped", 0.25)
    assert merged["effectiveBounds"]["maxRetries"] == 9
    made = done(
        graph, "createSession", f"session {{ retryPolicy {FIELDS} }}", **HERE, image="x",
        retryPolicy=merged["effective"],
    )  # fmt: skip
    policy = made["session"]["retryPolicy"]
    assert policy == merged["effective"]
    assert policy["nulls"] == [
        "maxPreemptionRetries",
        "retryWindow",
        "stopAfterSame",
        "maxRetryDelay",
        "maxChainDuration",
    ]
    bare = {name: value for name, value in policy.items() if name != "nulls"}
    again = done(
        graph, "createSession", f"session {{ retryPolicy {FIELDS} }}", **HERE, image="x",
        retryPolicy=bare,
    )  # fmt: skip
    assert again["session"]["retryPolicy"] == policy


def test_limits_may_be_a_word(graph: Graph, at: Project) -> None:
    select = f"session {{ id maxRetries retryPolicy {FIELDS} retryState {{ maxAttempts }} }}"
    given = {"maxRetries": "unlimited", "maxPreemptionRetries": 7}
    asked = {**HERE, "image": "x", "retryPolicy": given}
    session = done(graph, "createSession", select, **asked)["session"]
    assert (session["maxRetries"], session["retryState"]["maxAttempts"]) == ("unlimited", None)
    policy = session["retryPolicy"]
    assert (policy["maxRetries"], policy["maxPreemptionRetries"]) == ("unlimited", 7)
    asked["retryPolicy"] = policy
    assert done(graph, "createSession", select, **asked)["session"]["retryPolicy"] == policy
    asked["retryPolicy"] = {"maxRetries": "endless"}
    assert refusal(graph, "createSession", **asked) == ("INVALID", "retryPolicy.maxRetries")


def test_the_limit_of_all_chains_may_be_none(graph: Graph) -> None:
    select = "retrySettings { globalMaxRetries }"
    for sent, now in (({"globalMaxRetries": None}, None), ({"mode": "paused"}, None), ({}, None)):
        changed = done(graph, "updateRetrySettings", select, **sent)
        assert changed["retrySettings"]["globalMaxRetries"] == now
    replaced = done(graph, "replaceRetrySettings", select)
    assert replaced["retrySettings"]["globalMaxRetries"] == 150


def test_a_field_is_inherited_again(graph: Graph, at: Project) -> None:
    RetryDefaults.objects.create(project=at, policy=STORED, bounds={})
    select = f"retryDefaults {{ policy {FIELDS} }}"
    given = {"policy": {"maxRetries": 4}, "unset": ["retryDelay", "max_retry_delay"]}
    answer = done(graph, "updateRetryDefaults", select, **HERE, **given)["retryDefaults"]["policy"]
    assert (answer["maxRetries"], answer["retryDelay"], answer["nulls"]) == (4, None, [])
    gone = {"retry_delay", "max_retry_delay"}
    rest = {name: value for name, value in STORED.items() if name not in gone}
    assert stored(at) == {**rest, "max_retries": 4}
    wrong = refusal(graph, "updateRetryDefaults", **HERE, unset=["delay"])
    assert wrong == ("INVALID", "unset[0]")
    both = change(
        graph, "updateRetryDefaults", select, **HERE, policy={"jitter": "random"}, unset=["jitter"]
    )
    assert both["errors"][0]["field"] == "unset"
    assert stored(at)["jitter"] == "none"
