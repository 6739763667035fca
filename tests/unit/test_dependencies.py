"""Dependencies as values: circles, refusals that go down, and what a run is told."""

import json
from itertools import pairwise
from typing import Any
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.dependencies import (
    MOST,
    TOLD_BYTES,
    TRUNCATED,
    VARIABLE,
    in_circles,
    refused_with,
    variables,
)

GRAPHS = st.dictionaries(
    st.integers(0, 7), st.lists(st.integers(0, 9), max_size=3, unique=True), max_size=8
)


def reached(graph: dict[int, list[int]], start: int) -> set[int]:
    """All that a node waits for, also through others."""
    seen: set[int] = set()
    front = [start]
    while front:
        for each in graph.get(front.pop(), []):
            if each not in seen:
                seen.add(each)
                front.append(each)
    return seen


@given(GRAPHS)
def test_what_waits_for_a_circle_is_found_with_one(graph: dict[int, list[int]]) -> None:
    on_circles = {node for node in graph if node in reached(graph, node)}
    stuck = {node for node in graph if node in on_circles or reached(graph, node) & on_circles}
    found = in_circles(graph)
    assert found.keys() == stuck
    for node, circle in found.items():
        assert circle[0] == circle[-1]
        assert all(after in graph[before] for before, after in pairwise(circle))
        assert node in circle or set(circle) <= reached(graph, node)


@given(GRAPHS, st.sets(st.integers(0, 7), max_size=3))
def test_what_waits_for_refused_ones_is_refused_with_them(
    graph: dict[int, list[int]], refused: set[int]
) -> None:
    found = refused_with(graph, refused)
    assert found.keys() == {n for n in graph if reached(graph, n) & refused} - refused
    assert all(on in graph[node] for node, on in found.items())


def entry(creation_id: str, **more: Any) -> dict[str, Any]:
    return {"id": str(uuid4()), "creation_id": creation_id, "status": "TERMINATED"} | more


def test_the_variable_is_cut_after_a_whole_entry() -> None:
    few = [entry("a", exit_code=0), entry("b", exit_code=None)]
    assert variables([]) == {}
    assert json.loads(variables(few)[VARIABLE]) == few
    assert TRUNCATED not in variables(few)
    # Escaped, each of these letters is six bytes.
    many = [entry("\u00e4" * 255) for _ in range(MOST)]
    told = variables(many)
    assert told[TRUNCATED] == "1"
    assert TOLD_BYTES - 2_000 < len(told[VARIABLE].encode()) <= TOLD_BYTES
    kept = json.loads(told[VARIABLE])
    assert kept == many[: len(kept)]


def test_the_limit_itself_is_allowed() -> None:
    alone = len(variables([entry("")])[VARIABLE])
    assert TRUNCATED not in variables([entry("x" * (TOLD_BYTES - alone))])
    told = variables([entry("x" * (TOLD_BYTES - alone + 1))])
    assert told == {VARIABLE: "[]", TRUNCATED: "1"}
