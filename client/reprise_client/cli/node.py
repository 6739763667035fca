"""`reprise node`: list nodes, put them into quarantine, and release them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli.completion import complete_executor
from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.output import Format, OutputOption, emit, facts, grid, local_now, plain
from reprise_client.cli.state import client_of
from reprise_client.cli.text import Text
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reprise_client.models import ClusterNode, NodeFigures, NodeShare

app = typer.Typer(
    help="List nodes with how attempts ended there; quarantine and release them.",
    no_args_is_help=True,
)
NodeArgument = Annotated[str, typer.Argument(metavar="EXECUTOR/NODE", help="A node.")]


MOST_FAIL, MANY_FAIL = 0.5, 0.2
"""The parts of failed attempts from which on the list shows them in another colour."""


class State(StrEnum):
    """The states of nodes."""

    OPEN = "open"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    executor: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_executor, help="Only its nodes."),
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only nodes in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 200,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the nodes of executors, and which of them are suspect or in quarantine.

    Those of whose attempts the largest part failed come first, if you may see that.
    """
    filters = {"executor": executor, "state": state, "page_size": min(limit, 500)}
    found = list(islice(client_of(ctx).nodes(**filters), limit))
    emit(
        output,
        [plain(each) for each in found],
        table=lambda: _table(found, local_now()),
        names=(_address(each) for each in found),
    )


@app.command()
def info(ctx: typer.Context, node: NodeArgument, *, output: OutputOption = Format.TABLE) -> None:
    """Show one node: its state with the reason, and how attempts ended there."""
    found = client_of(ctx).node(*_parts(node))
    emit(
        output,
        [plain(found)],
        table=lambda: _one(found, local_now()),
        names=[_address(found)],
    )


@app.command()
def quarantine(
    ctx: typer.Context,
    node: NodeArgument,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown to cluster admins.")],
) -> None:
    """Give a node no new sessions until it is released. Running sessions continue."""
    client_of(ctx).node_quarantine(*_parts(node), reason)
    typer.echo(f"node/{node} is in quarantine")


@app.command()
def release(ctx: typer.Context, node: NodeArgument) -> None:
    """End the quarantine and the suspicion of a node. What it did before counts no longer."""
    client_of(ctx).node_release(*_parts(node))
    typer.echo(f"node/{node} released")


def _parts(node: str) -> tuple[str, str]:
    executor, slash, name = node.partition("/")
    if not (executor and slash and name):
        raise CommandError(f"{node}: name a node as EXECUTOR/NODE", USAGE)
    return executor, name


def _address(node: ClusterNode) -> str:
    return f"{node.executor}/{node.name}"


def _table(found: Iterable[ClusterNode], now: datetime) -> RenderableType:
    return grid(
        ["NODE", "STATE", "UNTIL", "FAILED", "CHAINS", "CAUSES", "WHY"],
        (
            [
                _address(each),
                each.state if each.present else f"{each.state}, not reported",
                when(each.suspected_until, now),
                _failed(each.figures) if each.figures else "",
                str(each.figures.chains) if each.figures else "",
                _shares(each.figures.causes) if each.figures else "",
                each.quarantine_reason or each.reason,
            ]
            for each in found
        ),
    )


def _one(node: ClusterNode, now: datetime) -> RenderableType:
    counted = node.figures
    return facts(
        [
            ("Node", _address(node)),
            ("State", node.state),
            ("Reported", "yes" if node.present else "no"),
            ("Suspect until", when(node.suspected_until, now)),
            ("Why", node.reason),
            ("Quarantine", node.quarantine_reason),
            ("By", node.quarantined_by),
            ("Failed", f"{counted.failures} of {counted.attempts} attempts" if counted else ""),
            ("Chains", str(counted.chains) if counted else ""),
            ("Causes", _shares(counted.causes) if counted else ""),
            ("Signatures", _shares(counted.signatures) if counted else ""),
        ]
    )


def _failed(counted: NodeFigures) -> Text:
    share = counted.failures / counted.attempts if counted.attempts else 0.0
    style = "red" if share >= MOST_FAIL else "yellow" if share >= MANY_FAIL else ""
    return Text(f"{counted.failures} of {counted.attempts} ({share:.0%})", style)


def _shares(found: Sequence[NodeShare]) -> str:
    return ", ".join(f"{each.value} ({each.failures})" for each in found)
