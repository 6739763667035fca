"""Webhooks and the audit log are told when nodes become suspect, and when they are no longer."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Executor, Node
from scheduler.services.nodes.acts import node_release
from scheduler.services.nodes.sweep import Swept, nodes_sweep
from sessions_app.locks import database_now
from sessions_app.models import Project, WebhookDelivery
from sessions_app.tasks import deliver_webhooks, sweep_webhooks
from sessions_app.webhooks import endpoints
from sessions_app.webhooks.cluster_events import ClusterEvent, cluster_events_tell
from tests import factories
from tests.agent import Agent, admin
from tests.audit import audited_acts
from tests.integration.test_suspect_nodes import fleet, half_an_hour_later, one_bad
from tests.integration.test_webhooks import (  # noqa: F401  # a fixture
    _receivers_of_this_machine,
    due_now,
    states,
    webhook,
)
from tests.receiver import Receiver, Says

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENT = Path(__file__).parents[2] / "docs" / "webhooks.md"


def suspected(at: Project, **fields: Any) -> Agent:
    """An agent whose node n0 has just become suspect."""
    played = fleet(**fields)
    one_bad(at, played)
    assert nodes_sweep().suspected == 1
    return played


def bodies(receiver: Receiver) -> list[Any]:
    return [got.event for got in receiver.got]


def test_a_webhook_that_names_them_gets_both(at: Project, receiver: Receiver) -> None:
    hook = webhook(at, receiver, "node.*")
    suspected(at)
    assert deliver_webhooks() == 1
    half_an_hour_later()
    assert nodes_sweep() == Swept(0, 0, 1)
    assert deliver_webhooks() == 1
    began, ended = (got.verified(hook.new_secret) for got in receiver.got)
    node = Node.objects.get(name="n0")
    assert (began["type"], ended["type"]) == ("node.suspect", "node.cleared")
    assert began["project"] == at.address
    assert began["data"]["state"] == "suspect"
    assert began["data"]["cleared_at"] is None
    assert (ended["data"]["state"], ended["data"]["suspected_until"]) == ("open", None)
    assert node.cleared_at is not None
    assert ended["data"]["cleared_at"][:19] == node.cleared_at.isoformat()[:19]
    assert "reason" not in began["data"]
    first, second = WebhookDelivery.objects.order_by("id")
    assert [got.id for got in receiver.got] == [first.message_id, second.message_id]
    assert first.message_id == f"cluster_{first.pk}"


def test_the_docs_show_the_body(at: Project, receiver: Receiver) -> None:
    webhook(at, receiver, "node.suspect")
    suspected(at)
    deliver_webhooks()
    (shown,) = re.findall(r'```json\n(\{"id": null.*?)\n```', DOCUMENT.read_text(), re.DOTALL)
    (body,), example = bodies(receiver), json.loads(shown)
    assert body.keys() == example.keys()
    assert body["data"].keys() == example["data"].keys()
    assert body["type"] == example["type"]


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ((), 0),
        (("*",), 0),
        (("session.*", "node.cleared"), 0),
        (("node.suspect",), 1),
        (("n*",), 1),
        (("node.suspect", "node.*"), 1),
    ],
)
def test_only_webhooks_that_name_the_type_get_it(
    at: Project, receiver: Receiver, types: tuple[str, ...], told: int
) -> None:
    webhook(at, receiver, *types)
    suspected(at)
    assert WebhookDelivery.objects.filter(type="node.suspect").count() == told


def test_only_projects_that_the_executor_serves_are_told(at: Project, receiver: Receiver) -> None:
    webhook(at, receiver, "node.*")
    webhook(factories.project(), receiver, "node.*")
    played = fleet(auto_quarantine=True)
    played.executor.projects.add(at)
    one_bad(at, played)
    nodes_sweep()
    deliver_webhooks()
    (body,) = bodies(receiver)
    assert body["project"] == at.address
    assert body["data"]["state"] == "quarantined"


def test_a_release_clears_and_a_paused_webhook_misses_it(at: Project, receiver: Receiver) -> None:
    hook = webhook(at, receiver, "node.*")
    paused = webhook(at, receiver, "node.*")
    endpoints.webhook_pause(paused, reason="because", by="root")
    played = suspected(at)
    deliver_webhooks()
    node_release(Executor.objects.get(pk=played.executor.pk), "n0", by="root")
    node_release(Executor.objects.get(pk=played.executor.pk), "n0", by="root")  # nothing to clear
    deliver_webhooks()
    assert [body["type"] for body in bodies(receiver)] == ["node.suspect", "node.cleared"]
    assert {body["webhook_id"] for body in bodies(receiver)} == {str(hook.pk)}


def test_a_failed_attempt_is_repeated_and_waits_while_paused(
    at: Project, receiver: Receiver
) -> None:
    hook = webhook(at, receiver, "node.*")
    receiver.answer = lambda _: Says(500)
    suspected(at)
    deliver_webhooks()
    hook.refresh_from_db()
    assert (states(), hook.failures) == ([("waiting", 1, 500)], 1)
    endpoints.webhook_pause(hook, reason="because", by="root")
    due_now()
    sweep_webhooks()
    assert states() == [("waiting", 1, 500)]
    receiver.answer = lambda _: Says(204)
    endpoints.webhook_resume(hook, by="root")
    sweep_webhooks()
    assert states() == [("delivered", 2, 204)]
    assert receiver.got[0].id == receiver.got[1].id


def test_the_list_of_deliveries_has_it_and_it_is_not_redelivered(
    at: Project, receiver: Receiver
) -> None:
    hook = webhook(at, receiver, "node.*")
    suspected(at)
    deliver_webhooks()
    api = admin()
    (shown,) = api.read(f"webhooks/{hook.pk}/deliveries/")["results"]
    assert (shown["type"], shown["state"]) == ("node.suspect", "delivered")
    assert (shown["event_id"], shown["session_id"]) == (None, None)
    refused = api.post(f"webhooks/{hook.pk}/redeliver/", {"delivery": shown["id"]})
    assert refused.status_code == 409
    assert "only events of sessions" in refused.json()["detail"]


def test_the_audit_log_has_the_reason(at: Project) -> None:
    suspected(at)
    half_an_hour_later()
    nodes_sweep()
    began, ended = audited_acts().filter(object_type="node").order_by("id")
    assert (began.action, began.actor, began.object_id) == ("node.suspect", "reprise", "one/n0")
    assert began.data["reason"].startswith("6 of 6 attempts failed")
    assert (ended.action, ended.data) == ("node.cleared", {})


def test_any_number_of_events_and_webhooks_is_one_statement(
    at: Project, receiver: Receiver
) -> None:
    for _ in range(3):
        webhook(at, receiver, "node.*")
    now = database_now()
    events = [ClusterEvent("node.suspect", {"node": f"n{n}"}, None) for n in range(5)]
    with CaptureQueriesContext(connection) as asked:
        assert cluster_events_tell(events, now=now) == 15
    assert len(asked) == 1
