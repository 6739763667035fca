"""Tests of the limits of one document: each from both of its sides, and bombs."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from interfaces.graphql import limits
from sessions_app.models import Project
from tests import factories
from tests.graphs import ADDRESS, Graph


@pytest.fixture
def graph(at: Project) -> Graph:
    return Graph(factories.token(factories.user("ann", project=at)))


def deep(levels: int) -> str:
    """A query of so many levels, each of them a session's parent."""
    return '{ session(id: "x") { ' + "parentSession { " * (levels - 2) + "name" + " }" * levels


def bomb(levels: int) -> str:
    """Fragments of which each names the one below it twice: 2**levels fields."""
    parts = [
        f"fragment F{at} on Session {{ a: parentSession {{ ...F{at + 1} }} "
        f"b: parentSession {{ ...F{at + 1} }} }}"
        for at in range(levels)
    ]
    return " ".join(
        ['{ session(id: "x") { ...F0 } }', *parts, f"fragment F{levels} on Session {{ name }}"]
    )


def refused(graph: Graph, query: str, **variables: Any) -> str:
    """The message of the refusal, which came before anything was read."""
    with CaptureQueriesContext(connection) as captured:
        response = graph.send(query, **variables)
    assert response.status_code == 400
    body = response.json()
    assert "data" not in body
    error = body["errors"][0]
    assert error["extensions"]["code"] == "TOO_COMPLEX", error
    assert not [each for each in captured.captured_queries if "app_session" in each["sql"]]
    return str(error["message"])


def passed(graph: Graph, query: str, **variables: Any) -> bool:
    """Return whether it ran, whatever the result."""
    return "data" in graph.send(query, **variables).json()


def pages(sessions: object, attempts: object) -> str:
    return (
        f"query($n: Int = 500) {{ sessions(first: {sessions}) {{ edges {{ node {{"
        f" attempts(first: {attempts}) {{ edges {{ node {{ attempt }} }} }} }} }} }}"
        " viewer { username } sessions2: sessions(first: $n) { edges { cursor } } }"
    )


def test_pages_multiply(graph: Graph) -> None:
    assert "smaller pages" in refused(graph, pages(500, 500))
    assert "smaller pages" in refused(graph, pages("$n", 500))
    assert "smaller pages" in refused(graph, pages("$n", "$n"))
    assert "smaller pages" in refused(graph, pages("$n", "$n"), n=400)
    # One that is out of bounds counts as the largest one.
    assert "smaller pages" in refused(graph, pages(10**30, "$n"))
    assert passed(graph, pages(100, 100))
    assert passed(graph, pages("$n", "$n"), n=20)


def test_depth_is_limited(graph: Graph) -> None:
    assert passed(graph, "{ viewer { username } }")
    assert graph.refused(deep(limits.MAX_DEPTH))["extensions"]["code"] == "NOT_FOUND"
    assert "levels" in refused(graph, deep(limits.MAX_DEPTH + 1))
    assert refused(graph, deep(40))
    # These are too deep to be read at all.
    for levels in (1_000, 50_000):
        assert graph.send(deep(levels)).status_code == 400


@pytest.mark.parametrize("levels", [20, 24])
def test_a_bomb_of_fragments_is_refused(graph: Graph, levels: int) -> None:
    assert refused(graph, bomb(levels))


def test_circles_of_fragments_are_refused(graph: Graph) -> None:
    circle = '{ session(id: "x") { ...A } } fragment A on Session { ...B } fragment B on Session { '
    for inside in ("...A", "parentSession { ...A }", "... on Session { ...B }"):
        response = graph.send(f"{circle}{inside} }}")
        assert response.status_code == 400
        assert "data" not in response.json()


