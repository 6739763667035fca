"""Dependencies by the SDK and by the command, as in the docs, against the server itself."""

import re
from pathlib import Path

import pytest
from reprise_client import Client

from retry.evidence.termination import Termination
from sessions_app.models import Project, Session
from sessions_app.services.chains.dependants import dependants_follow
from sessions_app.services.chains.settle import End, sessions_settle
from tests import factories
from tests.integration.test_sdk_tenants import Command, client, reprise

__all__ = ["client", "reprise"]
pytestmark = pytest.mark.django_db(transaction=True)
DOCS = (Path(__file__).parents[2] / "docs" / "dependencies.md").read_text()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("REPRISE_PROJECT", "acme/work")
    return factories.project("work")


def lines(part: str) -> list[str]:
    """The commands of the first shell example of a part of the docs, without comments."""
    found = re.search(r"```sh\n(.*?)```", DOCS.split(part, 1)[1], re.DOTALL)
    assert found
    return [each.partition("#")[0].strip() for each in found[1].splitlines()]


def test_the_commands_of_the_docs(reprise: Command, work: Project) -> None:
    made: dict[str, str] = {}

    def run(line: str) -> str:
        name, _, inner = line.partition("=$(")
        line = inner.removesuffix(")") if inner else line
        for variable, key in made.items():
            line = line.replace(f"${variable}", key)
        said = reprise(line.removeprefix("reprise "))
        if inner:
            made[name] = said.stdout.strip().removeprefix("session/")
        return str(said.output)

    *creates, graph, info = lines("One by one")
    for line in creates:
        run(line)
    assert Session.objects.filter(phase="blocked").count() == 2
    shown = run(graph)
    assert "not yet succeeded" in shown
    assert "not yet ended" in shown
    assert f"waits for 1 of 1: prepare {made['A']} (PENDING)" in " ".join(run(info).split())
    first = Session.objects.get(pk=made["A"])
    sessions_settle({first.pk: End(Termination(exit_code=1))})
    assert dependants_follow([first.pk]) == 2
    dry, again, _ = lines("## Again")
    assert f"1 downstream would be retried: {made['B']}" in run(dry)
    assert Session.objects.count() == 3
    assert "1 downstream retried" in run(again)
    assert factories.tip(Session.objects.get(pk=made["B"])).phase == "blocked"


def test_the_graph_of_the_sdk(client: Client) -> None:
    work = factories.project("work")
    client.project = work.address
    first = client.session_create(command=["true"], creation_id="first")
    later = client.session_create(
        command=["true"], depends_on=[{"session": "first", "when": "ended"}]
    )
    graph = client.graph(later.id)
    assert {node.session_id for node in graph.nodes} == {first.id, later.id}
    (edge,) = graph.edges
    assert (edge.session_id, edge.depends_on, edge.when, edge.outcome) == (
        later.id,
        first.id,
        "ended",
        None,
    )
