"""Nodes in the admin: how attempts ended there, quarantine and release."""

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from interfaces.admin import nodes
from scheduler.models import Executor, Node, NodeAttempt
from tests import factories
from tests.audit import audited_acts
from tests.integration.admin import messages_of, operator, queries, text_of, url

NODES = "scheduler_node"


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.fixture
def executor() -> Executor:
    made = factories.executor("rack-1")
    made.avoid_suspects = "retries"
    made.save()
    return made


def a_node(executor: Executor, name: str, **fields: Any) -> Node:
    address = f"{executor.name}/{name}"
    return Node.objects.create(
        executor=executor, name=name, address=address, present=True, **fields
    )


def a_suspect(executor: Executor, name: str) -> Node:
    now = timezone.now()
    until = now + timedelta(minutes=30)
    return a_node(
        executor, name, suspected_at=now, suspected_until=until, reason="it fails <b>", ratio=9.0
    )


def ended(node: Node, cause: str = "", signature: str = "") -> None:
    NodeAttempt.objects.create(
        node=node,
        ended_at=timezone.now(),
        work=1,
        chain=uuid4(),
        cause=cause,
        signature=signature,
    )


def acts() -> list[tuple[str, str, str]]:
    found = audited_acts().filter(object_type="node").order_by("pk")
    return [(each.action, each.object_id, each.data.get("reason", "")) for each in found]


def act(client: Client, node: Node | int, **sent: str) -> Any:
    key = node if isinstance(node, int) else node.pk
    return client.post(f"/admin/scheduler/node/{key}/act/", sent, follow=True)


def choose(client: Client, action: str, *chosen: Node, **more: str) -> Any:
    keys = [node.pk for node in chosen]
    sent = {"action": action, "_selected_action": keys, **more}
    return client.post(url(NODES), sent, follow=True)


def test_a_page_shows_how_attempts_ended_and_why_a_node_is_suspect(
    client: Client, executor: Executor
) -> None:
    node = a_suspect(executor, "n7")
    ended(node)
    for _ in range(2):
        ended(node, "oom_killed", "0123456789ab")
    page = client.get(url(NODES, "change", node.pk))
    text = text_of(page)
    assert "attempts 3 failures 2 chains that failed 2" in text
    assert "oom killed 2" in text
    assert "it fails &lt;b&gt;" in text
    sessions = url("sessions_app_session")
    assert f'href="{sessions}?signature=0123456789ab"' in page.content.decode()
    (row,) = client.get(url(NODES)).context["cl"].result_list
    assert (row.figures.failures, row.figures.attempts) == (2, 3)
    assert "2 of 3 (67%)" in text_of(client.get(url(NODES)))


def test_the_list_shows_those_first_that_fail_most(client: Client, executor: Executor) -> None:
    for name, causes in (
        ("n1", ("", "", "", "", "user_code")),
        ("n2", ()),
        ("n3", ("", "oom_killed")),
        ("n4", ("",) * 8 + ("oom_killed",)),
    ):
        node = a_node(executor, name)
        for cause in causes:
            ended(node, cause)
    page = client.get(url(NODES))
    assert [node.name for node in page.context["cl"].result_list] == ["n3", "n1", "n4", "n2"]
    labels = re.findall(r'class="badge (\w+)">(\d+ of \d+)', page.content.decode())
    assert labels == [("bad", "1 of 2"), ("waiting", "1 of 5"), ("good", "1 of 9")]
    by_name = client.get(url(NODES), {"o": "1"}).context["cl"].result_list
    assert [node.name for node in by_name] == ["n1", "n2", "n3", "n4"]


