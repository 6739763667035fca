"""Dependencies of chains on others, as values. Pure."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from sessions_app.core.states import RetryState

MOST = 256
"""Most dependencies of one chain."""
TOLD_BYTES = 64 * 1024
"""Most bytes of the variable that tells a run of its dependencies."""
VARIABLE = "REPRISE_DEPENDENCIES"
TRUNCATED = "REPRISE_DEPENDENCIES_TRUNCATED"

OUTCOMES = {
    RetryState.SUCCEEDED: "succeeded",
    RetryState.EXHAUSTED: "failed",
    RetryState.NOT_RETRIED: "failed",
    RetryState.CANCELLED: "cancelled",
}
"""The outcome of a chain, by the retry state of its newest attempt. In other states it has none."""
Node = TypeVar("Node")


class Wanted(NamedTuple):
    """A dependency as it was asked for: the id or `creation_id` of a session, and the outcome."""

    session: str
    when: str


class Parent(NamedTuple):
    """A chain that is waited for; without an outcome the values of its end are None."""

    root_id: UUID
    creation_id: str
    digest: str = ""
    outcome: str = ""
    tip_id: UUID | None = None
    status: str | None = None
    exit_code: int | None = None


def parent_logged(root_id: UUID, tip_id: UUID, facts: Mapping[str, Any]) -> Parent:
    """Return a chain that exists only in the log, given the facts of its newest attempt."""
    outcome = OUTCOMES[RetryState(facts["retry_state"])]
    seen = outcome, tip_id, facts["status"], facts.get("exit_code")
    return Parent(root_id, facts["creation_id"], "", *seen)


def parent_forgotten(root_id: UUID) -> Parent:
    """Return a chain that not even the log knows any more. It counts as failed."""
    return Parent(root_id, "", "", "failed")


def is_met(when: str, outcome: str) -> bool:
    """Return whether an outcome is the one that is waited for."""
    return when in ("ended", outcome)


def in_circles(graph: Mapping[Node, Sequence[Node]]) -> dict[Node, list[Node]]:
    """Return the nodes that can never begin, each with a circle that it waits for.

    `graph` has what each node waits for; the last element of a circle is its first again.
    """
    left = _never_ready(graph)
    circles: dict[Node, list[Node]] = {}
    for start in graph:
        if start not in left or start in circles:
            continue
        # What is left waits for something that is left, so each walk ends in a circle.
        path: dict[Node, None] = {}
        node = start
        while node not in path and node not in circles:
            path[node] = None
            node = next(each for each in graph[node] if each in left)
        circle = circles.get(node) or _closed([*path], node)
        for each in path:
            circles[each] = _turned(circle, each)
    return circles


def _never_ready(graph: Mapping[Node, Sequence[Node]]) -> set[Node]:
    waits = {node: {each for each in needed if each in graph} for node, needed in graph.items()}
    dependants: dict[Node, list[Node]] = defaultdict(list)
    for node, needed in waits.items():
        for each in needed:
            dependants[each].append(node)
    ready = [node for node, needed in waits.items() if not needed]
    while ready:
        done = ready.pop()
        del waits[done]
        for node in dependants[done]:
            waits[node].discard(done)
            if not waits[node]:
                ready.append(node)
    return set(waits)


def _closed(path: list[Node], again: Node) -> list[Node]:
    return [*path[path.index(again) :], again]


def _turned(circle: list[Node], first: Node) -> list[Node]:
    """Return the circle from one of its nodes on; as it is, if the node is not in it."""
    if first not in circle:
        return circle
    at = circle.index(first)
    return [*circle[at:-1], *circle[:at], first]


def refused_with(graph: Mapping[Node, Sequence[Node]], refused: Iterable[Node]) -> dict[Node, Node]:
    """Return the nodes that wait for refused ones, also through others, each with one of those."""
    dependants: dict[Node, list[Node]] = defaultdict(list)
    for node, needed in graph.items():
        for each in needed:
            dependants[each].append(node)
    found: dict[Node, Node] = {}
    front = list(refused)
    seen = set(front)
    while front:
        node = front.pop()
        for each in dependants[node]:
            if each not in seen:
                seen.add(each)
                found[each] = node
                front.append(each)
    return found


def variables(dependencies: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the variables that tell a run of its dependencies; none without any.

    What is too long is cut after a whole entry.
    """
    if not dependencies:
        return {}
    texts: list[str] = []
    size = 2
    for each in dependencies:
        text = json.dumps(each, separators=(",", ":"))
        size += len(text) + bool(texts)
        if size > TOLD_BYTES:
            return {VARIABLE: f"[{','.join(texts)}]", TRUNCATED: "1"}
        texts.append(text)
    return {VARIABLE: f"[{','.join(texts)}]"}
