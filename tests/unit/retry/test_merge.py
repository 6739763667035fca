import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.policies.inline import Bounds, InlinePolicy
from retry.policies.merge import (
    NO_BOUNDS,
    Bound,
    Layer,
    MergedBounds,
    bounded,
    merge,
    merge_bounds,
    violations,
)
from tests.unit.retry import strategies
from tests.unit.retry.build import a_policy

LIMITS = ("max_retries", "max_preemption_retries")
LIMITED = MergedBounds(
    max_retries=Bound(5, Layer.DOMAIN),
    max_preemption_retries=Bound(50, Layer.CLUSTER),
    max_chain_duration=Bound(3600.0, Layer.PROJECT),
    min_retry_delay=Bound(10.0, Layer.DOMAIN),
)


def test_without_layers_the_shipped_defaults_hold() -> None:
    merged = merge([])
    assert merged.policy == InlinePolicy()
    assert merged.policy.model_fields_set == set(InlinePolicy.model_fields)
    assert set(merged.source.values()) == {Layer.SHIPPED}


def test_the_closest_layer_that_sets_a_field_wins() -> None:
    merged = merge(
        [
            (Layer.CLUSTER, a_policy(max_retries=1, retry_delay=10, jitter="none")),
            (Layer.DOMAIN, a_policy(max_retries=2, retry_delay=20)),
            (Layer.PROJECT, a_policy()),
            (Layer.SESSION, a_policy(max_retries=4)),
        ]
    )
    assert (merged.policy.max_retries, merged.source["max_retries"]) == (4, Layer.SESSION)
    assert (merged.policy.retry_delay, merged.source["retry_delay"]) == (20, Layer.DOMAIN)
    assert (merged.policy.jitter, merged.source["jitter"]) == ("none", Layer.CLUSTER)
    assert (merged.policy.backoff, merged.source["backoff"]) == ("fixed", Layer.SHIPPED)


def test_unlimited_is_a_value_like_any_other() -> None:
    unlimited, three = a_policy(max_retries="unlimited"), a_policy(max_retries=3)
    merged = merge([(Layer.CLUSTER, three), (Layer.PROJECT, unlimited)])
    assert (merged.policy.max_retries, merged.source["max_retries"]) == ("unlimited", Layer.PROJECT)
    assert merge([(Layer.CLUSTER, unlimited), (Layer.SESSION, three)]).policy.max_retries == 3


def test_an_explicit_null_is_a_value() -> None:
    merged = merge(
        [
            (Layer.CLUSTER, a_policy(max_preemption_retries=100, max_chain_duration=60)),
            (Layer.PROJECT, a_policy(max_preemption_retries=None)),
        ]
    )
    assert merged.policy.max_preemption_retries is None
    assert merged.source["max_preemption_retries"] is Layer.PROJECT
    assert merged.policy.max_chain_duration == 60


def test_a_default_that_is_stated_is_set() -> None:
    merged = merge(
        [(Layer.DOMAIN, a_policy(max_retries=3)), (Layer.SESSION, a_policy(max_retries=0))]
    )
    assert merged.policy.max_retries == 0


def test_the_strictest_bound_wins_and_is_remembered_with_its_layer() -> None:
    merged = merge_bounds(
        [
            (Layer.CLUSTER, Bounds(max_retries=10, min_retry_delay=5, max_chain_duration=100)),
            (Layer.DOMAIN, Bounds(max_retries=5, min_retry_delay=1)),
            (Layer.PROJECT, Bounds(max_retries=7, min_retry_delay=8, max_chain_duration=100)),
        ]
    )
    assert merged == MergedBounds(
        max_retries=Bound(5, Layer.DOMAIN),
        min_retry_delay=Bound(8, Layer.PROJECT),
        max_chain_duration=Bound(100, Layer.CLUSTER),
    )
    assert merge_bounds([(Layer.CLUSTER, Bounds())]) == NO_BOUNDS


def test_of_equal_bounds_the_farthest_layer_is_named() -> None:
    bounds = Bounds(max_retries=5, min_retry_delay=5)
    merged = merge_bounds([(Layer.CLUSTER, bounds), (Layer.PROJECT, bounds)])
    assert merged.max_retries == Bound(5, Layer.CLUSTER)
    assert merged.min_retry_delay == Bound(5, Layer.CLUSTER)


