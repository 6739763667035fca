"""The SDK's calls for policies, categories and queues against the server itself."""

from collections.abc import Iterator
from typing import Any

import pytest
from reprise_client import ApiError, Client

from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client(live_server: Any) -> Iterator[Client]:
    factories.project("work", domain="acme")
    token = factories.token(factories.user("root", superuser=True))
    with Client(live_server.url, token) as made:
        yield made


def document(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "reprise/v1", "kind": "RetryPolicy"}
    return {**head, "metadata": {"name": "ml"}, "spec": spec}


def test_policies(client: Client) -> None:
    scope = {"project": "acme/work"}
    first = client.retry_policy_create(document(retryLimit=1), **scope)
    assert (first.status.revision, first.status.created_by) == (1, "root")
    assert client.retry_policy_apply(document(retryLimit=2), **scope).status.revision == 2
    read = client.retry_policy("ml", **scope)
    assert read.metadata == {"name": "ml", "domain": "acme", "project": "work"}
    # What was read is valid input, and says where it belongs.
    assert client.retry_policy_apply(read.model_dump(mode="json")).status.revision == 2
    assert [each.revision for each in client.retry_policy_revisions("ml", **scope)] == [2, 1]
    assert [each.spec for each in client.retry_policies(project="acme/work")] == [{"retryLimit": 2}]
    client.queue_change("acme/work/default", retry_policies=["ml"])
    with pytest.raises(ApiError, match="acme/work/default") as caught:
        client.retry_policy_delete("ml", **scope)
    assert caught.value.problem["used_by"]["queues"] == ["acme/work/default"]
    session = client.session_create(project="acme/work", command=["true"])
    assert session.retry_policies == ["ml"]
    client.queue_change("acme/work/default", retry_policies=[])
    assert client.retry_policy_delete("ml", **scope) == "archived"
    assert [each.metadata["name"] for each in client.retry_policies(archived=True)] == ["ml"]
    client.cancel(session.id)
    assert client.retry_policy_delete("ml", **scope) == "deleted"


def test_categories(client: Client) -> None:
    matchers = [{"onConditions": ["OOMKilled"]}]
    client.failure_category_create("one", matchers=matchers)
    client.failure_category_apply("two", matchers=matchers, position=-1)
    assert [each.name for each in client.failure_categories()] == ["two", "one"]
    assert client.failure_category("one").matchers == matchers
    client.failure_category_delete("one")
    assert [each.name for each in client.failure_categories()] == ["two"]


def test_queues(client: Client) -> None:
    address = "acme/work/night"
    made = client.queue_apply(address, priority_factor=2)
    assert (made.address, made.priority_factor) == (address, 2.0)
    assert client.queue_cordon(address, "upgrade").cordon_reason == "upgrade"
    assert client.queue_uncordon(address).cordoned is False
    assert [each.name for each in client.queues(project="acme/work")] == ["default", "night"]
    client.queue_delete(address)
    with pytest.raises(ApiError) as caught:
        client.queue(address)
    assert caught.value.status == 404


def test_settings(client: Client) -> None:
    client.retry_policy_create(document())
    changed = client.retry_settings_update(default_policy="ml", retries_per_minute=60)
    assert (changed.default_policy, changed.retries_per_minute) == ("ml", 60)