def test_aliases_and_root_fields_are_limited(graph: Graph) -> None:
    def aliased(count: int) -> str:
        inner = " ".join(f"a{at}: username" for at in range(count))
        return f"{{ viewer {{ {inner} }} }}"

    def roots(count: int) -> str:
        return f"{{ {' '.join(f'a{at}: viewer {{ username }}' for at in range(count))} }}"

    assert passed(graph, aliased(limits.MAX_ALIASES))
    assert "aliases" in refused(graph, aliased(limits.MAX_ALIASES + 1))
    assert passed(graph, roots(limits.MAX_ROOT_FIELDS))
    assert "root" in refused(graph, roots(limits.MAX_ROOT_FIELDS + 1))
    hidden = " ".join(f"... {{ a{at}: viewer {{ username }} }}" for at in range(21))
    assert "root" in refused(graph, f"{{ {hidden} }}")


def test_a_long_document_is_refused(graph: Graph) -> None:
    many = " ".join(f"f{at}" for at in range(limits.MAX_FIELDS))
    assert "fields" in refused(graph, f"{{ viewer {{ {many} }} }}")
    for text in ("username " * 50_000, "# x\n" * 600, "{" * 3_000, "[" * 3_000):
        response = graph.send(f"{{ viewer {{ {text} }} }}")
        assert response.status_code == 400
        assert response.json()["errors"][0]["extensions"]["code"] == "SYNTAX"


def test_the_same_field_again_and_again_is_soon_refused(graph: Graph) -> None:
    # Each pair of them has to be compared before it runs.
    assert passed(graph, f"{{ viewer {{ {'username ' * limits.MAX_REPEATED} }} }}")
    again = f"{{ viewer {{ {'username ' * (limits.MAX_REPEATED + 1)} }} }}"
    assert "one name" in refused(graph, again)


def test_a_schema_cannot_be_asked_in_circles(graph: Graph) -> None:
    circle = "fields { type { " * 6 + "name" + " } }" * 6
    response = graph.send(f"{{ __schema {{ types {{ {circle} }} }} }}")
    assert response.status_code == 400
    assert "data" not in response.json()


@pytest.mark.parametrize("first", [0, -1, 501, 2**31 - 1])
def test_a_page_has_bounds(graph: Graph, first: int) -> None:
    error = graph.refused("query($n: Int) { sessions(first: $n) { edges { cursor } } }", n=first)
    assert error["extensions"]["errors"] == {"first": ["must be from 1 to 500"]}


@pytest.mark.parametrize("place", ["first: N", "filter: {exitCode: N}"])
def test_a_number_has_not_too_many_digits(graph: Graph, place: str) -> None:
    asked = f"{{ sessions({place}) {{ edges {{ cursor }} }} }}"
    # With more than 4,300 of them Python gives up.
    for digits in (limits.MAX_DIGITS + 1, 5_000):
        assert "digits" in refused(graph, asked.replace("N", "9" * digits))
    assert "32-bit" in graph.refused(asked.replace("N", "9" * limits.MAX_DIGITS))["message"]
    variables = b'{"query": "query($n: Int) { sessions(first: $n) { edges { cursor } } }", '
    body = variables + b'"variables": {"n": ' + b"9" * 5_000 + b"}}"
    assert graph.post(ADDRESS, body).status_code == 400


def test_the_items_of_a_default_count(graph: Graph) -> None:
    many = """mutation($input: CancelSessionsInput! = {filter: {}}) { cancelSessions(input: $input)
        { results { session { attempts(first: 500) { edges { node { attempt } } } } } } }"""
    assert "smaller pages" in refused(graph, many)
    assert passed(graph, many.replace("filter: {}", "filter: {}, limit: 1"))


@pytest.mark.parametrize("first", [None, -1, 501])
def test_the_chains_of_a_simulation_have_bounds(graph: Graph, first: int | None) -> None:
    asked = "query($n: Int) { simulateRetryPolicy(first: $n) { __typename } }"
    error = graph.refused(asked, n=first)
    assert error["extensions"]["errors"] == {"first": ["must be from 0 to 500"]}
