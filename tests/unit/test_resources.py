"""Tests of what a session asks for, in both of its forms."""

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from podspec.resources import check, grouped, groups, limited, requested
from scheduler.wire import Node
from sessions_app.api.operations.quotas import QuotasBody
from sessions_app.api.requests.bodies import SessionCreate
from sessions_app.core.quotas import MEMORY
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


@pytest.mark.parametrize("resources", [{}, {"cpu": 1}, IN_GROUPS, {"requests": {}}])
def test_allowed_resources_are_accepted(resources: object) -> None:
    check(resources)


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
    ],
)
def test_forbidden_resources_are_refused(resources: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        check(resources)


@pytest.mark.parametrize("text", AMOUNTS)
def test_every_spelling_of_an_amount_can_be_sent(text: str) -> None:
    forms: list[dict[str, Any]] = [{"memory": text}, {"requests": {"memory": text}}]
    for resources in forms:
        body = SessionCreate.model_validate({"command": ["true"], "resources": resources})
        assert body.resources == resources
        assert requested(resources) == {"memory": AMOUNTS[text]}
    quotas = QuotasBody.model_validate({"resources": {"memory": text}})
    assert quotas.limits()[MEMORY] == AMOUNTS[text]
    Node.model_validate({"name": "n", "allocatable": {"memory": text}, "free": {"memory": text}})


@pytest.mark.parametrize("text", [*NEGATIVE, *UNREADABLE, *TOO_LONG, *TOO_LARGE])
def test_no_other_spelling_can_be_sent(text: str) -> None:
    for resources in ({"memory": text}, {"requests": {"memory": text}}):
        with pytest.raises(ValidationError, match="memory: "):
            SessionCreate.model_validate({"command": ["true"], "resources": resources})
    with pytest.raises(ValidationError, match="memory"):
        QuotasBody.model_validate({"resources": {"memory": text}})
