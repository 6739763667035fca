"""`reprise breaker`: list breakers, open, close and mute them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.output import Format, OutputOption, emit, grid, local_now, plain
from reprise_client.cli.state import client_of
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reprise_client.models import Breaker, BreakerEvent

app = typer.Typer(
    help="List signatures of failures whose retries wait; open, close and mute their breakers.",
    no_args_is_help=True,
)
ProjectOption = Annotated[
    str | None,
    typer.Option(metavar="DOMAIN/NAME", help="Project (default: the context's)."),
]
ReasonOption = Annotated[str, typer.Option(help="Reason, shown with the breaker.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A breaker, as `list` shows it.")]


class State(StrEnum):
    """The states of breakers."""

    OPEN = "open"
    CLOSED = "closed"


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    project: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN/NAME", help="Only its own (default: all you may see)."),
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only breakers in this state.")] = None,
    signature: Annotated[str | None, typer.Option(metavar="KEY", help="Only this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 50,
    output: OutputOption = Format.TABLE,
) -> None:
    """List breakers, open and closed ones, those that opened last first."""
    filters = {"project": project, "state": state, "signature": signature}
    found = list(islice(client_of(ctx).breakers(page_size=min(limit, 500), **filters), limit))
    emit(
        output,
        [plain(each) for each in found],
        table=lambda: _table(found, local_now()),
        names=(str(each.id) for each in found),
    )


@app.command("events")
def events(
    ctx: typer.Context,
    breaker: IdArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 50,
    output: OutputOption = Format.TABLE,
) -> None:
    """List when a breaker opened and closed, and why, the newest first."""
    found = list(islice(client_of(ctx).breaker_events(breaker, page_size=min(limit, 500)), limit))
    emit(
        output,
        [plain(each) for each in found],
        table=lambda: _events_table(found, local_now()),
        names=(each.type for each in found),
    )


@app.command("open")
def open_(
    ctx: typer.Context,
    signature: Annotated[str, typer.Argument(metavar="KEY", help="A signature, as of a session.")],
    *,
    project: ProjectOption = None,
    queue: Annotated[str | None, typer.Option(help="Only for this queue of the project.")] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="For all projects.")] = False,
    reason: ReasonOption = "",
) -> None:
    """Let retries of such failures wait until a probe succeeds or somebody closes the breaker."""
    client = client_of(ctx)
    meant = None if cluster else project or client.project
    if meant is None and not cluster:
        raise CommandError("name a project with --project, or give --cluster", USAGE)
    made = client.breaker_open(signature, project=meant, queue=queue, reason=reason)
    typer.echo(f"breaker/{made.id} is open")


@app.command("close")
def close(
    ctx: typer.Context,
    breaker: IdArgument,
    *,
    reason: ReasonOption = "",
    mute: Annotated[
        bool, typer.Option("--mute", help="It does not open by itself any more.")
    ] = False,
) -> None:
    """Close a breaker. What it held goes on."""
    made = client_of(ctx).breaker_close(breaker, reason=reason, mute=mute)
    typer.echo(f"breaker/{made.id} is closed{' and muted' if made.muted else ''}")


@app.command("mute")
def mute(ctx: typer.Context, breaker: IdArgument) -> None:
    """Keep a breaker from opening by itself. One that is open stays open."""
    made = client_of(ctx).breaker_mute(breaker)
    typer.echo(f"breaker/{made.id} is muted")


@app.command("unmute")
def unmute(ctx: typer.Context, breaker: IdArgument) -> None:
    """Let a muted breaker open by itself again."""
    made = client_of(ctx).breaker_unmute(breaker)
    typer.echo(f"breaker/{made.id} is no longer muted")


def _events_table(found: Iterable[BreakerEvent], now: datetime) -> RenderableType:
    return grid(
        ["AT", "WHAT", "CHAINS", "BY", "WHY"],
        ([when(each.at, now), each.type, str(each.chains), each.by, each.reason] for each in found),
    )


def _table(found: Iterable[Breaker], now: datetime) -> RenderableType:
    return grid(
        ["ID", "SCOPE", "SIGNATURE", "STATE", "HELD", "OPENED", "PROBES", "NEXT PROBE", "WHY"],
        (
            [
                str(each.id),
                "/".join(filter(None, (each.project, each.queue))) or "cluster",
                each.signature,
                f"{each.state}, muted" if each.muted else each.state,
                str(each.held),
                when(each.opened_at, now),
                str(each.probes),
                when(each.probe_at, now),
                each.reason,
            ]
            for each in found
        ),
    )
