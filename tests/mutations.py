"""Mutations for tests, called as a client calls them."""

from typing import Any

from tests.graphs import Graph

ERRORS = "errors { field message code details }"


def change(graph: Graph, mutation: str, select: str = "", /, **given: Any) -> Any:
    """The payload of a mutation, whose input is what is given."""
    kind = mutation[0].upper() + mutation[1:]
    query = f"""mutation($input: {kind}Input!) {{
        {mutation}(input: $input) {{ {select} {ERRORS} clientMutationId }} }}"""
    return graph.ask(query, input=given)[mutation]


def done(graph: Graph, mutation: str, select: str = "", /, **given: Any) -> Any:
    """The payload of a mutation that has to work."""
    payload = change(graph, mutation, select, **given)
    assert payload["errors"] == [], payload
    return payload


def refusal(graph: Graph, mutation: str, /, **given: Any) -> tuple[str, str | None]:
    """The code and the field of the only error of a mutation that has to fail."""
    (error,) = change(graph, mutation, **given)["errors"]
    return error["code"], error["field"]
