"""Tests of what is refused in a policy document over REST, field by field."""

from typing import Any

import pytest

from tests.agent import Api
from tests.integration.test_rest_policies import (
    ML,
    PATH,
    RULES,
    api,
    document,
    put,
    refused,
    specs,
)

__all__ = ["api"]


def rule(**fields: Any) -> dict[str, Any]:
    return specs(rules=[{"action": "Retry", "onConditions": ["OOMKilled"]}, fields])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "apiVersion"),
        (document(apiVersion="batch/v1"), "apiVersion"),
        (document(kind="Queue"), "kind"),
        (document(metadata={}), "metadata.name"),
        (document("Upper"), "metadata.name"),
        (document("a" * 64), "metadata.name"),
        (document("inline"), "metadata.name"),
        (document("manual"), "metadata.name"),
        (document("simulate"), "metadata.name"),
        (document(metadata={"name": "a", "labels": {}}), "metadata.labels"),
        (document(metadata={"name": "a", "project": "work"}), "metadata.project"),
        (document(metadata={"name": "a", "domain": 3}), "metadata.domain"),
        (document(spec=None), "spec"),
        (document(spec=[]), "spec"),
        (document(extra=1), "extra"),
        (specs(retrylimit=5), "spec.retrylimit"),
        (specs(retryLimit=1001), "spec.retryLimit"),
        (specs(retryLimit=-1), "spec.retryLimit"),
        (specs(retryLimit=True), "spec.retryLimit"),
        (specs(retryLimit="5"), "spec.retryLimit"),
        (specs(defaultAction="retry"), "spec.defaultAction"),
        (specs(backoff={"initialDelay": 10}), "spec.backoff.initialDelay"),
        (specs(backoff={"initialDelay": "10"}), "spec.backoff.initialDelay"),
        (specs(backoff={"maxDelay": "0s"}), "spec.backoff.maxDelay"),
        (specs(backoff={"multiplier": 0}), "spec.backoff.multiplier"),
        (specs(backoff={"jitter": "some"}), "spec.backoff.jitter"),
        (specs(backoff={"jitterRatio": 2}), "spec.backoff.jitterRatio"),
        (specs(backoff={"maxdelay": "1s"}), "spec.backoff.maxdelay"),
        (specs(antiAffinity={"mode": "rack"}), "spec.antiAffinity.mode"),
        (specs(antiAffinity={}), "spec.antiAffinity.mode"),
        (specs(rules={}), "spec.rules"),
        (specs(rules=RULES * 17), "spec.rules"),
        (rule(), "spec.rules[1].action"),
        (rule(action="Retry"), "spec.rules[1]"),
        (rule(action="Retry", containerName="main"), "spec.rules[1]"),
        (rule(action="Stop", onConditions=["Evicted"]), "spec.rules[1].action"),
        (rule(action="Fail", onConditions=[]), "spec.rules[1].onConditions"),
        (rule(action="Fail", onConditions=["Oom"]), "spec.rules[1].onConditions[0]"),
        (
            rule(action="Fail", onExitCodes={"operator": "In", "values": [1, 0]}),
            "spec.rules[1].onExitCodes.values[1]",
        ),
        (
            rule(action="Fail", onExitCodes={"operator": "in", "values": [1]}),
            "spec.rules[1].onExitCodes.operator",
        ),
        (
            rule(action="Fail", onExitCodes={"operator": "In", "values": []}),
            "spec.rules[1].onExitCodes.values",
        ),
        (
            rule(action="Fail", onTerminationMessage={"pattern": "(a"}),
            "spec.rules[1].onTerminationMessage.pattern",
        ),
        (
            rule(action="Fail", onTerminationMessage={"pattern": "a" * 1025}),
            "spec.rules[1].onTerminationMessage.pattern",
        ),
        (
            rule(action="Fail", onTerminationMessage={"pattern": "(a)\\1"}),
            "spec.rules[1].onTerminationMessage.pattern",
        ),
        (rule(action="Fail", onFailureCategory=["a/b"]), "spec.rules[1].onFailureCategory[0]"),
        (rule(action="Fail", onCauses=["user_cancelled"]), "spec.rules[1].onCauses[0]"),
        (rule(action="Fail", onCauses=["bad luck"]), "spec.rules[1].onCauses[0]"),
        (
            rule(action="Retry", onConditions=["Evicted"], retryLimit=1001),
            "spec.rules[1].retryLimit",
        ),
        (
            rule(action="Retry", onConditions=["Evicted"], backoff={"initialDelay": "soon"}),
            "spec.rules[1].backoff.initialDelay",
        ),
        (
            rule(
                action="Retry",
                onConditions=["OOMKilled"],
                resources={"memory": {"factor": 1.0}},
            ),
            "spec.rules[1].resources.memory.factor",
        ),
        (
            rule(
                action="Retry",
                onConditions=["OOMKilled"],
                resources={"memory": {"factor": 2, "max": "lots"}},
            ),
            "spec.rules[1].resources.memory.max",
        ),
        (
            rule(action="Retry", onConditions=["OOMKilled"], resources={"cpu": 2}),
            "spec.rules[1].resources.memory",
        ),
        (rule(action="Fail", onConditions=["Evicted"], name="default"), "spec.rules[1].name"),
        (rule(action="Fail", onConditions=["Evicted"], name="a/b"), "spec.rules[1].name"),
        (
            rule(action="Fail", onConditions=["Evicted"], onPodMessage={"pattern": "a"}),
            "spec.rules[1].onPodMessage",
        ),
        (specs(rules=[{**RULES[0]}, {**RULES[0]}]), "spec.rules[1].name"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_each_field_is_checked_and_named(api: Api, body: dict[str, Any], field: str) -> None:
    errors = refused(api, body)
    assert field in errors
    assert all(errors[field])


def test_all_that_is_wrong_is_told_at_once(api: Api) -> None:
    body = specs(retryLimit=-1, rules=[{"action": "Retry"}, {"onConditions": ["x"]}])
    assert set(refused(api, body)) == {
        "spec.retryLimit",
        "spec.rules[0]",
        "spec.rules[1].action",
        "spec.rules[1].onConditions[0]",
    }


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("project=work", "project"),
        ("project=acme/work&domain=globex", "project"),
        ("scope=cluster", "scope"),
        ("domain=", "domain"),
    ],
)
def test_an_odd_scope_is_named(api: Api, query: str, field: str) -> None:
    for method, path in (("GET", ML), ("PUT", ML), ("DELETE", ML), ("GET", PATH)):
        response = api.call(method, f"{path}?{query}", document())
        assert response.status_code == 400
        assert list(response.json()["errors"]) == [field]


