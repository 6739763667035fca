"""`reprise quota`: the quotas of a project or a domain, and their use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.output import Format, OutputOption, emit, grid, plain
from reprise_client.cli.scope import (
    DomainOption,
    ProjectOption,
    ScopeQuery,
    asked_scope,
    home_scope,
)
from reprise_client.cli.state import client_of

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Quotas

app = typer.Typer(help="Show and set the limits of a project or a domain.", no_args_is_help=True)

COUNTS = ("sessions", "pending_sessions")
NO_LIMIT = "none"


@app.command()
def show(
    ctx: typer.Context,
    *,
    domain: DomainOption = None,
    project: ProjectOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the limits of a project and of its domain, and their usage."""
    client = client_of(ctx)
    _show(client.quotas(**_scope(client, domain, project)), output)


@app.command(name="set")
def set_(
    ctx: typer.Context,
    limits: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=LIMIT...",
            help="sessions=20, pending_sessions=1000, or a resource such as memory=64Gi; "
            "NAME=none removes the limit.",
        ),
    ],
    *,
    domain: DomainOption = None,
    project: ProjectOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Change the given limits. The others stay as they are."""
    asked = dict(_named(text) for text in limits)
    counts = {name: _count(name, limit) for name, limit in asked.items() if name in COUNTS}
    resources = {name: limit for name, limit in asked.items() if name not in COUNTS}
    client = client_of(ctx)
    scope = _scope(client, domain, project)
    _show(client.quotas_change(**scope, counts=counts, resources=resources), output)


def _scope(client: Client, domain: str | None, project: str | None) -> ScopeQuery:
    query = home_scope(client, asked_scope(domain, project)).query
    if not query:
        raise CommandError("give --project DOMAIN/NAME or --domain", USAGE)
    return query


def _named(text: str) -> tuple[str, str | None]:
    name, equals, limit = text.partition("=")
    if not (name and equals and limit):
        raise CommandError(f"{text!r} is not of the form memory=64Gi", USAGE)
    return name, None if limit == NO_LIMIT else limit


def _count(name: str, limit: str | None) -> int | None:
    if limit is None:
        return None
    if not limit.isdecimal():
        raise CommandError(f"{name}: {limit!r} is not a whole number", USAGE)
    return int(limit)


def _show(quotas: Quotas, output: Format) -> None:
    emit(
        output,
        plain(quotas),
        table=lambda: grid(["QUOTA", "USED", "LIMIT", "OF"], _rows(quotas)),
        names=(each.name for each in quotas.usage),
    )


def _rows(quotas: Quotas) -> Sequence[Sequence[str]]:
    return [
        (each.name.removeprefix("resources."), each.used, each.limit, each.scope)
        for each in quotas.usage
    ]
