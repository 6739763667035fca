"""`reprise queue`: closes and opens queues. Their settings are applied as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli.completion import complete_queue
from reprise_client.cli.kinds.queue import QueueKind
from reprise_client.cli.scope import ProjectOption, asked_scope, home_scope
from reprise_client.cli.state import client_of

if TYPE_CHECKING:
    from reprise_client.api import Client

app = typer.Typer(help="Cordon and uncordon queues.", no_args_is_help=True)

QueueArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name, or DOMAIN/PROJECT/NAME.",
        autocompletion=complete_queue,
    ),
]


@app.command()
def cordon(
    ctx: typer.Context,
    name: QueueArgument,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown to users whose sessions wait.")],
    project: ProjectOption = None,
) -> None:
    """Cordon a queue: none of its sessions starts, but it accepts new ones."""
    client = client_of(ctx)
    address = _address(client, name, project)
    client.queue_cordon(address, reason)
    typer.echo(f"queue/{address} cordoned")


@app.command()
def uncordon(ctx: typer.Context, name: QueueArgument, *, project: ProjectOption = None) -> None:
    """Uncordon a queue: its sessions start again."""
    client = client_of(ctx)
    address = _address(client, name, project)
    client.queue_uncordon(address)
    typer.echo(f"queue/{address} uncordoned")


def _address(client: Client, name: str, project: str | None) -> str:
    return QueueKind().find(client, name, home_scope(client, asked_scope(None, project))).address
