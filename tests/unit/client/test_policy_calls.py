import pytest
from reprise_client import Client

from tests.unit.client import answers
from tests.unit.client.server import FakeServer, Reply


def test_policies_are_addressed_by_name_and_scope(server: FakeServer, client: Client) -> None:
    server.on("GET /retry-policies/", answers.page(answers.policy()))
    server.on("GET /retry-policies/ml/", answers.policy(revision=3))
    server.on("PUT /retry-policies/ml/", answers.policy(revision=4))
    server.on("POST /retry-policies/", Reply(answers.policy(), 201))
    server.on("DELETE /retry-policies/ml/", {"outcome": "archived"})
    server.on("GET /retry-policies/ml/revisions/", answers.page({"revision": 4, "document": {}}))
    document = {"kind": "RetryPolicy", "metadata": {"name": "ml"}, "spec": {}}
    assert [each.metadata["name"] for each in client.retry_policies(archived=True)] == ["ml"]
    assert client.retry_policy("ml", domain="research").status.revision == 3
    assert client.retry_policy_apply(document, project="research/vision").status.revision == 4
    assert client.retry_policy_create(document).status.warnings == []
    assert client.retry_policy_delete("ml", domain="research") == "archived"
    assert [each.revision for each in client.retry_policy_revisions("ml")] == [4]
    assert [call.query for call in server.calls] == [
        {"archived": "true"},
        {"domain": "research"},
        {"project": "research/vision"},
        {},
        {"domain": "research"},
        {},
    ]
    assert server.calls[2].body == document


def test_queues_and_categories_have_their_addresses(server: FakeServer, client: Client) -> None:
    path = "/queues/research/vision/batch/"
    server.on(f"GET {path}", answers.queue())
    server.on(f"PUT {path}", answers.queue(retry_policies=["ml"]))
    server.on(f"DELETE {path}", Reply(b"", 204))
    server.on("GET /queues/", answers.page(answers.queue()))
    server.on("GET /failure-categories/", answers.page(answers.category()))
    server.on("GET /failure-categories/a%20b/", answers.category())
    server.on("PUT /failure-categories/cuda_error/", answers.category())
    server.on("DELETE /failure-categories/cuda_error/", Reply(b"", 204))
    assert client.queue("research/vision/batch").address == "research/vision/batch"
    made = client.queue_apply("research/vision/batch", retry_policies=["ml"])
    assert made.retry_policies == ["ml"]
    client.queue_delete("research/vision/batch")
    assert [each.name for each in client.queues(project="research/vision")] == ["batch"]
    assert [each.name for each in client.failure_categories()] == ["cuda_error"]
    assert client.failure_category("a b").position == 10
    client.failure_category_apply("cuda_error", matchers=[])
    client.failure_category_delete("cuda_error")
    assert [call.body for call in server.calls if call.method == "PUT"] == [
        {"retry_policies": ["ml"]},
        {"matchers": []},
    ]


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ({}, "cluster"),
        ({"domain": "research"}, "domains/research"),
        ({"project": "research/vision"}, "projects/research/vision"),
    ],
)
def test_defaults_are_taken_back(
    server: FakeServer, client: Client, scope: dict[str, str], path: str
) -> None:
    server.on(f"DELETE /retry-defaults/{path}/", Reply(b"", 204))
    client.retry_defaults_delete(**scope)
    assert server.count("DELETE", f"/retry-defaults/{path}/") == 1
