"""`reprise retries`: the switch of a project, a domain or the cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.output import Format, OutputOption, emit, facts, plain
from reprise_client.cli.scope import (
    DomainOption,
    ProjectOption,
    Scope,
    asked_scope,
    home_scope,
)
from reprise_client.cli.state import client_of

if TYPE_CHECKING:
    from reprise_client.models import RetrySettings

_MEANS = {
    "on": "failures are retried as the policies say",
    "paused": "retries are decided, and held until the switch is on again",
    "off": "sessions that fail are not retried",
}


class Switch(StrEnum):
    """The states of the switch."""

    ON = "on"
    PAUSED = "paused"
    OFF = "off"


def retries(
    ctx: typer.Context,
    mode: Annotated[
        Switch | None,
        typer.Argument(metavar="[on|paused|off]", help="New state; without it, show it."),
    ] = None,
    *,
    project: ProjectOption = None,
    domain: DomainOption = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="Of the whole cluster.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show or set the switch of retries: paused holds them, on lets them go, off ends them.

    For example: reprise retries paused --project acme/ml
    """
    client, asked = client_of(ctx), asked_scope(domain, project)
    if cluster and asked is not None:
        raise CommandError("give either --cluster, or a project or domain", USAGE)
    scope = Scope() if cluster else home_scope(client, asked)
    if scope == Scope() and not cluster:
        raise CommandError("name the scope: --project, --domain or --cluster", USAGE)
    if mode is None:
        found = client.retry_settings(**scope.query)
    else:
        found = client.retry_settings_update(**scope.query, mode=mode.value)
    told = (f"Retries of {scope.words}", _told(found))
    emit(output, plain(found), table=lambda: facts([told]), names=[found.effective_mode])


def _told(settings: RetrySettings) -> str:
    now = settings.effective_mode
    here = "" if now == settings.mode else f", by a scope above (here they are {settings.mode})"
    return f"{now}{here}: {_MEANS.get(now, '')}"