@pytest.mark.parametrize(
    ("policy", "texts"),
    [
        (a_policy(), {}),
        (a_policy(max_retries=5, retry_delay=10, max_chain_duration=3600), {}),
        (
            a_policy(max_retries=10),
            {"max_retries": "max_retries is 10, over the bound of 5 set by domain"},
        ),
        (
            a_policy(max_preemption_retries=51),
            {
                "max_preemption_retries": "max_preemption_retries is 51, "
                "over the bound of 50 set by cluster"
            },
        ),
        (
            a_policy(max_retries="unlimited", max_preemption_retries="unlimited"),
            {
                "max_retries": "max_retries is unlimited, over the bound of 5 set by domain",
                "max_preemption_retries": "max_preemption_retries is unlimited, "
                "over the bound of 50 set by cluster",
            },
        ),
        (a_policy(max_preemption_retries=None), {}),
        (
            a_policy(max_chain_duration=3600.5),
            {
                "max_chain_duration": "max_chain_duration is 3600.5, "
                "over the bound of 3600 set by project"
            },
        ),
        (
            a_policy(max_chain_duration=None),
            {
                "max_chain_duration": "max_chain_duration is null, "
                "over the bound of 3600 set by project"
            },
        ),
        (
            a_policy(retry_delay=1),
            {
                "retry_delay": "retry_delay is 1, "
                "under the bound min_retry_delay of 10 set by domain"
            },
        ),
    ],
)
def test_values_beyond_a_bound_are_violations(policy: InlinePolicy, texts: dict[str, str]) -> None:
    assert violations(policy, LIMITED) == {field: [text] for field, text in texts.items()}
    assert violations(policy, NO_BOUNDS) == {}


def test_every_violation_is_told() -> None:
    policy = a_policy(max_retries=9, retry_delay=1, max_chain_duration=1e308)
    assert list(violations(policy, LIMITED)) == ["max_retries", "max_chain_duration", "retry_delay"]


def test_bounds_change_the_policy_and_say_so() -> None:
    policy, steps = bounded(a_policy(max_retries=9, retry_delay=1), LIMITED)
    assert (policy.max_retries, policy.retry_delay, policy.max_chain_duration) == (5, 10, 3600)
    assert policy.max_preemption_retries is None
    assert steps == [
        {"step": "bound", "field": "max_retries", "was": 9, "now": 5, "layer": "domain"},
        {
            "step": "bound",
            "field": "max_chain_duration",
            "was": None,
            "now": 3600.0,
            "layer": "project",
        },
        {"step": "bound", "field": "retry_delay", "was": 1.0, "now": 10.0, "layer": "domain"},
    ]


@given(strategies.retries, st.sampled_from(Layer), st.sampled_from(LIMITS))
def test_unlimited_is_over_every_bound(most: int, layer: Layer, field: str) -> None:
    bounds = MergedBounds(**{field: Bound(most, layer)})
    held, steps = bounded(a_policy(**{field: "unlimited"}), bounds)
    assert getattr(held, field) == most
    told = {"step": "bound", "field": field, "was": "unlimited", "now": most, "layer": str(layer)}
    assert steps == [told]


@given(strategies.policies(max_retries="unlimited", max_preemption_retries="unlimited"))
def test_without_a_bound_unlimited_stays(policy: InlinePolicy) -> None:
    bounds = MergedBounds(min_retry_delay=Bound(1, Layer.CLUSTER))
    held, _ = bounded(policy, bounds)
    assert {getattr(held, field) for field in LIMITS} == {"unlimited"}


def test_a_policy_within_its_bounds_stays_itself() -> None:
    policy = a_policy(max_retries=5, max_chain_duration=60)
    for bounds in (NO_BOUNDS, MergedBounds(), LIMITED):
        held, steps = bounded(policy, bounds)
        assert held is policy
        assert steps == []


@given(strategies.policies(), strategies.bounds)
def test_bounded_values_are_within(policy: InlinePolicy, bounds: MergedBounds) -> None:
    held, steps = bounded(policy, bounds)
    assert bounded(held, bounds) == (held, [])
    assert violations(merge([(Layer.SESSION, held)]).policy, bounds) == {}
    changed = {step["field"] for step in steps}
    for field in InlinePolicy.model_fields:
        assert (getattr(held, field) != getattr(policy, field)) == (field in changed)
    assert set(violations(policy, bounds)) == changed & policy.model_fields_set
    json.dumps(steps, allow_nan=False)


layer_bounds = st.tuples(
    st.sampled_from(Layer),
    st.builds(
        Bounds,
        max_retries=st.none() | strategies.retries,
        max_chain_duration=st.none() | strategies.positive,
        min_retry_delay=st.none() | strategies.positive,
    ),
)


@given(st.lists(layer_bounds, max_size=4), strategies.policies())
def test_merged_bounds_hold_like_each_layers_bounds_in_turn(
    layers: list[tuple[Layer, Bounds]], policy: InlinePolicy
) -> None:
    in_turn = policy
    for layer in layers:
        in_turn, _ = bounded(in_turn, merge_bounds([layer]))
    assert bounded(policy, merge_bounds(layers))[0] == in_turn
