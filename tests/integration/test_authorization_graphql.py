"""Tests of permissions over GraphQL: as over REST, field by field and mutation by mutation.

`graphql_table` has a row for each; one that it does not know fails.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from graphql import GraphQLObjectType, GraphQLSchema, build_schema, get_named_type
from graphql_relay import to_global_id

from tests.graphs import ADDRESS, Graph
from tests.integration.authorization_table import EXPECTED, SCOPED
from tests.integration.graphql_table import MUTATIONS, NESTED, QUERIES, Row
from tests.people import (
    EXECUTORS,
    PEOPLE,
    REJECTED,
    SECRET,
    UNSEEN,
    World,
    database_digest,
    undone,
)

SHOWN_NOTHING = {*UNSEEN, *REJECTED, *EXECUTORS}
_STATUS = {"INVALID": 400, "NOT_PERMITTED": 403, "NOT_FOUND": 404, "CONFLICT": 409}
_TURNED_AWAY = {**REJECTED, **dict.fromkeys(EXECUTORS, 403)}
"""At the door, before anything is read."""


@cache
def schema() -> GraphQLSchema:
    """The committed one, which `make lint` compares with the code."""
    return build_schema((Path(__file__).parents[2] / "docs" / "schema.graphql").read_text())


def expected_of(row: Row) -> dict[str, int]:
    """Return the status that REST gives, where every success is 200 and people without access are
    out."""
    method, route = row
    if route.endswith(" in project"):
        statuses = SCOPED[method, route.removesuffix(" in project"), "project=acme/work"]
    else:
        statuses = EXPECTED[row]
    return {who: 200 if status < 300 else status for who, status in statuses.items()} | _TURNED_AWAY


def names_of(world: World) -> dict[str, str]:
    """Return by placeholder of the rows what it stands for in the world."""
    return {
        "{session}": str(world.session.pk),
        "{session_gid}": to_global_id("Session", str(world.session.pk)),
        "{webhook}": str(world.webhook.pk),
        "{breaker}": str(world.breaker.pk),
        "{schedule}": str(world.schedule.pk),
        "{membership}": str(world.membership),
        "{prefix}": world.prefix("owner"),
    }


GHOSTS = {
    "{session}": str(UUID(int=7)),
    "{session_gid}": to_global_id("Session", str(UUID(int=7))),
    "{webhook}": str(UUID(int=8)),
    "{breaker}": str(UUID(int=10)),
    "{schedule}": str(UUID(int=9)),
    "{membership}": str(10**15),
    "{prefix}": "rpr_........",
}
"""What is not there at all; likewise `void/ghost`."""


def filled(text: str, names: dict[str, str]) -> str:
    for placeholder, value in names.items():
        text = text.replace(placeholder, value)
    return text


def query_of(field: str, names: dict[str, str]) -> tuple[str, dict[str, Any]]:
    return filled(f"{{ {QUERIES[field][0]} }}", names), {}


def mutation_of(field: str, names: dict[str, str]) -> tuple[str, dict[str, Any]]:
    kind = field[0].upper() + field[1:]
    text = f"mutation($input: {kind}Input!) {{ {field}(input: $input) {{ errors "
    given = json.loads(filled(json.dumps(MUTATIONS[field][0]), names))
    return text + "{ field message code details } } }", {"input": given}


def ask(world: World, who: str, call: tuple[str, dict[str, Any]]) -> tuple[int, str]:
    """The status that REST would have given, and all of the answer."""
    response = Graph(world.tokens[who]).send(call[0], **call[1])
    own = {"Content-Length", "X-Request-ID"}
    headers = {name: body for name, body in response.items() if name not in own}
    text = f"{headers} {response.content.decode()}"
    if response.status_code != 200:
        return response.status_code, text
    body = response.json()
    errors = body.get("errors") or [
        {"extensions": {"status": _STATUS[error["code"]]}}
        for payload in (body["data"] or {}).values()
        if isinstance(payload, dict)
        for error in payload.get("errors", ())
    ]
    return (errors[0]["extensions"]["status"] if errors else 200), text


def check(
    world: World, call: tuple[str, dict[str, Any]], expected: dict[str, int], *, reads: bool
) -> None:
    """Everybody gets what REST would give; refusals and reading change and tell nothing."""
    statuses: dict[str, int] = {}
    for who in PEOPLE:
        if reads or expected[who] >= 400:
            status, text = ask(world, who, call)
        else:
            with undone():
                status, text = ask(world, who, call)
        statuses[who] = status
        if who in SHOWN_NOTHING:
            assert SECRET not in text, who
    assert statuses == expected
    assert database_digest() == world.digest


def test_every_query_and_mutation_is_in_the_table() -> None:
    roots = schema().query_type, schema().mutation_type
    for root, table in zip(roots, (QUERIES, MUTATIONS), strict=True):
        assert root is not None
        assert set(root.fields) == set(table)  # type: ignore[call-overload]  # one of two kinds of table


_OWN = ("Connection", "Edge", "Payload")


def test_every_field_that_leads_to_another_record_is_in_the_table() -> None:
    """Another record is what has a root field, or a page, of its own."""
    query = schema().query_type
    assert query is not None
    paged = {name for name in schema().type_map if name.endswith("Connection")}
    records = {get_named_type(field.type).name for field in query.fields.values()} | paged
    found = {
        f"{name}.{field_name}"
        for name, kind in schema().type_map.items()
        if isinstance(kind, GraphQLObjectType) and not name.endswith(_OWN)
        for field_name, field in kind.fields.items()
        if get_named_type(field.type).name in records
    }
    roots = {f"Query.{name}" for name in QUERIES} | {f"Mutation.{name}" for name in MUTATIONS}
    assert found - roots == set(NESTED)


@pytest.mark.parametrize("field", QUERIES)
def test_queries_are_permitted_as_in_the_table(world: World, field: str) -> None:
    expected = expected_of(QUERIES[field][1])
    check(world, query_of(field, names_of(world)), expected, reads=True)


@pytest.mark.parametrize("field", MUTATIONS)
def test_mutations_are_permitted_as_in_the_table(world: World, field: str) -> None:
    expected = expected_of(MUTATIONS[field][1])
    check(world, mutation_of(field, names_of(world)), expected, reads=False)


@pytest.mark.parametrize("field", [*QUERIES, *MUTATIONS])
def test_hidden_records_look_as_if_they_did_not_exist(world: World, field: str) -> None:
    row = (QUERIES | MUTATIONS)[field][1]
    expected = expected_of(row)
    make = query_of if field in QUERIES else mutation_of
    document = make(field, names_of(world))
    query, variables = make(field, GHOSTS)
    text = json.dumps(variables).replace("acme", "void").replace("work", "ghost")
    ghost = (query.replace("acme", "void").replace("work", "ghost"), json.loads(text))
    for who in UNSEEN:
        if expected[who] in {400, 404}:
            hidden, missing = ask(world, who, document), ask(world, who, ghost)
            assert neutral(hidden, names_of(world)) == neutral(missing, GHOSTS), who


def neutral(answer: tuple[int, str], names: dict[str, str]) -> tuple[int, str]:
    """An answer without the names that were sent, and the length that they have."""
    status, text = answer
    for name, value in names.items():
        text = text.replace(value, name)
    for name, value in (("acme", "D"), ("void", "D"), ("work", "P"), ("ghost", "P")):
        text = text.replace(name, value)
    return status, text


_RECORDS = {
    "domain": "domain(name: %s) { name }",
    "project": "project(address: %s) { name }",
}


@pytest.mark.parametrize("edge", [edge for edge, query in NESTED.items() if query])
def test_no_way_through_another_record_shows_what_the_root_refuses(world: World, edge: str) -> None:
    """People who find a domain or a project behind something else may ask for it itself, too."""
    for who in (who for who in PEOPLE if who not in _TURNED_AWAY):
        response = Graph(world.tokens[who]).send(f"{{ {NESTED[edge]} }}").json()
        if who in UNSEEN:
            assert SECRET not in json.dumps(response), who
        seen = found_in(response.get("data"))
        for kind, name in seen:
            text = f"{{ {_RECORDS[kind] % json.dumps(name)} }}"
            assert ask(world, who, (text, {}))[0] == 200, (who, kind, name)


def found_in(value: Any) -> set[tuple[str, str]]:
    """The domains and projects of which something beyond the name is told."""
    if isinstance(value, list):
        return {each for item in value for each in found_in(item)}
    if not isinstance(value, dict):
        return set()
    found = {each for item in value.values() for each in found_in(item)}
    at = value.get("domain")
    if isinstance(at, dict) and at.get("createdAt"):
        found.add(("domain", at["name"]))
    project = value.get("project")
    if isinstance(project, dict) and "name" in project and project.get("domain"):
        found.add(("project", f"{project['domain']['name']}/{project['name']}"))
    return found


@pytest.mark.parametrize("field", [name for name, (text, _) in QUERIES.items() if "edges" in text])
def test_no_page_tells_how_much_there_is_elsewhere(world: World, field: str) -> None:
    text = f"{{ {field} {{ edges {{ cursor }} pageInfo {{ hasNextPage hasPreviousPage }} }} }}"
    before = {who: ask(world, who, (text, {})) for who in UNSEEN}
    world.grow()
    assert {who: ask(world, who, (text, {})) for who in UNSEEN} == before
    # Nor does a cursor that another one got.
    page = Graph(world.tokens["admin"]).ask(text)[field]
    after = page["edges"][0]["cursor"]
    for who in UNSEEN:
        call = text.replace(field, f"{field}(after: {json.dumps(after)})", 1)
        cursors = json.loads(Graph(world.tokens[who]).send(call).content)
        if before[who][0] == 200:
            own = Graph(world.tokens[who]).ask(text)[field]["edges"]
            assert all(edge in own for edge in cursors["data"][field]["edges"]), who


def test_introspection_shows_the_schema_only(world: World) -> None:
    text = "{ __schema { types { name description fields { name description } } } }"
    answers = {who: Graph(world.tokens[who]).send(text).content for who in ("nobody", "admin")}
    assert answers["nobody"] == answers["admin"]
    assert SECRET.encode() not in answers["admin"]


def test_a_refusal_in_a_list_of_fields_tells_nothing_of_the_others(world: World) -> None:
    """Aliases ask for many at once: each hidden one is answered as one that is not there."""
    ids = (world.session.pk, UUID(int=7))
    fields = " ".join(f'a{n}: session(id: "{each}") {{ name }}' for n, each in enumerate(ids))
    body = Graph(world.tokens["stranger"]).post(ADDRESS, {"query": f"{{ {fields} }}"}).json()
    messages = {
        error["message"].replace(str(ids[n]), "S") for n, error in enumerate(body["errors"])
    }
    assert len(messages) == 1
    assert SECRET not in json.dumps(body)
