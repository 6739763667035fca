"""Changes over earlier ones that wait: what the child gets is what its attempt shows."""

from sessions_app.core.retry_changes import merged_changes


def test_resources_of_both_requests_stay() -> None:
    before = {"resources": {"memory": "16Gi"}, "environ": {"A": "1"}, "reason": "more room"}
    assert merged_changes(before, {"resources": {"cpu": "4"}, "environ": {"A": None}}) == {
        "resources": {"memory": "16Gi", "cpu": "4"},
        "environ": {"A": None},
        "reason": "more room",
    }
    assert merged_changes(None, {"resources": {"cpu": "4"}}) == {"resources": {"cpu": "4"}}