def test_an_unknown_scope_in_a_document_is_a_fault_of_the_document(api: Api) -> None:
    nowhere = document(metadata={"name": "a", "domain": "acme", "project": "ghost"})
    assert list(refused(api, nowhere)) == ["metadata.project"]
    nowhere = document(metadata={"name": "a", "domain": "void"})
    assert list(refused(api, nowhere)) == ["metadata.domain"]


def test_an_unknown_scope_in_an_address_is_a_404(api: Api) -> None:
    for scope in ("project=acme/ghost", "domain=void"):
        refused(api, document(), f"{PATH}?{scope}", status=404)
        assert api.get(f"{ML}?{scope}").status_code == 404


@pytest.mark.parametrize("cursor", ["junk", "cD1hYmM%3D"])
def test_a_cursor_that_is_none_is_a_404(api: Api, cursor: str) -> None:
    put(api, ML, document(), 201)
    for path in (PATH, f"{ML}revisions/", "queues/", "failure-categories/"):
        assert api.get(f"{path}?cursor={cursor}").status_code == 404


@pytest.mark.parametrize("query", ["page_size=0", "page_size=501", "archived=maybe", "x=1"])
def test_odd_parameters_of_the_list_are_a_400(api: Api, query: str) -> None:
    assert api.get(f"{PATH}?{query}").status_code == 400
