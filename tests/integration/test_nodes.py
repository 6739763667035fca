"""Nodes over REST and through the command: who sees what, quarantine and release."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from reprise_client import Client
from reprise_client.cli.main import app
from typer.testing import CliRunner

from scheduler.models import Executor, Node, NodeAttempt
from scheduler.services.nodes.sweep import nodes_sweep
from sessions_app.models import Project
from tests import factories
from tests.agent import Agent, Api, admin, agent
from tests.audit import audited_acts
from tests.graphs import Graph
from tests.invariants import check_all

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENT = Path(__file__).parents[2] / "docs" / "scheduling.md"


@pytest.fixture
def rack() -> Agent:
    """An executor with the nodes n6 and n7, of which n7 is suspect, and failed twice."""
    nodes = [{"name": name, "allocatable": {"cpu": "4"}} for name in ("n6", "n7")]
    played = agent("rack-1", nodes=nodes)
    played.lease()
    Executor.objects.update(avoid_suspects="retries")
    nodes_sweep()
    until = timezone.now() + timedelta(minutes=30)
    Node.objects.filter(name="n7").update(
        suspected_at=timezone.now(), suspected_until=until, reason="it fails", ratio=9.0
    )
    ended("n7", "oom_killed", "0123456789ab", "oom_killed", "")
    return played


def ended(name: str, *facts: str) -> None:
    """Two failures and a success on a node; facts are causes and signatures."""
    node, chain = Node.objects.get(name=name), uuid4()
    for cause, signature in (*zip(facts[::2], facts[1::2], strict=True), ("", "")):
        NodeAttempt.objects.create(
            node=node,
            ended_at=timezone.now(),
            work=1,
            chain=chain,
            cause=cause,
            signature=signature,
        )


def test_a_cluster_admin_sees_how_attempts_ended(rack: Agent) -> None:
    bad, good = admin().read("nodes/")["results"]
    assert (good["name"], good["state"], good["present"], good["reason"]) == (
        "n6",
        "open",
        True,
        "",
    )
    assert good["figures"]["attempts"] == 0
    assert (bad["executor"], bad["state"], bad["reason"]) == ("rack-1", "suspect", "it fails")
    assert bad["figures"] == {
        "attempts": 3,
        "failures": 2,
        "chains": 1,
        "causes": [{"value": "oom_killed", "failures": 2}],
        "signatures": [{"value": "0123456789ab", "failures": 1}],
    }
    assert admin().read("nodes/rack-1/n7/") == bad
    for query, names in (("state=suspect", ["n7"]), ("state=OPEN", ["n6"]), ("executor=no", [])):
        found = admin().read(f"nodes/?{query}")["results"]
        assert [each["name"] for each in found] == names, query


def test_those_that_fail_most_come_first(rack: Agent, at: Project, graph: Graph) -> None:
    others = [f"a{number}" for number in range(4)]
    Node.objects.bulk_create(
        Node(executor=rack.executor, name=name, address=f"rack-1/{name}") for name in others
    )
    for name, *facts in (("a2", "oom_killed", "", "user_code", ""), ("n6", "user_code", "")):
        ended(name, *facts)
    Node.objects.filter(name="a3").update(counted_from=timezone.now() + timedelta(hours=1))
    ended("a3", "oom_killed", "")
    wanted = ["a2", "n7", "n6", "a0", "a1", "a3"]
    pages = admin().pages("nodes/?page_size=2")
    assert [[each["name"] for each in page] for page in pages] == [
        ["a2", "n7"],
        ["n6", "a0"],
        ["a1", "a3"],
    ]
    query = "{ clusterNodes(first: 9) { edges { node { name } } } }"
    edges = graph.ask(query)["clusterNodes"]["edges"]
    assert [each["node"]["name"] for each in edges] == wanted
    member = Api(factories.token(factories.user("mia", project=at)))
    found = member.read("nodes/")["results"]
    assert [each["name"] for each in found] == sorted(wanted), "who sees no figures, sees no order"


@pytest.mark.parametrize(
    ("avoid", "auto", "states"),
    [
        ("off", False, ["open", "open"]),
        ("off", True, ["open", "open"]),
        ("all", False, ["open", "suspect"]),
        ("retries", True, ["open", "quarantined"]),
    ],
)
def test_the_state_is_what_the_executor_makes_of_it(
    rack: Agent, avoid: str, auto: bool, states: list[str]
) -> None:
    Executor.objects.update(avoid_suspects=avoid, auto_quarantine=auto)
    found = admin().read("nodes/")["results"]
    assert [each["state"] for each in reversed(found)] == states
    for state in set(states):
        listed = admin().read(f"nodes/?state={state}")["results"]
        assert [each["state"] for each in listed] == [each for each in states if each == state]


def test_others_see_names_and_states_of_what_serves_them(rack: Agent, at: Project) -> None:
    member = Api(factories.token(factories.user("mia", project=at)))
    found = member.read("nodes/")["results"]
    assert [(each["name"], each["state"]) for each in found] == [("n6", "open"), ("n7", "suspect")]
    assert [(each["reason"], each["figures"]) for each in found] == [("", None), ("", None)]
    rack.executor.projects.add(factories.project("far", domain="globex"))
    assert member.read("nodes/")["results"] == []
    assert member.get("nodes/rack-1/n7/").status_code == 404


def test_a_node_is_put_into_quarantine_and_released(rack: Agent, at: Project) -> None:
    api = admin()
    closed = api.post("nodes/rack-1/n6/quarantine/", {"reason": "disk"}).json()
    assert (closed["state"], closed["quarantine_reason"]) == ("quarantined", "disk")
    assert closed["quarantined_by"]
    session = factories.submit(at, resources={"cpu": "4"})
    assert rack.lease() == [session.pk]
    assert rack.answer["leases"][0]["nodes"] == ["n7"]
    again = api.post("nodes/rack-1/n6/quarantine/", {"reason": "disk"}).json()
    assert again == closed
    for name in ("n6", "n7"):
        released = api.post(f"nodes/rack-1/{name}/release/").json()
        assert (released["state"], released["suspected_until"]) == ("open", None)
    assert api.read("nodes/rack-1/n7/")["figures"]["attempts"] == 0
    acts = audited_acts().filter(object_type="node").order_by("pk")
    assert list(acts.values_list("action", "object_id")) == [
        ("node.quarantine", "rack-1/n6"),
        ("node.release", "rack-1/n6"),
        ("node.release", "rack-1/n7"),
    ]
    assert check_all() == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "reason"),
        ({"reason": ""}, "reason"),
        ({"reason": " "}, "reason"),
        ({"why": "x"}, "why"),
    ],
)
def test_a_quarantine_needs_a_reason(rack: Agent, body: dict[str, Any], field: str) -> None:
    refused = admin().post("nodes/rack-1/n6/quarantine/", body)
    assert refused.status_code == 400
    assert field in refused.json()["errors"]
    assert not Node.objects.exclude(quarantined_at=None).exists()


def test_what_is_not_there_is_not_found(rack: Agent) -> None:
    api = admin()
    for path in ("nodes/rack-1/n9/", "nodes/no/n7/"):
        assert api.get(path).status_code == 404
        assert api.post(f"{path}quarantine/", {"reason": "disk"}).status_code == 404
        assert api.post(f"{path}release/").status_code == 404
    assert api.get("nodes/?state=bad").status_code == 400


def test_a_node_that_no_sweep_has_listed_yet_can_be_closed(at: Project) -> None:
    played = agent("rack-1", nodes=[{"name": "new", "allocatable": {"cpu": "4"}}])
    played.lease()
    assert admin().post("nodes/rack-1/new/quarantine/", {"reason": "disk"}).status_code == 200
    factories.submit(at, resources={"cpu": "4"})
    assert played.lease() == []


def test_nodes_come_and_go_with_what_the_executor_reports(rack: Agent) -> None:
    rack.nodes = [{"name": name, "allocatable": {"cpu": "4"}} for name in ("n7", "n8")]
    rack.lease()
    nodes_sweep()
    found = {each["name"]: each["present"] for each in admin().read("nodes/")["results"]}
    assert found == {"n7": True, "n8": True}
    rack.nodes = rack.nodes[1:]
    rack.lease()
    nodes_sweep()
    found = {each["name"]: each["present"] for each in admin().read("nodes/")["results"]}
    assert found == {"n7": False, "n8": True}  # it is suspect


def test_a_list_costs_the_same_statements_for_any_number_of_nodes(rack: Agent) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as seen:
            admin().read("nodes/?page_size=100")
        return len(seen)

    few = statements()
    for number in range(30):
        name = f"m{number}"
        Node.objects.create(executor=rack.executor, name=name, address=f"rack-1/{name}")
        ended(name, "oom_killed", "0123456789ab")
    assert statements() == few


def test_the_commands_of_the_documentation_work(
    rack: Agent, live_server: Any, monkeypatch: Any
) -> None:
    token = factories.token(factories.user("root", superuser=True))
    monkeypatch.setenv("REPRISE_URL", live_server.url)
    monkeypatch.setenv("REPRISE_TOKEN", token)
    text = DOCUMENT.read_text().partition("## Suspect nodes")[2]
    lines = re.findall(r"^reprise (node .*?)(?:  +#.*)?$", text, re.MULTILINE)
    assert len(lines) == 4
    shown = []
    for line in lines:
        words = [word.strip(chr(34)) for word in re.findall(r'"[^"]*"|\S+', line)]
        result = CliRunner().invoke(app, words, prog_name="reprise")
        assert result.exit_code == 0, result.output
        shown.append(result.stdout)
        if "quarantine" in words:
            with Client(live_server.url, token) as client:
                assert client.node("rack-1", "n7").state == "quarantined"
                assert [each.name for each in client.nodes(state="quarantined")] == ["n7"]
    assert "rack-1/n7" in shown[0]
    assert "rack-1/n6" not in shown[0]
    assert "oom_killed (2)" in shown[1]
    assert Node.objects.get(name="n7").suspected_until is None
    wrong = CliRunner().invoke(app, ["node", "info", "n7"], prog_name="reprise")
    assert wrong.exit_code != 0
