"""Tests of where pods may run: labels, affinity, taints and tolerations, as Kubernetes reads
them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.node_rules import ANY_NODE, node_rules

GPU = {"name": "a", "labels": {"gpu": "a100", "rack": "7"}}
TAINTED = {"name": "b", "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}


def affinity(*expressions: dict[str, Any], **more: Any) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions), **more}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": rule}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize("spec", [None, {}, [], {"nodeSelector": None}, {"tolerations": "x"}])
def test_without_rules_any_node_will_do(spec: Any) -> None:
    assert node_rules(spec) is ANY_NODE
    assert ANY_NODE.refusal(GPU) == ""


def test_all_labels_of_the_selector_are_needed() -> None:
    rules = node_rules({"nodeSelector": {"gpu": "a100", "rack": "8"}})
    assert rules.refusal(GPU) == "label rack=8"
    assert node_rules({"spec": {"nodeSelector": {"rack": "7"}}}).refusal(GPU) == ""
    assert rules.refusal({"name": "bare"}) == "label gpu=a100"


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (expression("gpu", "In", "a100", "h100"), True),
        (expression("gpu", "In", "h100"), False),
        (expression("gpu", "NotIn", "h100"), True),
        (expression("gpu", "NotIn", "a100"), False),
        (expression("none", "NotIn", "a100"), True),
        (expression("gpu", "Exists"), True),
        (expression("none", "Exists"), False),
        (expression("gpu", "DoesNotExist"), False),
        (expression("none", "DoesNotExist"), True),
        (expression("rack", "Gt", "6"), True),
        (expression("rack", "Gt", "7"), False),
        (expression("rack", "Lt", "8"), True),
        (expression("gpu", "Lt", "8"), False),
        (expression("gpu", "Unheard", "of"), True),
    ],
)
def test_expressions_are_read_as_kubernetes_does(rule: dict[str, Any], fits: bool) -> None:
    assert (node_rules(affinity(rule)).refusal(GPU) == "") == fits


def test_a_node_can_be_named() -> None:
    rules = node_rules(affinity(matchFields=[expression("metadata.name", "In", "a")]))
    assert rules.refusal(GPU) == ""
    assert rules.refusal(TAINTED) != ""


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({}, False),
    ],
)
def test_a_taint_must_be_tolerated(toleration: dict[str, str], tolerated: bool) -> None:
    assert ANY_NODE.refusal(TAINTED) == "taint gpu"
    rules = node_rules({"tolerations": [toleration]})
    assert (rules.refusal(TAINTED) == "") == tolerated


def test_a_taint_that_is_only_a_wish_forbids_nothing() -> None:
    assert ANY_NODE.refusal({"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}) == ""


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["nodeSelector", "affinity", "nodeAffinity", "tolerations", "key"]),
            inner,
        )
    ),
)


@given(spec=values)
def test_whatever_people_write_is_read(spec: Any) -> None:
    assert isinstance(node_rules(spec).refusal(GPU), str)