def test_a_node_is_put_into_quarantine_and_released_on_its_page(
    client: Client, executor: Executor
) -> None:
    node = a_suspect(executor, "n7")
    page = act(client, node, do="quarantine", reason=" ")
    assert "Say why it is in quarantine." in text_of(page)
    assert "Null characters" in text_of(act(client, node, do="quarantine", reason="a\x00b"))
    assert acts() == []
    page = act(client, node, do="quarantine", reason="disk <i>")
    assert messages_of(page) == ["1 node put into quarantine. What runs there goes on."]
    assert "In quarantine by root" in text_of(page)
    assert "disk &lt;i&gt;" in text_of(page)
    page = act(client, node, do="release")
    assert messages_of(page) == ["1 node released. Counts begin anew."]
    node.refresh_from_db()
    assert (node.quarantined_at, node.quarantine_reason, node.suspected_until) == (None, "", None)
    assert node.counted_from is not None
    assert acts() == [
        ("node.quarantine", "rack-1/n7", "disk <i>"),
        ("node.release", "rack-1/n7", ""),
    ]
    assert 'value="release"' not in client.get(url(NODES, "change", node.pk)).content.decode()
    page = act(client, node, do="release")
    assert messages_of(page) == ["0 nodes released. Counts begin anew."]
    assert messages_of(act(client, node, do="explode")) == [
        "A node can be quarantined or released."
    ]
    assert len(acts()) == 2
    assert "Perhaps it was deleted?" in messages_of(act(client, 999, do="release"))[0]


def test_many_are_put_into_quarantine_with_one_reason(client: Client, executor: Executor) -> None:
    first, second, other = (a_node(executor, name) for name in ("n1", "n2", "n3"))
    question = text_of(choose(client, "quarantine", first, second))
    assert "rack-1/n1 rack-1/n2" in question
    assert "rack-1/n3" not in question
    refused = choose(client, "quarantine", first, second, confirmed="yes", reason="")
    assert "Say why it is in quarantine." in text_of(refused)
    assert acts() == []
    page = choose(client, "quarantine", first, second, confirmed="yes", reason="new racks")
    assert messages_of(page) == ["2 nodes put into quarantine. What runs there goes on."]
    for node in (first, second, other):
        node.refresh_from_db()
    assert [node.quarantine_reason for node in (first, second, other)] == [
        "new racks",
        "new racks",
        "",
    ]
    assert messages_of(choose(client, "release", first, second, other)) == [
        "2 nodes released. Counts begin anew."
    ]
    assert [verb for verb, *_ in acts()] == ["node.quarantine"] * 2 + ["node.release"] * 2


def test_acts_on_many_take_a_fixed_number_of_statements(client: Client, executor: Executor) -> None:
    def cost(action: str, chosen: list[Node], **more: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            choose(client, action, *chosen, **more)
        return len(captured)

    few, many = (
        [a_suspect(executor, f"{kind}-{number}") for number in range(count)]
        for kind, count in (("few", 2), ("many", 20))
    )
    queries(client, url(NODES))
    sent = {"confirmed": "yes", "reason": "disk"}
    assert cost("quarantine", many, **sent) == cost("quarantine", few, **sent)
    assert cost("release", many) == cost("release", few)


def test_pages_take_as_many_statements_for_many_attempts(
    client: Client, executor: Executor
) -> None:
    node = a_suspect(executor, "n7")
    pages = [url(NODES), url(NODES, "change", node.pk)]
    few = [queries(client, page) for page in pages]
    for number in range(20):
        a_node(executor, f"n{number + 10}")
        ended(node, "oom_killed", f"{number:012x}")
    assert [queries(client, page) for page in pages] == few


def test_too_many_are_refused_as_a_whole(
    client: Client, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [a_node(executor, f"n{number}") for number in range(3)]
    monkeypatch.setattr(nodes, "MOST", 2)
    page = choose(client, "quarantine", *chosen, confirmed="yes", reason="disk")
    assert messages_of(page) == ["More than 2 nodes were chosen. Nothing was done: choose fewer."]
    assert acts() == []


def test_the_list_is_filtered_by_state(client: Client, executor: Executor) -> None:
    fine, suspect = a_node(executor, "n1"), a_suspect(executor, "n2")
    out = a_node(executor, "n3", quarantined_at=timezone.now(), quarantine_reason="disk")
    found = {
        word: {row.pk for row in client.get(f"{url(NODES)}?state={word}").context["cl"].result_list}
        for word in ("open", "suspect", "quarantined", "nonsense")
    }
    assert found == {
        "open": {fine.pk},
        "suspect": {suspect.pk},
        "quarantined": {out.pk},
        "nonsense": {fine.pk, suspect.pk, out.pk},
    }
