"""The SDK's calls for executors against the server itself."""

from collections.abc import Iterator
from typing import Any

import pytest
from reprise_client import ApiError, Client

from scheduler.models import Reservation
from tests import factories
from tests.agent import Agent, running

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client(live_server: Any) -> Iterator[Client]:
    token = factories.token(factories.user("root", superuser=True))
    with Client(live_server.url, token) as made:
        yield made


def test_an_executor_from_its_making_to_its_end(client: Client) -> None:
    at = factories.project("work", domain="acme")
    made = client.executor_create("rack-1", projects=["acme/work"], unconfirmed_after=60)
    assert (made.health, made.projects, made.unconfirmed_after) == ("never_heard", [at.address], 60)
    assert client.executor_token("rack-1").token.startswith("rpr_") is made.token.startswith("rpr_")
    read = client.executor_change("rack-1", unconfirmed_after=None)
    assert (read.unconfirmed_after, read.token, read.projects) == (None, "", ["acme/work"])
    assert client.executor_cordon("rack-1", "new racks").cordon_reason == "new racks"
    assert [each.name for each in client.executors(cordoned=True)] == ["rack-1"]
    assert client.executor_uncordon("rack-1").cordoned is False
    with pytest.raises(ApiError) as caught:
        client.executor_create("rack-1")
    assert (caught.value.status, list(caught.value.errors)) == (409, ["name"])
    client.executor_delete("rack-1")
    assert list(client.executors()) == []


def test_an_executor_shows_its_state_and_leases(client: Client) -> None:
    at = factories.project("work", domain="acme")
    node = {"name": "n1", "allocatable": {"cpu": "8"}, "free": {"cpu": "8"}}
    played = Agent(factories.executor("rack-1"), nodes=[node])
    session = running(played, factories.submit(at, name="train"))
    read = client.executor("rack-1")
    assert (read.health, read.lease_count, read.max_sessions) == ("alive", 1, 1000)
    assert [(each.name, each.allocatable) for each in read.nodes] == [("n1", {"cpu": "8"})]
    (listed,) = client.executors(health="alive")
    assert (listed.node_count, listed.nodes) == (1, [])
    (lease,) = client.executor_leases("rack-1")
    assert (lease.session_id, lease.session_name, lease.accepted) == (
        str(session.pk), "train", True,
    )  # fmt: skip
    waiting = factories.submit(at, name="large")
    Reservation.objects.create(executor=played.executor, session=waiting, nodes=["n1"])
    (kept,) = client.reservations(executor="rack-1")
    assert (kept.session_id, kept.project, kept.nodes) == (str(waiting.pk), "acme/work", ["n1"])
    assert client.executor("rack-1").reservations == [kept]
    with pytest.raises(ApiError, match="1 lease") as caught:
        client.executor_delete("rack-1")
    assert caught.value.status == 409
