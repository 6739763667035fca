"""Changed resources over those of the attempt before."""

from typing import Any

import pytest

from retry.units.resources import merged_resources

PLAIN = {"cpu": "1", "memory": "1Gi"}
GROUPED = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "plain over plain": (PLAIN, {"memory": "4Gi"}, {"cpu": "1", "memory": "4Gi"}),
    "plain over none": ({}, {"memory": "4Gi"}, {"memory": "4Gi"}),
    "groups over none": ({}, {"limits": {"memory": "4Gi"}}, {"limits": {"memory": "4Gi"}}),
    "none over plain": (PLAIN, {}, PLAIN),
    "a new one": (PLAIN, {"gpu": "1"}, {**PLAIN, "gpu": "1"}),
    "groups over groups": (
        GROUPED,
        {"limits": {"cpu": "2"}},
        {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi", "cpu": "2"}},
    ),
    "plain over groups": (
        GROUPED,
        {"memory": "4Gi"},
        {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
    ),
    "a limit over plain": (
        PLAIN,
        {"limits": {"memory": "4Gi"}},
        {"requests": PLAIN, "limits": {"cpu": "1", "memory": "4Gi"}},
    ),
    "one group over the other": (
        {"requests": {"cpu": "1"}},
        {"limits": {"cpu": "2"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_changes_are_laid_over_the_base(name: str) -> None:
    base, changes, expected = CASES[name]
    assert merged_resources(base, changes) == expected
