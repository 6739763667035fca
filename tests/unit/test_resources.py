"""Tests of what a session asks for, in both of its forms."""

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from base.podspec.resources import check, grouped, groups, limited, requested, sensible_check
from base.podspec.specification import problem
from interfaces.kinds.quotas import QuotasBody
from interfaces.requests.bodies import SessionCreate
from scheduler.wire import Node
from sessions_app.core.quotas import RESOURCES
from tests.quantities import AMOUNTS, NEGATIVE, TOO_LARGE, TOO_LONG, UNREADABLE

GIB = 2**30
IN_GROUPS = {"limits": {"memory": "2Gi", "cpu": 3}, "requests": {"memory": "1Gi", "gpu": "1"}}


def test_requests_count_and_limits_bound() -> None:
    assert requested(IN_GROUPS) == {"memory": GIB, "cpu": 3, "gpu": 1}
    assert limited(IN_GROUPS) == {"memory": 2 * GIB, "cpu": 3, "gpu": 1}


def test_plain_amounts_are_both() -> None:
    plain = {"cpu": ".5", "memory": "1Gi"}
    assert requested(plain) == limited(plain) == {"cpu": Decimal("0.5"), "memory": GIB}
    assert groups(plain) == {"requests": plain, "limits": plain}
    assert (grouped(plain), grouped(IN_GROUPS), grouped({})) == (False, True, False)
    assert requested({}) == limited({}) == {}


@pytest.mark.parametrize(
    "resources",
    [
        *({}, {"cpu": 1}, IN_GROUPS, {"requests": {}}, {"memory": 0}, {"memory": "1Mi"}),
        *({"cpu": "1u"}, {"nvidia.com/gpu": "2.0"}, {"memory": "0.7Gi"}),
        {"requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": {"cpu": 1, "gpu": 2}},
    ],
)
def test_allowed_resources_are_accepted(resources: object) -> None:
    sensible_check(resources)


@pytest.mark.parametrize(
    ("resources", "error"),
    [
        (None, "must be an object"),
        ([], "must be an object"),
        ({"requests": {"cpu": 1}, "cpu": 1}, "not both"),
        ({"limits": None}, "'limits' must be objects"),
        ({"limits": {"cpu": 1}, "requests": 3}, "'limits' must be objects"),
        ({"cpu": None}, "cpu: a quantity must be"),
        ({"cpu": "-1"}, "cpu: an amount of a resource must not be negative"),
        ({"limits": {"memory": "lots"}}, "memory: 'lots' is not a quantity"),
        ({"memory": "500m"}, "memory: 500m is less than 1Mi; did you mean 500Mi?"),
        ({"memory": "1u"}, "memory: 1u is less than 1Mi; did you mean 1Mi?"),
        ({"memory": "0.1"}, "memory: 0.1 is less than 1Mi; did you mean 0.1Gi?"),
        ({"memory": 512}, "memory: 512 is less than 1Mi; did you mean 512Mi?"),
        ({"memory": "64Ki"}, "memory: 64Ki is less than 1Mi; did you mean 64Mi?"),
        ({"memory": "500k"}, "memory: 500k is less than 1Mi; did you mean 500M?"),
        ({"memory": "1e3"}, "memory: 1e3 is less than 1Mi$"),
        ({"ephemeral-storage": "10"}, "ephemeral-storage: 10 is less than 1Mi; did you mean 10Mi?"),
        ({"hugepages-2Mi": "4"}, "hugepages-2Mi: 4 is less than 1Mi; did you mean 4Mi?"),
        ({"memory": "1g"}, "memory: '1g' is not a quantity .*; did you mean 1Gi?"),
        ({"memory": "1.5 GB"}, "memory: '1.5 GB' is not a quantity .*; did you mean 1.5Gi?"),
        ({"memory": "512MiB"}, "did you mean 512Mi?"),
        ({"limits": {"nvidia.com/gpu": "0.5"}}, "gpu: must be a whole number, not 0.5: only cpu"),
        ({"nvidia.com/gpu": "500m"}, "nvidia.com/gpu: must be a whole number, not 500m"),
        (
            {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}},
            "memory: the request of 2Gi is above its limit of 1Gi",
        ),
    ],
)
def test_forbidden_resources_are_refused(resources: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        sensible_check(resources)


@pytest.mark.parametrize("text", AMOUNTS)
def test_every_spelling_of_an_amount_can_be_sent(text: str) -> None:
    forms: list[dict[str, Any]] = [{"cpu": text}, {"requests": {"cpu": text}}]
    for resources in forms:
        body = SessionCreate.model_validate({"command": ["true"], "resources": resources})
        assert body.resources == resources
        assert requested(resources) == {"cpu": AMOUNTS[text]}
    quotas = QuotasBody.model_validate({"resources": {"cpu": text}})
    assert quotas.limits()[f"{RESOURCES}cpu"] == AMOUNTS[text]
    Node.model_validate({"name": "n", "allocatable": {"memory": text}, "free": {"memory": text}})


@pytest.mark.parametrize("text", [*NEGATIVE, *UNREADABLE, *TOO_LONG, *TOO_LARGE])
def test_no_other_spelling_can_be_sent(text: str) -> None:
    for resources in ({"memory": text}, {"requests": {"memory": text}}):
        with pytest.raises(ValidationError, match="memory: "):
            SessionCreate.model_validate({"command": ["true"], "resources": resources})
    with pytest.raises(ValidationError, match="memory"):
        QuotasBody.model_validate({"resources": {"memory": text}})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"resources": {"memory": "500m"}}, "did you mean 500Mi"),
        ({"resources": {"gpu": "0.5"}}, "gpu: must be a whole number"),
    ],
)
def test_quotas_are_as_sensible_as_what_they_limit(body: Any, error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        QuotasBody.model_validate(body)


def test_a_pod_spec_asks_for_sensible_amounts() -> None:
    def of(**resources: Any) -> str | None:
        return problem({"spec": {"containers": [{"name": "main", "resources": resources}]}})

    assert of(requests={"memory": "1Gi"}, limits={"memory": "2Gi"}, claims=[]) is None
    assert of(limits={"memory": "500m"}) == (
        "spec.containers[0].resources: memory: 500m is less than 1Mi; did you mean 500Mi?"
    )
    assert "above its limit" in str(of(requests={"cpu": 2}, limits={"cpu": "1500m"}))


@pytest.mark.parametrize("resources", [{"memory": "1n"}, {"gpu": "0.5"}])
def test_an_executor_takes_what_can_be_read(resources: object) -> None:
    check(resources)
