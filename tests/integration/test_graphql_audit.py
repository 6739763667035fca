"""The audit log over GraphQL: what REST tells of it, filtered and paged as there."""

from typing import Any

import pytest

from sessions_app.audit.context import GRAPHQL
from sessions_app.models import Project
from sessions_app.models.tenants import Role
from tests import factories
from tests.graphs import Graph, nodes
from tests.mutations import done

ENTRY = """{ id time actor automatic door via action objectType objectId project domain
    rootSessionId before after data }"""
BELOW = f"{{ edges {{ cursor node {ENTRY} }} pageInfo {{ hasNextPage endCursor }} }}"


def audit(graph: Graph, **asked: Any) -> Any:
    kinds = {"first": "Int", "after": "String", "session": "ID", "chain": "ID"}
    kinds |= {"automatic": "Boolean", "createdAfter": "DateTime"}
    variables = ", ".join(f"${name}: {kinds.get(name, 'String')}" for name in asked)
    arguments = ", ".join(f"{name}: ${name}" for name in asked)
    text = (
        f"query({variables}) {{ audit({arguments}) {BELOW} }}" if asked else f"{{ audit {BELOW} }}"
    )
    return graph.ask(text, **asked)["audit"]


def changed(graph: Graph, *factors: int) -> None:
    for factor in factors:
        of = {"project": "acme/work", "name": "default"}
        done(graph, "updateQueue", "", **of, priorityFactor=factor)


def test_an_entry_is_what_rest_tells(graph: Graph) -> None:
    changed(graph, 2)
    (newest, *_) = nodes(audit(graph, action="queue.change"))
    assert (newest["actor"], newest["door"]) == ("root", GRAPHQL)
    assert (newest["before"], newest["after"]) == ({"priority_factor": 1}, {"priority_factor": 2})
    (same, *_) = graph.read("audit/?action=queue.change")["results"]
    names = (name.title().replace("_", "") for name in same)
    assert newest == dict(zip((n[0].lower() + n[1:] for n in names), same.values(), strict=True))


def test_pages_go_on_where_they_ended(graph: Graph) -> None:
    changed(graph, 2, 3, 4)
    asked: dict[str, Any] = {"objectType": "queue", "objectId": "acme/work/default", "first": 2}
    first = audit(graph, **asked)
    changed(graph, 5)
    second = audit(graph, **asked, after=first["pageInfo"]["endCursor"])
    found = [each["after"].get("priority_factor") for each in nodes(first) + nodes(second)]
    assert found[:3] == [4, 3, 2]
    assert first["pageInfo"]["hasNextPage"]
    # A cursor is the one of REST.
    after = graph.read(f"audit/?object_type=queue&cursor={first['edges'][0]['cursor']}")
    assert after["results"][0]["after"] == {"priority_factor": 3}


@pytest.mark.parametrize("cursor", ["", "x", "a1-1", "b1", "b" + "9" * 5_000])
def test_a_cursor_that_leads_nowhere_is_told(graph: Graph, cursor: str) -> None:
    error = graph.refused(f'{{ audit(after: "{cursor}") {BELOW} }}')
    assert error["extensions"]["code"] == "NOT_FOUND"


def test_a_bad_filter_is_named_as_here(graph: Graph) -> None:
    error = graph.refused(f'{{ audit(objectId: "x") {BELOW} }}')
    assert error["extensions"]["errors"] == {"objectId": ["requires object_type"]}


def test_sessions_are_named_by_either_id(graph: Graph, at: Project) -> None:
    session = factories.submit(at)
    done(graph, "cancelSession", "", id=str(session.pk))
    gid = graph.ask(f'{{ session(id: "{session.pk}") {{ id }} }}')["session"]["id"]
    for name in ("session", "chain"):
        assert audit(graph, **{name: gid}) == audit(graph, **{name: str(session.pk)})


def test_maintainers_see_their_project(graph: Graph, at: Project) -> None:
    changed(graph, 2)
    factories.domain("elsewhere")
    own = Graph(factories.token(factories.user("mia", project=at, role=Role.MAINTAINER)))
    assert {each["project"] for each in nodes(audit(own))} == {"acme/work"}
