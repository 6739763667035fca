"""`reprise session graph`: what a session waits for, and what waits for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.console import RenderableType

from reprise_client.cli.output import Format, OutputOption, emit, grid, note, plain, status_text
from reprise_client.cli.state import IdArgument, client_of, session_id
from reprise_client.cli.text import Text

if TYPE_CHECKING:
    from reprise_client.models import DependencyEdge, DependencyGraph, DependencyNode

_NAMED = 5


def graph(
    ctx: typer.Context,
    typed: IdArgument,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the sessions that a session waits for, and those that wait for it."""
    client = client_of(ctx)
    found = client.graph(session_id(client, typed))
    names = [node.session_id for node in found.nodes]
    emit(output, plain(found), table=lambda: graph_table(found), names=names)
    if found.truncated:
        note("there are more than 1,000; these are the nearest")


def graph_table(found: DependencyGraph) -> RenderableType:
    """Return a row for each chain, with what it waits for; those that wait for nothing first."""
    nodes = {node.session_id: node for node in found.nodes}
    waits: dict[str, list[DependencyEdge]] = defaultdict(list)
    for edge in found.edges:
        waits[edge.session_id].append(edge)
    return grid(
        ["ID", "NAME", "STATUS", "CAUSE", "WAITS FOR"],
        (
            [
                node.session_id,
                _name(node),
                status_text(node.status) if node.status else Text("archived"),
                node.retry_cause or "",
                ", ".join(_wait(edge, nodes) for edge in waits[node.session_id]),
            ]
            for node in found.nodes
        ),
    )


def _name(node: DependencyNode) -> str:
    own = node.name or node.creation_id
    return "" if own == node.session_id else own


def _wait(edge: DependencyEdge, nodes: dict[str, DependencyNode]) -> str:
    parent = nodes.get(edge.depends_on)
    name = (_name(parent) if parent else "") or edge.depends_on
    if not edge.outcome:
        return f"{name} (not yet {edge.when})"
    return f"{name} ({edge.outcome})" if edge.met else f"{name} ({edge.outcome}, not {edge.when})"


def downstream_words(ids: Sequence[str], *, dry: bool) -> str:
    """Return how many sessions downstream a retry takes along, with the first of them."""
    verb = "would be retried" if dry else "retried"
    named = f": {', '.join(ids[:_NAMED])}{', ...' if len(ids) > _NAMED else ''}" if ids else ""
    return f"{len(ids)} downstream {verb}{named}"
