from typing import Any

import pytest

from sessions_app.selectors.resource_changes import resource_changes


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({"memory": "2Gi", "cpu": "1"}, {"memory": "4Gi", "cpu": "1"}, ["memory 2Gi → 4Gi"]),
        ({"cpu": 1}, {"cpu": 1, "gpu": 2}, ["gpu none → 2"]),
        ({"memory": "2Gi"}, {"memory": "2Gi"}, []),
        (
            {"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}},
            {"requests": {"memory": "3Gi"}, "limits": {"memory": "3Gi"}},
            ["memory 2Gi → 3Gi"],
        ),
        (
            {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            {"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}},
            ["requests memory 1Gi → 2Gi", "limits memory 2Gi → 4Gi"],
        ),
        (
            {"memory": "2Gi"},
            {"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}},
            ["limits memory 2Gi → 4Gi"],
        ),
        ({}, {}, []),
    ],
)
def test_changed_resources_are_named(
    before: dict[str, Any], after: dict[str, Any], names: list[str]
) -> None:
    assert list(resource_changes(before, after)) == names
